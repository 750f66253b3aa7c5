/* SPDX-License-Identifier: MIT */
/*
 * The log's descriptor is a high-numbered duplicate of descriptor 2 or an opened file. A
 * program may close it, or get its number for something else: before each line the file
 * behind the number is compared with the one remembered, and opened anew if it differs.
 *
 * What the log writes to isn't the program's choice: no line may raise a signal or wait for a
 * reader.
 */
#include "base/log.h"
#include "base/clock.h"
#include "base/highfd.h"
#include "base/rawsys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024
#define LINES_PER_SECOND 100

_Atomic int xs_log_level = XS_LOG_OFF;

const char *const xs_log_level_names[XS_LOG_LEVELS] = {
	[XS_LOG_OFF] = "off",	[XS_LOG_ERROR] = "error", [XS_LOG_WARN] = "warn",
	[XS_LOG_INFO] = "info", [XS_LOG_DEBUG] = "debug",
};

struct identity {
	uint64_t dev, ino;
};

/* Written at init; afterwards only by the thread that has `busy`. */
static struct {
	const char *path; /* NULL: stderr */
	struct identity file;
	int pid; /* that a %p was made for */
	bool per_pid;
} target;

static _Atomic int log_fd = -1;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static _Atomic uint64_t window; /* second << 32 | lines in it */
static _Atomic uint32_t dropped;

static bool identify(int fd, struct identity *id)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	id->dev = st.st_dev;
	id->ino = st.st_ino;
	return true;
}

static bool same_file(int fd)
{
	struct identity id;

	return identify(fd, &id) && id.dev == target.file.dev && id.ino == target.file.ino;
}

/* The path with %p replaced; false if it doesn't fit. */
static bool expand(char *out, size_t room)
{
	const char *mark = strstr(target.path, "%p");
	int n;

	if (mark)
		n = snprintf(out, room, "%.*s%d%s", (int)(mark - target.path), target.path,
			     target.pid, mark + 2);
	else
		n = snprintf(out, room, "%s", target.path);
	return n > 0 && (size_t)n < room;
}

static int open_path(void)
{
	char path[1024];

	target.pid = getpid();
	if (!expand(path, sizeof(path)))
		return -1;
	return (int)xs_sys(__NR_openat, AT_FDCWD, path,
			   O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
}

/* Descriptor 2 counts only as long as it's the file that it was when the program started. */
static int open_target(bool first)
{
	if (target.path)
		return xs_highfd(open_path());
	if (!first && !same_file(STDERR_FILENO))
		return -1;
	return xs_highfd((int)xs_sys(__NR_fcntl, STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
}

static void reopen(bool first)
{
	int fd = open_target(first);

	if (fd >= 0)
		identify(fd, &target.file);
	atomic_store_explicit(&log_fd, fd, memory_order_release);
}

/* A descriptor that is surely ours, or -1. Who finds another thread busy does without. */
static int checked_fd(void)
{
	int fd = atomic_load_explicit(&log_fd, memory_order_acquire);
	bool ours = fd >= 0 && same_file(fd);
	bool stale = target.per_pid && target.pid != getpid();

	if (ours && !stale)
		return fd;
	if (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
		return -1;
	xs_highfd_gone(fd);
	if (ours)
		xs_sys(__NR_close, fd);
	reopen(false);
	atomic_flag_clear_explicit(&busy, memory_order_release);
	return atomic_load_explicit(&log_fd, memory_order_acquire);
}

/* Not so: a full pipe, one that nobody reads any more, a stopped terminal. */
static bool has_room(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	struct timespec none = {0};

	return xs_sys(__NR_ppoll, &p, 1, &none, 0, sizeof(uint64_t)) == 1 && p.revents == POLLOUT;
}

/* The reader may go even now, and a file may have reached the limit: such a signal is taken back.
 */
static bool write_quietly(int fd, const char *line, int n)
{
	const uint64_t both = 1ull << (SIGPIPE - 1) | 1ull << (SIGXFSZ - 1);
	const struct timespec none = {0};
	uint64_t mask, pending = 0, raised = 0;
	long r;

	xs_sys(__NR_rt_sigprocmask, SIG_BLOCK, &both, &mask, sizeof(mask));
	xs_sys(__NR_rt_sigpending, &pending, sizeof(pending));
	r = xs_sys(__NR_write, fd, line, n);
	if (r == -EPIPE)
		raised = 1ull << (SIGPIPE - 1);
	else if (r == -EFBIG)
		raised = 1ull << (SIGXFSZ - 1);
	raised &= ~pending;
	if (raised)
		xs_sys(__NR_rt_sigtimedwait, &raised, 0, &none, sizeof(raised));
	xs_sys(__NR_rt_sigprocmask, SIG_SETMASK, &mask, 0, sizeof(mask));
	return r == n;
}

static bool put_line(const char *line, int n)
{
	int fd = checked_fd();

	return fd >= 0 && has_room(fd) && write_quietly(fd, line, n);
}

static void tell_dropped(void)
{
	uint32_t n = atomic_exchange_explicit(&dropped, 0, memory_order_relaxed);
	char line[80];

	if (n && !put_line(line, snprintf(line, sizeof(line), "xshim[%d] warn %u lines dropped\n",
					  (int)getpid(), n)))
		atomic_fetch_add_explicit(&dropped, n, memory_order_relaxed);
}

static bool allowed(void)
{
	uint64_t second = xs_now_ns() / XS_NS_PER_S;
	uint64_t old = atomic_load_explicit(&window, memory_order_relaxed);
	uint64_t next;

	do {
		next = old >> 32 == second ? old + 1 : second << 32 | 1;
		if ((uint32_t)next > LINES_PER_SECOND) {
			atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(&window, &old, next, memory_order_relaxed,
							memory_order_relaxed));
	if ((uint32_t)next == 1)
		tell_dropped();
	return true;
}

void xs_log_line(enum xs_log_level level, const char *fmt, ...)
{
	int saved = errno, n, m;
	char line[LINE_MAX_BYTES];
	va_list ap;

	if (!allowed())
		return;
	n = snprintf(line, sizeof(line), "xshim[%d] %s ", (int)getpid(), xs_log_level_names[level]);
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (m > 0)
		n += m;
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (!put_line(line, n))
		atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
	errno = saved;
}

void xs_log_fork_child(void)
{
	atomic_flag_clear_explicit(&busy, memory_order_relaxed);
}

void xs_log_init(enum xs_log_level level, const char *file)
{
	if (level > XS_LOG_OFF) {
		target.path = strcmp(file, "stderr") ? file : NULL;
		target.per_pid = target.path && strstr(target.path, "%p");
		reopen(true);
	}
	atomic_store_explicit(&xs_log_level, (int)level, memory_order_relaxed);
}

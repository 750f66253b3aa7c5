/* SPDX-License-Identifier: MIT */
/*
 * The state file's life. It is mapped once at its greatest length, far beyond its end, so that rows
 * never move; touching what lies behind the end would be SIGBUS, so blocks are allocated (not just
 * the length set) before any row in them is handed out: a full file system gives an error here and
 * nothing later. No descriptor is kept: programs close what they don't know.
 */
#include "sock/statefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/config.h"
#include "base/log.h"
#include "base/rawsys.h"

#define FIRST_SIZE 4096 /* grows fourfold */
#define FULL_SIZE (sizeof(struct xshim_state) + XS_STATE_ROWS * sizeof(struct xshim_conn))

static struct {
	char path[XS_CONF_PATH + 64];
	dev_t dev;
	ino_t ino;
	size_t size;
	int pid;
} file;

static uint32_t rows_in(size_t size)
{
	return (uint32_t)((size - sizeof(struct xshim_state)) / sizeof(struct xshim_conn));
}

bool xs_statefile_allowed(uint64_t size)
{
	struct rlimit lim;

	return xs_sys(__NR_prlimit64, 0, RLIMIT_FSIZE, 0, &lim) == 0 && size <= lim.rlim_cur;
}

/* Where a file system can't allocate, zeros do it. */
static int write_zeros(int fd, size_t from, size_t to)
{
	static const char zeros[4096];
	long n;

	while (from < to) {
		size_t part = to - from < sizeof(zeros) ? to - from : sizeof(zeros);

		n = xs_sys(__NR_pwrite64, fd, zeros, part, from);
		if (n <= 0)
			return n < 0 ? (int)n : -ENOSPC;
		from += (size_t)n;
	}
	return 0;
}

static int extend(int fd, size_t from, size_t to)
{
	long r;

	if (!xs_statefile_allowed(to))
		return -EFBIG;
	do
		r = xs_sys(__NR_fallocate, fd, 0, from, to - from);
	while (r == -EINTR);
	if (r == -EOPNOTSUPP || r == -ENOSYS)
		return write_zeros(fd, from, to);
	return (int)r;
}

/* What an earlier program of this very process left at its exec gives way. */
static int create(void)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	long fd = xs_sys(__NR_openat, AT_FDCWD, file.path, flags, 0600);

	if (fd == -EEXIST && xs_sys(__NR_unlinkat, AT_FDCWD, file.path, 0) == 0)
		fd = xs_sys(__NR_openat, AT_FDCWD, file.path, flags, 0600);
	return (int)fd;
}

static void complain(long error)
{
	XS_LOG(WARN, "%s: %s: xshim stat won't show this process", file.path,
	       strerrordesc_np((int)-error));
}

static struct xshim_state *map(int fd)
{
	struct stat st;
	void *at;
	int r;

	xs_sys(__NR_fchmod, fd, 0600); /* whatever the umask is */
	r = fstat(fd, &st) < 0 ? -errno : extend(fd, 0, FIRST_SIZE);
	if (r < 0) {
		complain(r);
		return NULL;
	}
	at = mmap(NULL, FULL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		complain(-errno);
		return NULL;
	}
	file.dev = st.st_dev;
	file.ino = st.st_ino;
	file.size = FIRST_SIZE;
	return at;
}

struct xshim_state *xs_statefile_make(const struct xshim_state *head)
{
	struct xshim_state *state;
	int n, fd;

	n = snprintf(file.path, sizeof(file.path), "%s/xshim.%u.%d.%llu", xs_config()->stats_dir,
		     head->uid, head->pid, (unsigned long long)head->starttime);
	if (n >= (int)sizeof(file.path) || !xs_config()->stats_dir[0])
		return NULL;
	fd = create();
	if (fd < 0) {
		complain(fd);
		return NULL;
	}
	state = map(fd);
	xs_sys(__NR_close, fd);
	if (!state) {
		xs_sys(__NR_unlinkat, AT_FDCWD, file.path, 0);
		return NULL;
	}
	file.pid = head->pid;
	memcpy(state, head, sizeof(*state));
	atomic_store_explicit(&state->rows, rows_in(file.size), memory_order_relaxed);
	atomic_store_explicit(&state->magic, XSHIM_STATE_MAGIC, memory_order_release);
	return state;
}

static bool is_ours(const struct stat *st)
{
	return st->st_dev == file.dev && st->st_ino == file.ino;
}

bool xs_statefile_grow(struct xshim_state *state)
{
	size_t size = file.size * 4 < FULL_SIZE ? file.size * 4 : FULL_SIZE;
	struct stat st;
	bool done = false;
	int fd;

	if (size == file.size)
		return false;
	fd = (int)xs_sys(__NR_openat, AT_FDCWD, file.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && is_ours(&st))
		done = extend(fd, file.size, size) == 0;
	xs_sys(__NR_close, fd);
	if (done) {
		file.size = size;
		atomic_store_explicit(&state->rows, rows_in(size), memory_order_release);
	}
	return done;
}

const char *xs_statefile_path(void)
{
	return file.path;
}

void xs_statefile_unlink(void)
{
	struct stat st;

	if (file.pid == xs_sys(__NR_getpid) && lstat(file.path, &st) == 0 && is_ours(&st))
		xs_sys(__NR_unlinkat, AT_FDCWD, file.path, 0);
	file.pid = 0;
}

void xs_statefile_forget(struct xshim_state *state)
{
	munmap(state, FULL_SIZE);
	file.pid = 0;
}

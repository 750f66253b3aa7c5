/* SPDX-License-Identifier: MIT */
/* The log: levels, one line per message, the limit, %p, and a program that closes its descriptor.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static char dir[] = "/tmp/xshim-unit-log-XXXXXX";
static char pattern[256], path[256];
static char text[65536];

static void read_log(void)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static int lines(void)
{
	int n = 0;

	for (const char *at = text; (at = strchr(at, '\n')); at++)
		n++;
	return n;
}

/* The descriptor that the log uses, found by its file. */
static int log_descriptor(void)
{
	struct stat want, have;

	if (stat(path, &want) < 0)
		return -1;
	for (int fd = 3; fd < 4096; fd++)
		if (!fstat(fd, &have) && have.st_ino == want.st_ino && have.st_dev == want.st_dev)
			return fd;
	return -1;
}

static void test_levels(void)
{
	char expected[128];

	xs_log_init(XS_LOG_WARN, pattern);
	errno = EXDEV;
	XS_LOG(INFO, "not this");
	XS_LOG(WARN, "fd=%d %s", 8, "this");
	CHECK_EQ(errno, EXDEV);
	read_log();
	snprintf(expected, sizeof(expected), "xshim[%d] warn fd=8 this\n", (int)getpid());
	CHECK_STR(text, expected);
}

static void test_descriptor(void)
{
	int fd = log_descriptor();

	CHECK(fd > 63);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	XS_LOG(ERROR, "again");
	read_log();
	CHECK(strstr(text, "error again\n") != NULL);
}

/* The program got our number for a file of its own: nothing may be written there. */
static void test_stolen_number(void)
{
	int fd = log_descriptor();
	char other[300];
	struct stat st;

	snprintf(other, sizeof(other), "%s/other", dir);
	dup2(open(other, O_RDWR | O_CREAT, 0600), fd);
	XS_LOG(ERROR, "third");
	read_log();
	CHECK(strstr(text, "error third\n") != NULL);
	CHECK(fstat(fd, &st) == 0 && st.st_size == 0);
	unlink(other);
}

static void test_long_line(void)
{
	char longer[5000];

	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	XS_LOG(ERROR, "%s", longer);
	read_log();
	CHECK(text[strlen(text) - 1] == '\n');
	CHECK(strlen(text) < 2048);
}

static void test_limit(void)
{
	time_t begun = time(NULL);
	int before, seconds;

	read_log();
	before = lines();
	for (int i = 0; i < 5000; i++)
		XS_LOG(ERROR, "line %d", i);
	read_log();
	/* One second more than have begun may be touched. */
	seconds = (int)(time(NULL) - begun) + 2;
	CHECK(lines() - before <= 101 * seconds);
	CHECK(lines() - before >= 80);
}

/* In a child: 0 if it lived through some lines on `fd` as its stderr; a signal shows as 128 + n. */
static int outcome(int fd, void (*before)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(60); /* one that waits is ended */
		signal(SIGPIPE, SIG_DFL);
		signal(SIGXFSZ, SIG_DFL);
		dup2(fd, STDERR_FILENO);
		if (before)
			before();
		xs_log_init(XS_LOG_WARN, "stderr");
		for (int i = 0; i < 3; i++)
			XS_LOG(ERROR, "line %d", i);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A SIGPIPE of the program's own, which it has blocked, stays pending. */
static void with_own_signal(void)
{
	const struct timespec none = {0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGPIPE);
	xs_log_init(XS_LOG_WARN, "stderr");
	XS_LOG(ERROR, "nobody reads this");
	if (sigtimedwait(&set, NULL, &none) != SIGPIPE)
		_exit(1);
	XS_LOG(ERROR, "nor this");
	if (sigtimedwait(&set, NULL, &none) != -1)
		_exit(2);
}

static void test_nobody_reads(void)
{
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	close(ends[0]);
	CHECK_EQ(outcome(ends[1], NULL), 0);
	CHECK_EQ(outcome(ends[1], with_own_signal), 0);
	close(ends[1]);
}

static void test_full_pipe(void)
{
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	while (write(ends[1], text, 4096) > 0)
		;
	CHECK_EQ(fcntl(ends[1], F_SETFL, 0), 0);
	CHECK_EQ(outcome(ends[1], NULL), 0);
	close(ends[0]);
	close(ends[1]);
}

static void forbid_growth(void)
{
	const struct rlimit none = {0, 0};

	setrlimit(RLIMIT_FSIZE, &none);
}

static void test_file_limit(void)
{
	char other[300];
	int fd;

	snprintf(other, sizeof(other), "%s/other", dir);
	fd = open(other, O_RDWR | O_CREAT, 0600);
	CHECK_EQ(outcome(fd, forbid_growth), 0);
	CHECK_EQ(outcome(fd, NULL), 0);
	CHECK_EQ(lseek(fd, 0, SEEK_END) > 0, 1);
	close(fd);
	unlink(other);
}

static void log_into_fifo(void)
{
	char name[300];

	snprintf(name, sizeof(name), "%s/fifo", dir);
	xs_log_init(XS_LOG_WARN, name);
	XS_LOG(ERROR, "nobody reads this");
}

static void test_fifo(void)
{
	char name[300];
	int fd;

	snprintf(name, sizeof(name), "%s/fifo", dir);
	CHECK_EQ(mkfifo(name, 0600), 0);
	fd = open("/dev/null", O_WRONLY);
	CHECK_EQ(outcome(fd, log_into_fifo), 0);
	close(fd);
	unlink(name);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 2;
	snprintf(pattern, sizeof(pattern), "%s/log.%%p.txt", dir);
	snprintf(path, sizeof(path), "%s/log.%d.txt", dir, (int)getpid());
	test_levels();
	test_descriptor();
	test_stolen_number();
	test_long_line();
	test_nobody_reads();
	test_full_pipe();
	test_file_limit();
	test_fifo();
	test_limit();
	unlink(path);
	rmdir(dir);
	return check_done();
}

/* SPDX-License-Identifier: MIT */
/* The log: levels, one line per message, the limit, %p, and a program that closes its descriptor.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
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
	int before;

	read_log();
	before = lines();
	for (int i = 0; i < 5000; i++)
		XS_LOG(ERROR, "line %d", i);
	read_log();
	/* Two seconds may be touched. */
	CHECK(lines() - before <= 201);
	CHECK(lines() - before >= 80);
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
	test_limit();
	unlink(path);
	rmdir(dir);
	return check_done();
}

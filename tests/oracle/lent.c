/* SPDX-License-Identifier: MIT */
/*
 * TCP_USER_TIMEOUT and keepalive on a connection that has moved: the program sees its own values,
 * whatever stands on the kernel's socket meanwhile, and finds them there again after a return.
 * Bytes that nobody reads don't wait longer for their acknowledgement than TCP would let them.
 */
#include <dlfcn.h>
#include <time.h>

#include "oracle.h"

static char buf[20000];

static const struct {
	int level, name;
	const char *text;
	int moved; /* what the kernel's socket has while the stream is off it */
} options[] = {
	{IPPROTO_TCP, TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT", 0},
	{SOL_SOCKET, SO_KEEPALIVE, "SO_KEEPALIVE", 1},
	{IPPROTO_TCP, TCP_KEEPIDLE, "TCP_KEEPIDLE", 100},
	{IPPROTO_TCP, TCP_KEEPINTVL, "TCP_KEEPINTVL", 75},
	{IPPROTO_TCP, TCP_KEEPCNT, "TCP_KEEPCNT", 127},
};

/* libc's tcp_info ends before these. */
enum { BYTES_ACKED = 120, BYTES_RECEIVED = 128 };

static long info(int fd, size_t at)
{
	char ti[136];
	socklen_t n = sizeof(ti);
	uint64_t value;

	MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, ti, &n));
	memcpy(&value, ti + at, sizeof(value));
	return (long)value;
}

static int ours(int fd, int i)
{
	int value = -1;
	socklen_t n = sizeof(value);

	MUST(getsockopt(fd, options[i].level, options[i].name, &value, &n));
	return value;
}

/* libc's own call: nobody's door. */
static int kernels(int fd, int i)
{
	static int (*real)(int, int, int, void *, socklen_t *);
	int value = -1;
	socklen_t n = sizeof(value);

	if (!real) {
		void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

		*(void **)&real = libc ? dlsym(libc, "getsockopt") : NULL;
	}
	if (!real || real(fd, options[i].level, options[i].name, &value, &n))
		oracle_die("libc's getsockopt", errno);
	return value;
}

/* `moved`: the sending direction is off the kernel, if the plane isn't the kernel's. */
static void look(const char *when, int fd, int moved)
{
	for (unsigned i = 0; i < sizeof(options) / sizeof(*options); i++) {
		int want = moved && oracle_fast() ? options[i].moved : ours(fd, (int)i);

		say("%s: %s %d, on the socket %s", when, options[i].text, ours(fd, (int)i),
		    kernels(fd, (int)i) == want ? "as it should be" : "wrong");
	}
}

static void set(int fd, int i, int value)
{
	MUST(setsockopt(fd, options[i].level, options[i].name, &value, sizeof(value)));
}

/* How long the warm-up was is another number each time. */
static void counts(const char *when, int fd)
{
	long got = hear_num();

	await_outq_empty(fd);
	say("%s: acknowledged %ld too many", when, info(fd, BYTES_ACKED) - 1 - got);
}

/* Bytes that nobody reads are the kernel's business before the timeout is over. */
static int timed_by_tcp(int fd)
{
	struct timespec breath = {0, 5000000};

	if (!oracle_fast())
		return 1;
	for (int i = 0; i < 1000; i++) {
		if (!oracle_standing(fd))
			return 1;
		nanosleep(&breath, NULL);
	}
	return 0;
}

static void client(void)
{
	int fd = oracle_connect();
	struct timeval t = {0};

	look("at first", fd, 1);
	set(fd, 0, 2000);
	set(fd, 2, 77);
	look("set", fd, 1);
	counts("moved", fd);
	set(fd, 0, 400);
	CALL(send(fd, buf, 8000, 0));
	say("timed by TCP: %d", timed_by_tcp(fd));
	await_outq_empty(fd);
	tell('r');
	counts("read", fd);
	/* An option that no plane can serve. */
	CALL(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &t, sizeof(int)));
	look("returned", fd, 0);
	CALL(send(fd, buf, 8000, 0));
	tell('r');
	counts("returned", fd);
	hear('z');
}

static void server(void)
{
	int fd = oracle_accept();

	tell_num(info(fd, BYTES_RECEIVED));
	for (int i = 0; i < 2; i++) {
		hear('r');
		say("read %zu", get_all(fd, buf, 8000));
		tell_num(info(fd, BYTES_RECEIVED));
	}
	tell('z');
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* Threads are cancelled in sleeping calls; the connection works on, and nothing of it is left. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/select.h>

#include "oracle.h"

enum { ROUNDS = 4, MANY = 40 };

static _Atomic pid_t sleeper;
static int fd, set;
static char buf[1 << 16];

static void in_recv(void)
{
	recv(fd, buf, 10, 0);
}

static void in_read(void)
{
	if (read(fd, buf, 10) >= 0)
		return;
}

static void in_poll(void)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	poll(&p, 1, -1);
}

static void in_long_poll(void)
{
	struct pollfd p[MANY];

	for (int i = 0; i < MANY; i++)
		p[i] = (struct pollfd){.fd = i ? -1 : fd, .events = POLLIN};
	poll(p, MANY, -1);
}

static void in_select(void)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	select(fd + 1, &in, NULL, NULL, NULL);
}

static void in_epoll(void)
{
	struct epoll_event e;

	epoll_wait(set, &e, 1, -1);
}

static void in_send(void)
{
	for (;;)
		if (send(fd, buf, sizeof(buf), MSG_NOSIGNAL) < 0)
			return;
}

static const struct {
	const char *name;
	void (*call)(void);
} calls[] = {{"recv", in_recv},	    {"read", in_read},
	     {"poll", in_poll},	    {"long poll", in_long_poll},
	     {"select", in_select}, {"epoll_wait", in_epoll},
	     {"send", in_send}};

static void *sleep_in(void *i)
{
	sleeper = gettid();
	calls[(intptr_t)i].call();
	return NULL;
}

static void cancel_in(intptr_t i)
{
	struct timespec breath = {0, 500000};
	pthread_t t;
	void *end;

	sleeper = 0;
	MUST(-pthread_create(&t, NULL, sleep_in, (void *)i));
	while (!sleeper)
		nanosleep(&breath, NULL);
	await_asleep(sleeper);
	MUST(-pthread_cancel(t));
	pthread_join(t, &end);
	say("%s: %s", calls[i].name, end == PTHREAD_CANCELED ? "cancelled" : "returned");
}

static void echo_once(void)
{
	put_all(fd, "ping", 4);
	say("echo %zu", get_all(fd, buf, 4));
}

/* Rows that `xshim stat` shows for this process; bare there is no tool and no row. */
static int rows(void)
{
	char line[512];
	FILE *f;
	int n = 0;

	if (!getenv("ORACLE_XSHIM"))
		return 0;
	snprintf(line, sizeof(line), "LD_PRELOAD= %s stat --json %d", getenv("ORACLE_XSHIM"),
		 getpid());
	f = popen(line, "re");
	while (f && fgets(line, sizeof(line), f))
		n += strchr(line, '\n') != NULL;
	if (f)
		pclose(f);
	return n;
}

static void client(void)
{
	struct epoll_event e = {.events = EPOLLIN};
	struct timespec breath = {0, 20000000};
	size_t i, last = sizeof(calls) / sizeof(*calls) - 1;

	fd = oracle_connect();
	set = (int)MUST(epoll_create1(0));
	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	for (i = 0; i < last; i++) {
		for (int k = 0; k < ROUNDS; k++)
			cancel_in((intptr_t)i);
		echo_once();
	}
	tell('s');
	cancel_in((intptr_t)last);
	CALL(shutdown(fd, SHUT_WR));
	tell('r');
	CALL(recv(fd, buf, 1, 0));
	CALL(close(set));
	CALL(close(fd));
	for (int looks = 0; looks < 250 && rows(); looks++)
		nanosleep(&breath, NULL);
	say("left: %d", rows());
}

static void server(void)
{
	ssize_t n;

	fd = oracle_accept();
	for (size_t i = 0; i + 1 < sizeof(calls) / sizeof(*calls); i++) {
		get_all(fd, buf, 4);
		put_all(fd, buf, 4);
	}
	hear('s');
	hear('r');
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		;
	say("end %zd", n);
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

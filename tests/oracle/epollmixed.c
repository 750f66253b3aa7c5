/* SPDX-License-Identifier: MIT */
/* One set with a pipe, an eventfd, a timerfd, a listener and connections; few slots per wait. */
#include <sys/eventfd.h>
#include <time.h>

#include "oracle.h"

enum { CONNECTIONS = 5 };
static char buf[64];

static void add(int set, int fd, int tag)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)tag};

	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
}

/* All members that are ready, in whatever order they come. */
static void look(const char *when, int set, int slots)
{
	struct epoll_event e[16];
	unsigned seen = 0;
	int waits = 0;

	for (; waits < 64; waits++) {
		int n = epoll_wait(set, e, slots, 0);

		if (n <= 0)
			break;
		for (int i = 0; i < n; i++)
			seen |= 1u << e[i].data.u32;
	}
	say("%s: members %x", when, seen);
}

static void server(void)
{
	int fd[CONNECTIONS], pipes[2], set = (int)MUST(epoll_create1(0));
	int event = (int)MUST(eventfd(0, EFD_NONBLOCK)), listener = oracle_listener(AF_INET);
	uint64_t one = 1;

	for (int i = 0; i < CONNECTIONS; i++) {
		fd[i] = oracle_accept();
		add(set, fd[i], i);
	}
	MUST(pipe(pipes));
	add(set, pipes[0], 10);
	add(set, event, 11);
	add(set, listener, 12);
	look("idle", set, 16);
	tell_num(oracle_port(listener));
	await_readable(fd[1], 1);
	await_readable(fd[3], 1);
	hear('b');
	await_event(listener, POLLIN);
	look("connections and listener", set, 16);
	MUST(write(event, &one, 8));
	MUST(write(pipes[1], "x", 1));
	look("all kinds", set, 16);
	look("one slot a time", set, 1);
	look("two slots a time", set, 2);
	CALL(read(fd[1], buf, 64));
	CALL(read(event, buf, 8));
	look("some read", set, 1);
	close(accept(listener, NULL, NULL));
	CALL(read(pipes[0], buf, 1));
	look("one left", set, 1);
	CALL(read(fd[3], buf, 64));
	look("none", set, 1);
}

static void client(void)
{
	int fd[CONNECTIONS];

	for (int i = 0; i < CONNECTIONS; i++)
		fd[i] = oracle_connect();
	int late = oracle_dial((int)hear_num());

	CALL(send(fd[1], "x", 1, 0));
	CALL(send(fd[3], "x", 1, 0));
	tell('b');
	CALL(recv(late, buf, 1, 0));
	CALL(recv(fd[0], buf, 1, 0));
}

ORACLE_MAIN(5 * PROOF_DEFAULT, server, client)

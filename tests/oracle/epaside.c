/* SPDX-License-Identifier: MIT */
/*
 * Sockets that have been in a set and were taken out before their connection moved to a plane: put
 * back, they report what has come meanwhile.
 */
#include "oracle.h"

enum { SETS = 4 };

static const uint32_t modes[SETS] = {0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT};

static void change(int set, int op, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.u64 = 0xfeedfacedeadbeef};

	CALL(epoll_ctl(set, op, fd, &e));
}

static void look(const char *when, int set, int ms)
{
	struct epoll_event e = {.events = 0};
	int n = epoll_wait(set, &e, 1, ms);

	say("%s: %d %s %lx", when, n, n > 0 ? epoll_names(e.events) : "",
	    n > 0 ? (unsigned long)e.data.u64 : 0);
}

static void server(void)
{
	int listener = oracle_listener(AF_INET), fd, set[SETS];
	char buf[16];

	tell_num(oracle_port(listener));
	fd = (int)MUST(accept(listener, NULL, NULL));
	for (int i = 0; i < SETS; i++) {
		set[i] = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
		change(set[i], EPOLL_CTL_ADD, fd, EPOLLIN);
		change(set[i], EPOLL_CTL_DEL, fd, 0);
	}
	warm_echo(fd);
	tell('a');
	await_readable(fd, 5);
	for (int i = 0; i < SETS; i++) {
		change(set[i], EPOLL_CTL_MOD, fd, EPOLLIN);
		change(set[i], EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLEXCLUSIVE);
		change(set[i], EPOLL_CTL_DEL, fd, 0);
		change(set[i], EPOLL_CTL_ADD, fd, EPOLLIN | modes[i]);
		look("added", set[i], 30000);
		look("again", set[i], 0);
	}
	CALL(recv(fd, buf, sizeof(buf), 0));
	tell('b');
	await_event(fd, POLLRDHUP);
	for (int i = 0; i < SETS; i++) {
		look("end", set[i], 0);
		CALL(close(set[i]));
	}
	CALL(recv(fd, buf, sizeof(buf), 0));
}

static void client(void)
{
	int fd = oracle_dial((int)hear_num());

	warm_ping(fd);
	hear('a');
	CALL(send(fd, "12345", 5, 0));
	hear('b');
	CALL(close(fd));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* One descriptor in several sets, through a duplicate too; sets inside sets; poll on a set. */
#include <sys/eventfd.h>

#include "oracle.h"

static char buf[64];

static void look(const char *when, const char *name, int set)
{
	struct epoll_event e[4];
	int n = epoll_wait(set, e, 4, 0);

	say("%s: %s %d %s", when, name, n, n > 0 ? epoll_names(e[0].events) : "");
}

static void add(int set, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.fd = fd};

	CALL(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
}

/* A set's number doesn't matter, so all are named. */
static int a, b, edge, outer, outermost;

static void look_all(const char *when)
{
	struct pollfd p = {.fd = outermost, .events = POLLIN};

	int n = poll(&p, 1, 0);

	say("%s: poll on outermost %d %s", when, n, poll_names(p.revents));
	look(when, "outermost", outermost);
	look(when, "outer", outer);
	look(when, "a", a);
	look(when, "b", b);
	look(when, "edge", edge);
}

static void server(void)
{
	int fd = oracle_accept();
	int copy = (int)MUST(dup(fd));
	struct epoll_event e;

	a = (int)MUST(epoll_create1(0));
	b = (int)MUST(epoll_create1(0));
	edge = (int)MUST(epoll_create1(0));
	outer = (int)MUST(epoll_create1(0));
	outermost = (int)MUST(epoll_create1(0));
	add(a, fd, EPOLLIN);
	add(a, copy, EPOLLIN | EPOLLOUT);
	add(b, fd, EPOLLIN | EPOLLONESHOT);
	add(edge, fd, EPOLLIN | EPOLLET);
	add(outer, b, EPOLLIN);
	add(outer, edge, EPOLLIN);
	add(outermost, outer, EPOLLIN);
	add(a, a, EPOLLIN);
	look_all("idle");
	tell('a');
	/* A sleep in the outermost set is woken through two levels. */
	CALL(epoll_wait(outermost, &e, 1, 30000));
	say("%s, our set: %d", epoll_names(e.events), e.data.fd == outer);
	await_readable(fd, 5);
	look_all("readable");
	look_all("again");
	CALL(read(fd, buf, sizeof(buf)));
	look_all("read");
	tell('b');
	CALL(epoll_wait(edge, &e, 1, 30000));
	await_readable(fd, 5);
	look_all("second");
	CALL(epoll_ctl(a, EPOLL_CTL_DEL, copy, NULL));
	CALL(close(copy));
	CALL(epoll_ctl(outer, EPOLL_CTL_DEL, b, NULL));
	look_all("copy gone");
	CALL(read(fd, buf, sizeof(buf)));
	CALL(close(fd));
	look_all("closed");
}

static void client(void)
{
	int fd = oracle_connect();

	hear('a');
	CALL(send(fd, "12345", 5, 0));
	hear('b');
	CALL(send(fd, "12345", 5, 0));
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* An edge-triggered writer that is full gets exactly one edge when its peer drains (B69 beside). */
#include "oracle.h"

static char buf[1 << 16];

static long fill_up(int fd)
{
	long sent = 0;
	ssize_t n;

	while ((n = send(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		sent += n;
	return sent;
}

static void server(void)
{
	int fd = oracle_accept();

	for (int round = 0; round < 3; round++) {
		say("missing %ld", oracle_drain(fd, hear_num()));
		tell('d');
	}
	CALL(recv(fd, buf, 1, 0));
}

static void one_round(int set, int fd)
{
	struct epoll_event e;
	int edges = 0;
	long sent = fill_up(fd);

	/* Edges that came while filling belong to the filling. */
	while (epoll_wait(set, &e, 1, 20) > 0)
		sent += fill_up(fd);
	tell_num(sent);
	int n = epoll_wait(set, &e, 1, 30000);

	say("drained: %d %s", n, epoll_names(e.events));
	hear('d');
	await_outq_empty(fd);
	while (epoll_wait(set, &e, 1, 20) > 0)
		edges++;
	say("more edges: %d", edges);
}

static void client(void)
{
	struct epoll_event e = {.events = EPOLLOUT | EPOLLET};
	int fd = oracle_connect(), set = (int)MUST(epoll_create1(0));

	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	CALL(epoll_wait(set, &e, 1, 0));
	CALL(epoll_wait(set, &e, 1, 0));
	for (int round = 0; round < 3; round++)
		one_round(set, fd);
	/* One-shot with both kinds asked: the first event disarms all. */
	e.events = EPOLLIN | EPOLLOUT | EPOLLONESHOT;
	CALL(epoll_ctl(set, EPOLL_CTL_MOD, fd, &e));
	CALL(epoll_wait(set, &e, 1, 0));
	say("%s", epoll_names(e.events));
	CALL(epoll_wait(set, &e, 1, 20));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* An edge-triggered writer that was never full gets no edge by a return to TCP; a full one does. */
#include "oracle.h"

static char buf[1 << 16];

static void server(void)
{
	int fd = oracle_accept();

	get_all(fd, buf, 100);
	tell('a');
	say("missing %ld", oracle_drain(fd, hear_num()));
	tell('b');
	hear_gone();
}

static int edges(int set)
{
	struct epoll_event e;
	int n = 0;

	while (epoll_wait(set, &e, 1, 50) > 0)
		n++;
	return n;
}

static void client(void)
{
	struct epoll_event e = {.events = EPOLLOUT | EPOLLET};
	int fd = oracle_connect(), set = (int)MUST(epoll_create1(0));
	long sent = 0;
	ssize_t n;

	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	say("edges at first: %d", edges(set));
	CALL(send(fd, buf, 100, 0));
	hear('a');
	if (oracle_fast() && !oracle_return(fd))
		say("not back");
	say("edges by a return: %d", edges(set));
	while ((n = send(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		sent += n;
	tell_num(sent);
	n = epoll_wait(set, &e, 1, 5000);
	say("drained: %d %s", (int)n, epoll_names(e.events));
	hear('b');
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

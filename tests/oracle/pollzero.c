/* SPDX-License-Identifier: MIT */
/* poll() that asks for nothing, negative descriptors, no descriptors, closed ones, timeouts. */
#include <time.h>

#include "oracle.h"

static void server(void)
{
	int fd = oracle_accept();
	struct pollfd p[3] = {{fd, 0, 77}, {-1, POLLIN, 77}, {900, POLLIN, 77}};
	struct timespec t = {0, 20000000}, bad = {0, 2000000000};

	tell('a');
	await_readable(fd, 3);
	CALL(poll(p, 1, 60));
	say("revents %s", poll_names(p[0].revents));
	CALL(poll(p, 2, 60));
	CALL(poll(p + 1, 1, 20));
	CALL(poll(p, 3, 60));
	say("revents %s %d %s", poll_names(p[0].revents), p[1].revents, poll_names(p[2].revents));
	CALL(poll(NULL, 0, 10));
	CALL(ppoll(p, 1, &t, NULL));
	CALL(ppoll(p, 1, &bad, NULL));
	p[0].events = POLLIN;
	p[2].fd = fd;
	CALL(poll(p, 3, -1));
	say("twice: %s %s", poll_names(p[0].revents), poll_names(p[2].revents));
	tell('b');
	await_event(fd, POLLRDHUP);
	p[0].events = 0;
	CALL(poll(p, 1, 0));
	say("peer's end, nothing asked: %s", poll_names(p[0].revents));
}

static void client(void)
{
	char c;
	int fd = oracle_connect();

	hear('a');
	CALL(send(fd, "abc", 3, 0));
	hear('b');
	CALL(shutdown(fd, SHUT_WR));
	/* The server leaves with our bytes unread. */
	CALL(recv(fd, &c, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

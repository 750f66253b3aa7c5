/* SPDX-License-Identifier: MIT */
/*
 * A server writes what its client doesn't read yet, reads a request to its end, and ends (arg:
 * exit, or close before it). All that it wrote arrives, then the end: a client that doesn't know
 * yet that its request was read mustn't answer with it, should the link die with the server.
 */
#include "oracle.h"

enum { REQUEST = 12000, REPLY = 1 << 20 };
static char buf[REPLY];

static void server(void)
{
	int fd = oracle_accept();

	fill(buf, REPLY, 5);
	CALL(send(fd, buf, REPLY, 0));
	tell('w');
	say_bytes("request", buf, (ssize_t)get_all(fd, buf, REQUEST));
	CALL(recv(fd, buf, 1, 0));
	if (!strcmp(oracle_arg(1, "exit"), "close"))
		CALL(close(fd));
	exit(3);
}

static void client(void)
{
	int fd = oracle_connect();

	hear('w');
	fill(buf, REQUEST, 4);
	put_all(fd, buf, REQUEST);
	CALL(shutdown(fd, SHUT_WR));
	hear_gone();
	say_bytes("reply", buf, (ssize_t)get_all(fd, buf, REPLY));
	CALL(recv(fd, buf, 1, 0));
	CALL(close(fd));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* close() with bytes that were never read resets the peer. */
#include "oracle.h"

static char buf[100];

static void server(void)
{
	int fd = oracle_accept();

	hear('a');
	await_readable(fd, 10);
	CALL(recv(fd, buf, 4, 0));
	CALL(close(fd));
	tell('b');
}

static void client(void)
{
	int fd = oracle_connect();

	CALL(send(fd, "0123456789", 10, 0));
	tell('a');
	hear('b');
	await_event(fd, POLLHUP);
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};

	CALL(poll(&p, 1, -1));
	say("%s", poll_names(p.revents));
	CALL(recv(fd, buf, sizeof(buf), 0));
	CALL(recv(fd, buf, sizeof(buf), 0));
	CALL(send(fd, "x", 1, MSG_NOSIGNAL));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

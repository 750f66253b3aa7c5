/* SPDX-License-Identifier: MIT */
/*
 * close() with bytes that were never read resets the peer; also after a shutdown of the reading or
 * the writing side (arg 1: rd, wr), and where the bytes come after the close (late).
 */
#include "oracle.h"

static char buf[100];

static void server(void)
{
	int fd = oracle_accept();

	const char *how = oracle_arg(1, "");

	hear('a');
	if (!strcmp(how, "wr"))
		CALL(shutdown(fd, SHUT_WR));
	if (!strcmp(how, "late")) {
		CALL(get_all(fd, buf, 10));
		CALL(close(fd));
		tell('b');
		return;
	}
	await_readable(fd, 10);
	CALL(recv(fd, buf, 4, 0));
	if (!strcmp(how, "rd"))
		CALL(shutdown(fd, SHUT_RD));
	CALL(close(fd));
	tell('b');
}

static void client(void)
{
	int fd = oracle_connect();

	CALL(send(fd, "0123456789", 10, 0));
	tell('a');
	hear('b');
	if (!strcmp(oracle_arg(1, ""), "late")) {
		await_event(fd, POLLRDHUP);
		CALL(send(fd, "more", 4, 0));
	}
	await_event(fd, POLLHUP);
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};

	CALL(poll(&p, 1, -1));
	say("%s", poll_names(p.revents));
	CALL(recv(fd, buf, sizeof(buf), 0));
	CALL(recv(fd, buf, sizeof(buf), 0));
	CALL(send(fd, "x", 1, MSG_NOSIGNAL));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

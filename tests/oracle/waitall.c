/* SPDX-License-Identifier: MIT */
/* MSG_WAITALL over several pieces, cut short by end of stream, together with MSG_DONTWAIT. */
#include "oracle.h"

static char buf[300000];

static void server(void)
{
	int fd = oracle_accept();

	tell('a');
	CALL(recv(fd, buf, 30, MSG_WAITALL));
	say("got %.30s", buf);
	tell('b');
	await_readable(fd, 5);
	CALL(recv(fd, buf, 30, MSG_WAITALL | MSG_DONTWAIT));
	tell('c');
	CALL(recv(fd, buf, sizeof(buf), MSG_WAITALL));
	say_bytes("large", buf, sizeof(buf));
	tell('d');
	CALL(recv(fd, buf, 100, MSG_WAITALL));
	CALL(recv(fd, buf, 100, MSG_WAITALL));
}

static void client(void)
{
	int fd = oracle_connect();

	hear('a');
	for (int i = 0; i < 3; i++)
		CALL(send(fd, "ten bytes.", 10, 0));
	hear('b');
	CALL(send(fd, "five!", 5, 0));
	hear('c');
	fill(buf, sizeof(buf), 7);
	for (size_t at = 0; at < sizeof(buf); at += 30000)
		put_all(fd, buf + at, 30000);
	hear('d');
	CALL(send(fd, "short", 5, 0));
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(300000, server, client)

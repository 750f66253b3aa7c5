/* SPDX-License-Identifier: MIT */
/* MSG_PEEK, MSG_TRUNC (on TCP it throws bytes away) and their mixture, MSG_DONTWAIT. */
#include "oracle.h"

static char buf[256];

static void peek_twice(int fd)
{
	CALL(recv(fd, buf, 3, MSG_PEEK));
	say_bytes("peeked", buf, 3);
	CALL(recv(fd, buf, sizeof(buf), MSG_PEEK));
	say_bytes("peeked", buf, 10);
	CALL(recv(fd, buf, 4, 0));
	say_bytes("read", buf, 4);
	CALL(recv(fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT));
	say_bytes("peeked", buf, 6);
	CALL(recvfrom(fd, buf, 2, MSG_PEEK, NULL, NULL));
	CALL(recv(fd, buf, sizeof(buf), 0));
	say_bytes("read", buf, 6);
}

static void truncated(int fd)
{
	memset(buf, '-', sizeof(buf));
	CALL(recv(fd, buf, 4, MSG_TRUNC));
	say("untouched: %.4s", buf);
	CALL(recv(fd, buf, 3, MSG_TRUNC | MSG_PEEK));
	CALL(recv(fd, NULL, 2, MSG_TRUNC));
	CALL(recv(fd, buf, sizeof(buf), 0));
	say("rest: %.4s", buf);
}

static void server(void)
{
	int fd = oracle_accept();

	hear('a');
	await_readable(fd, 10);
	peek_twice(fd);
	CALL(recv(fd, buf, 1, MSG_PEEK | MSG_DONTWAIT));
	tell('b');
	await_readable(fd, 10);
	truncated(fd);
	tell('c');
	/* Peeking with WAITALL waits for all, takes none. */
	CALL(recv(fd, buf, 8, MSG_PEEK | MSG_WAITALL));
	CALL(recv(fd, buf, 8, MSG_WAITALL));
	say("got %.8s", buf);
	tell('d');
	await_event(fd, POLLRDHUP);
	CALL(recv(fd, buf, 8, MSG_PEEK));
	CALL(recv(fd, buf, 8, MSG_PEEK));
	CALL(recv(fd, buf, 8, 0));
	CALL(recv(fd, buf, 8, MSG_PEEK));
	CALL(recv(fd, buf, 8, 0));
}

static void client(void)
{
	int fd = oracle_connect();

	CALL(send(fd, "0123456789", 10, 0));
	tell('a');
	hear('b');
	CALL(send(fd, "abcdefghij", 10, 0));
	hear('c');
	CALL(send(fd, "ABCD", 4, 0));
	CALL(send(fd, "EFGH", 4, 0));
	hear('d');
	CALL(send(fd, "end", 3, 0));
	CALL(close(fd));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

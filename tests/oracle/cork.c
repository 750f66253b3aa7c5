/* SPDX-License-Identifier: MIT */
/* MSG_MORE, TCP_CORK and TCP_NODELAY: what is held back comes when it's let go, all in order. */
#include "oracle.h"

static char buf[4096];

static void server(void)
{
	int fd = oracle_accept();

	CALL(get_all(fd, buf, 30));
	say("%.30s", buf);
	tell('a');
	CALL(get_all(fd, buf, 20));
	say("%.20s", buf);
	tell('b');
	CALL(get_all(fd, buf, 1000));
	say_bytes("many", buf, 1000);
	tell('c');
	CALL(get_all(fd, buf, 9));
	say("%.9s", buf);
	CALL(recv(fd, buf, 1, 0));
}

static void set(int fd, int name, int value)
{
	CALL(setsockopt(fd, IPPROTO_TCP, name, &value, sizeof(value)));
}

static void client(void)
{
	int fd = oracle_connect();

	CALL(send(fd, "held back ", 10, MSG_MORE));
	CALL(send(fd, "and held. ", 10, MSG_MORE));
	CALL(send(fd, "let go now", 10, 0));
	hear('a');
	set(fd, TCP_CORK, 1);
	CALL(write(fd, "corked one", 10));
	CALL(write(fd, "corked two", 10));
	set(fd, TCP_CORK, 0);
	hear('b');
	set(fd, TCP_NODELAY, 1);
	for (int i = 0; i < 100; i++)
		put_all(fd, "0123456789", 10);
	hear('c');
	CALL(send(fd, "last more", 9, MSG_MORE));
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

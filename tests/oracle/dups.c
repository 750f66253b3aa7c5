/* SPDX-License-Identifier: MIT */
/* Duplicates of a moved connection: any of them works, the last close is the end. */
#include "oracle.h"

static char buf[64];

static void echo(int fd)
{
	CALL(get_all(fd, buf, 4));
	say("%.4s", buf);
	put_all(fd, buf, 4);
}

static void server(void)
{
	int fd = oracle_accept(), other = oracle_accept();
	int copy = dup(fd);

	say("lowest: %d", copy == other + 1);
	echo(copy);
	CALL(close(fd));
	echo(copy);
	say("shown by the other number: %d", !oracle_fast() || oracle_standing(copy));
	CALL(dup2(copy, 40));
	CALL(dup2(copy, copy) == copy);
	CALL(dup3(copy, copy, O_CLOEXEC));
	CALL(dup3(copy, 41, O_CLOEXEC));
	CALL(fcntl(41, F_GETFD));
	echo(40);
	echo(41);
	CALL(close(copy));
	CALL(close(41));
	echo(40);
	/* The other connection loses its number to ours, and so ends. */
	CALL(dup2(40, other) == other);
	hear('o');
	echo(other);
	CALL(close(40));
	CALL(shutdown(other, SHUT_WR));
	CALL(recv(other, buf, 1, 0));
	CALL(close(other));
	CALL(close(other));
	CALL(dup(other));
	CALL(dup2(other, 50));
	CALL(recv(other, buf, 1, 0));
}

static void client(void)
{
	int fd = oracle_connect(), other = oracle_connect();

	for (int i = 0; i < 5; i++) {
		CALL(send(fd, "word", 4, 0));
		CALL(get_all(fd, buf, 4));
	}
	CALL(recv(other, buf, 1, 0));
	tell('o');
	CALL(send(fd, "last", 4, 0));
	CALL(get_all(fd, buf, 4));
	CALL(recv(fd, buf, 1, 0));
	CALL(close(fd));
}

ORACLE_MAIN(2 * PROOF_DEFAULT, server, client)

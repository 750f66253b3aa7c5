/* SPDX-License-Identifier: MIT */
/* Urgent data: its byte, the mark, SIGURG's poll bit; it forces the stream to the kernel. */
#include "oracle.h"

static char buf[64];

static void server(void)
{
	int fd = oracle_accept(), mark = -1;

	CALL(recv(fd, buf, 1, MSG_OOB));
	tell('a');
	await_event(fd, POLLPRI);
	await_readable(fd, 3);
	CALL(recv(fd, buf, 1, MSG_OOB));
	say("urgent %c", buf[0]);
	CALL(recv(fd, buf, 1, MSG_OOB));
	CALL(recv(fd, buf, 64, 0));
	CALL(ioctl(fd, SIOCATMARK, &mark));
	say("at mark %d", mark);
	tell('b');
	CALL(get_all(fd, buf, 4));
	CALL(recv(fd, buf, 1, 0));
}

static void client(void)
{
	int fd = oracle_connect();

	hear('a');
	CALL(send(fd, "abc", 3, 0));
	CALL(send(fd, "U", 1, MSG_OOB));
	hear('b');
	CALL(send(fd, "more", 4, 0));
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

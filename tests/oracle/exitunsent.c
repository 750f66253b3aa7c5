/* SPDX-License-Identifier: MIT */
/* A process ends with a mebibyte that its slow reader hasn't read: all arrives, then the end. */
#include "oracle.h"

enum { BYTES = 1 << 20 };
static char buf[BYTES];

static void server(void)
{
	int fd = oracle_accept();
	size_t got = 0;

	hear('w');
	hear_gone();
	/* Small reads, so that the writer's tail waits long after its end. */
	while (got < BYTES) {
		ssize_t n = recv(fd, buf + got, BYTES - got < 5000 ? BYTES - got : 5000, 0);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	say_bytes("arrived", buf, (ssize_t)got);
	CALL(recv(fd, buf, 1, 0));
	CALL(close(fd));
}

static void client(void)
{
	const char *how = oracle_arg(1, "exit");
	int fd = oracle_connect();

	fill(buf, BYTES, 9);
	tell('w');
	CALL(send(fd, buf, BYTES, 0));
	say("ends by %s", how);
	if (!strcmp(how, "_exit"))
		_exit(5);
	if (!strcmp(how, "quick_exit"))
		quick_exit(6);
	if (!strcmp(how, "close"))
		CALL(close(fd));
	if (!strcmp(how, "exit"))
		exit(7);
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* Numbers of closed connections serve new ones at once (B37): bytes never cross over. */
#include "oracle.h"

enum { ROUNDS = 200 };
static char buf[4096];

static void server(void)
{
	int listener = oracle_listener(AF_INET), wrong = 0;

	tell_num(oracle_port(listener));
	for (int i = 0; i < ROUNDS; i++) {
		int fd = (int)MUST(accept(listener, NULL, NULL));
		size_t want = (size_t)(i * 37 % 4000 + 1), n = get_all(fd, buf, want);

		for (size_t j = 0; j < n; j++)
			wrong += buf[j] != (char)i;
		wrong += n != want;
		put_all(fd, buf, n);
		close(fd);
	}
	say("wrong: %d", wrong);
}

static void client(void)
{
	int port = (int)hear_num(), wrong = 0, other = 0;

	for (int i = 0; i < ROUNDS; i++) {
		int fd = oracle_dial(port);
		size_t want = (size_t)(i * 37 % 4000 + 1);

		memset(buf, i, want);
		put_all(fd, buf, want);
		memset(buf, ~i, want);
		size_t n = get_all(fd, buf, want);

		for (size_t j = 0; j < n; j++)
			wrong += buf[j] != (char)i;
		/* The peer has read all, so there's nothing but its end. */
		other += n != want || recv(fd, buf, 1, 0) != 0;
		close(fd);
	}
	say("wrong: %d %d", wrong, other);
}

/* Connections so short needn't leave the kernel. */
ORACLE_MAIN(PROOF_NONE, server, client)

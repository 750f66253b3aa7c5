/* SPDX-License-Identifier: MIT */
/* Many connections with bytes that nobody reads yet: more than there may be memory for. */
#include "oracle.h"

enum { CONNECTIONS = 64, BYTES = 12000 };

static char buf[BYTES], in[BYTES];
static int fds[CONNECTIONS];

static void server(void)
{
	int same = 0;

	fill(buf, sizeof(buf), 7);
	for (int i = 0; i < CONNECTIONS; i++)
		fds[i] = oracle_accept();
	hear('w');
	for (int i = 0; i < CONNECTIONS; i++)
		same += get_all(fds[i], in, BYTES) == BYTES && !memcmp(in, buf, BYTES);
	say("whole: %d", same);
	tell('r');
}

static void client(void)
{
	fill(buf, sizeof(buf), 7);
	for (int i = 0; i < CONNECTIONS; i++)
		fds[i] = oracle_connect();
	for (int i = 0; i < CONNECTIONS; i++) {
		set_nonblock(fds[i], 1);
		put_all(fds[i], buf, BYTES);
	}
	tell('w');
	hear('r');
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

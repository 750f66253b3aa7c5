/* SPDX-License-Identifier: MIT */
/* Both writers stall, so both directions go back to TCP; when all is read they upgrade again. */
#include "oracle.h"

static void server(void)
{
	int fd = oracle_accept();
	long theirs = hear_num();

	tell_num(oracle_fill(fd));
	say("missing %ld", oracle_drain(fd, theirs));
	warm_echo(fd);
	hear('z');
}

static void client(void)
{
	int fd = oracle_connect();
	long theirs;

	tell_num(oracle_fill(fd));
	theirs = hear_num();
	say("missing %ld", oracle_drain(fd, theirs));
	warm_ping(fd);
	say("there again: %d", !oracle_fast() || oracle_standing(fd));
	tell('z');
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

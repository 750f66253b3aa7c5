/* SPDX-License-Identifier: MIT */
/* Both writers stall, so both directions go back to TCP; when all is read they upgrade again. */
#include "oracle.h"

static char buf[1 << 16];

static long fill_up(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	long sent = 0;
	ssize_t n;

	do
		while ((n = send(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
			sent += n;
	while (poll(&p, 1, 200) == 1);
	return sent;
}

static void drain(int fd, long bytes)
{
	while (bytes > 0) {
		size_t n =
			get_all(fd, buf, bytes < (long)sizeof(buf) ? (size_t)bytes : sizeof(buf));

		if (!n)
			break;
		bytes -= (long)n;
	}
	say("missing %ld", bytes);
}

static void server(void)
{
	int fd = oracle_accept();
	long theirs = hear_num();

	tell_num(fill_up(fd));
	drain(fd, theirs);
	warm_echo(fd);
	hear('z');
}

static void client(void)
{
	int fd = oracle_connect();
	long theirs;

	tell_num(fill_up(fd));
	theirs = hear_num();
	drain(fd, theirs);
	warm_ping(fd);
	say("there again: %d", !oracle_fast() || oracle_standing(fd));
	tell('z');
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

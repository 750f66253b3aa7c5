/* SPDX-License-Identifier: MIT */
/* close_range and closefrom take connections along; their numbers serve new ones. */
#include <linux/close_range.h>

#include "oracle.h"

static char buf[64];

static void server(void)
{
	int a = oracle_accept(), b = oracle_accept();

	CALL(close_range((unsigned)a, (unsigned)b, CLOSE_RANGE_CLOEXEC));
	CALL(fcntl(a, F_GETFD));
	CALL(close_range((unsigned)b, (unsigned)a, 0) < 0 || a == b);
	CALL(close_range((unsigned)a, (unsigned)b, 0x100));
	CALL(recv(a, buf, 4, 0));
	CALL(close_range((unsigned)a, (unsigned)b, 0));
	CALL(recv(a, buf, 4, 0));
	int c = oracle_accept(), d = oracle_accept();

	say("same numbers: %d %d", c == a, d == b);
	CALL(get_all(c, buf, 4));
	CALL(close_range((unsigned)c, (unsigned)c, CLOSE_RANGE_UNSHARE));
	CALL(send(d, "left", 4, 0));
	/* The control channel must outlive closefrom(). */
	int low = (int)MUST(dup2(d, 250));

	close(d);
	CALL(send(low, "here", 4, 0));
	closefrom(250);
	CALL(send(low, "gone", 4, 0));
}

static void client(void)
{
	int a = oracle_connect(), b = oracle_connect();

	CALL(send(a, "word", 4, 0));
	CALL(recv(a, buf, 1, 0));
	CALL(recv(b, buf, 1, 0));
	close(a);
	close(b);
	int c = oracle_connect(), d = oracle_connect();

	CALL(send(c, "word", 4, 0));
	CALL(recv(c, buf, 1, 0));
	CALL(get_all(d, buf, 8));
	CALL(recv(d, buf, 1, 0));
}

ORACLE_MAIN(2 * PROOF_DEFAULT, server, client)

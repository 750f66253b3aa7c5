/* SPDX-License-Identifier: MIT */
/*
 * One end (arg: server or client) becomes another user, with bytes under way in both directions,
 * and both go on: on TCP, as what a plane has opened may be of no use to that user.
 */
#include <grp.h>

#include "oracle.h"

enum { BYTES = 200000, NOBODY = 65534 };
static char buf[BYTES], was[BYTES];

/* Who is no superuser becomes what it is. */
static void become(void)
{
	uid_t user = getuid() ? getuid() : NOBODY;
	gid_t group = getuid() ? getgid() : NOBODY;

	if (!getuid())
		CALL(setgroups(0, NULL));
	CALL(setgid(group));
	CALL(seteuid(user));
	CALL(setresuid(user, user, user));
}

static void exchange(int fd, size_t n)
{
	fill(buf, n, n);
	memcpy(was, buf, n);
	put_all(fd, buf, n);
	memset(buf, 0, n);
	CALL(get_all(fd, buf, n));
	say("%s", memcmp(buf, was, n) ? "other bytes" : "the same bytes");
}

static void role(const char *me, int fd)
{
	CALL(send(fd, "on its way", 10, 0));
	if (!strcmp(oracle_arg(1, "server"), me)) {
		become();
		tell('b');
	} else {
		hear('b');
	}
	CALL(get_all(fd, buf, 10));
	for (int i = 0; i < 5; i++)
		exchange(fd, BYTES >> i);
	say("on the plane: %d", oracle_fast() && oracle_standing(fd));
	exchange(fd, 1);
	if (!strcmp(oracle_arg(1, "server"), me))
		hear('e');
	else
		tell('e');
	CALL(close(fd));
}

static void server(void)
{
	role("server", oracle_accept());
}

static void client(void)
{
	role("client", oracle_connect());
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* The peer is killed: while idle, after it has sent, or while we still write (arg 1). */
#include "oracle.h"

static char buf[100000];

static void server(void)
{
	const char *how = oracle_arg(1, "idle");
	int fd = oracle_accept();

	hear_gone();
	if (!strcmp(how, "sent"))
		CALL(get_all(fd, buf, 50000));
	if (!strcmp(how, "sent"))
		say_bytes("arrived", buf, 50000);
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	say_killed_end(n, errno);
	signal(SIGPIPE, SIG_IGN);
	/* The first write may still be taken; a write after the answer isn't. */
	for (int i = 0; i < 1000 && send(fd, "x", 1, 0) > 0; i++)
		await_event(fd, POLLHUP | POLLERR);
	say("writing ends with %s", errno == EPIPE || errno == ECONNRESET ? "an error" : "none");
	CALL(close(fd));
}

static void client(void)
{
	int fd = oracle_connect();

	fill(buf, 50000, 1);
	if (!strcmp(oracle_arg(1, "idle"), "sent"))
		put_all(fd, buf, 50000);
	/* Bytes that the peer's side of the plane has must survive us. */
	await_outq_empty(fd);
	raise(SIGKILL);
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

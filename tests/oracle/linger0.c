/* SPDX-License-Identifier: MIT */
/* close() with SO_LINGER {1, 0}: the peer reads what had arrived, then gets the reset. */
#include "oracle.h"

static char buf[100];

static void server(void)
{
	int fd = oracle_accept(), err = -1;
	socklen_t n = sizeof(err);

	hear('a');
	await_event(fd, POLLERR | POLLHUP | POLLRDHUP);
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};

	CALL(poll(&p, 1, -1));
	say("%s", poll_names(p.revents));
	if (!strcmp(oracle_arg(1, "recv"), "error")) {
		CALL(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n));
		say("error %s", strerrorname_np(err));
		CALL(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n));
		say("error %d", err);
	}
	if (!strcmp(oracle_arg(1, "recv"), "send"))
		CALL(send(fd, "x", 1, MSG_NOSIGNAL));
	CALL(recv(fd, buf, sizeof(buf), 0));
	CALL(recv(fd, buf, sizeof(buf), 0));
	CALL(send(fd, "x", 1, MSG_NOSIGNAL));
	CALL(shutdown(fd, SHUT_RDWR));
	CALL(close(fd));
}

static void client(void)
{
	struct linger now = {1, 0};
	int fd = oracle_connect();

	CALL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	CALL(close(fd));
	tell('a');
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* poll() in every state of a connection, with every set of asked events. */
#include "oracle.h"

static char buf[16];

static void look(const char *state, int fd)
{
	static const short asked[] = {0,
				      POLLIN,
				      POLLOUT,
				      POLLIN | POLLOUT,
				      POLLPRI,
				      POLLRDHUP,
				      POLLRDNORM | POLLWRNORM,
				      POLLRDBAND | POLLWRBAND,
				      POLLIN | POLLPRI | POLLOUT | POLLRDHUP | POLLRDNORM |
					      POLLWRNORM | POLLRDBAND | POLLWRBAND};

	for (unsigned i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
		struct pollfd p = {.fd = fd, .events = asked[i], .revents = 0x55};
		int n = poll(&p, 1, 0);

		say("%s: asked %s: %d %s", state, poll_names(asked[i]), n, poll_names(p.revents));
	}
}

static void server(void)
{
	int fd = oracle_accept();

	look("idle", fd);
	tell('a');
	await_readable(fd, 5);
	look("readable", fd);
	CALL(recv(fd, buf, 2, 0));
	look("still readable", fd);
	CALL(recv(fd, buf, 3, 0));
	look("idle again", fd);
	tell('b');
	await_event(fd, POLLRDHUP);
	look("peer's end", fd);
	CALL(recv(fd, buf, 1, 0));
	look("peer's end read", fd);
	hear('l');
	CALL(shutdown(fd, SHUT_WR));
	tell('c');
	await_event(fd, POLLHUP);
	look("both ended", fd);
	CALL(close(fd));
	look("closed", fd);
}

static void client(void)
{
	int fd = oracle_connect();

	hear('a');
	CALL(send(fd, "hello", 5, 0));
	hear('b');
	CALL(shutdown(fd, SHUT_WR));
	look("our end", fd);
	tell('l');
	hear('c');
	await_event(fd, POLLHUP);
	look("both ended", fd);
	CALL(recv(fd, buf, 1, 0));
	look("both ended, read", fd);
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* Each side in turn ends its direction while the other goes on. */
#include "oracle.h"

static char buf[100000];

static void server(void)
{
	int fd = oracle_accept();

	signal(SIGPIPE, SIG_IGN);
	CALL(get_all(fd, buf, sizeof(buf)));
	CALL(recv(fd, buf, 1, 0));
	CALL(recv(fd, buf, 1, MSG_DONTWAIT));
	fill(buf, sizeof(buf), 5);
	put_all(fd, buf, sizeof(buf));
	CALL(send(fd, "still", 5, 0));
	CALL(shutdown(fd, SHUT_WR));
	CALL(send(fd, "no", 2, 0));
	CALL(recv(fd, buf, 1, 0));
	tell('z');
	CALL(close(fd));
}

static void client(void)
{
	int fd = oracle_connect();

	signal(SIGPIPE, SIG_IGN);
	CALL(send(fd, "first", 5, 0));
	CALL(shutdown(fd, SHUT_WR));
	/* Twice is no more than once, while the other direction is open. */
	CALL(shutdown(fd, SHUT_WR));
	CALL(send(fd, "no", 2, 0));
	CALL(send(fd, "no", 2, MSG_NOSIGNAL));
	CALL(get_all(fd, buf, sizeof(buf)));
	say_bytes("after our end", buf, sizeof(buf));
	CALL(get_all(fd, buf, 100));
	say("%.5s", buf);
	CALL(recv(fd, buf, 1, 0));
	hear('z');
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};

	CALL(poll(&p, 1, -1));
	say("%s", poll_names(p.revents));
	/* Both directions have ended, so there's nothing left to shut. */
	CALL(close(fd));
}

ORACLE_MAIN(100000, server, client)

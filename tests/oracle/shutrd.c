/* SPDX-License-Identifier: MIT */
/* SHUT_RD: end of stream here at once, bytes that come later are still read; SHUT_RDWR. */
#include "oracle.h"

static char buf[100];

static void server(void)
{
	int fd = oracle_accept();
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};

	CALL(shutdown(fd, SHUT_RD));
	CALL(recv(fd, buf, sizeof(buf), 0));
	CALL(poll(&p, 1, 0));
	say("%s", poll_names(p.revents));
	tell('a');
	hear('b');
	int n = 0;

	for (int i = 0; i < 1000 && n < 5; i++) {
		ioctl(fd, FIONREAD, &n);
		poll(NULL, 0, 1);
	}
	say("FIONREAD %d", n);
	CALL(recv(fd, buf, sizeof(buf), 0));
	CALL(recv(fd, buf, sizeof(buf), 0));
	CALL(send(fd, "back", 4, 0));
	CALL(shutdown(fd, SHUT_RDWR));
	CALL(poll(&p, 1, 0) > 0);
	CALL(send(fd, "no", 2, MSG_NOSIGNAL));
	CALL(shutdown(fd, 7));
	tell('c');
	hear('d');
	CALL(close(fd));
}

static void client(void)
{
	int fd = oracle_connect();

	hear('a');
	CALL(send(fd, "later", 5, 0));
	tell('b');
	CALL(get_all(fd, buf, 4));
	hear('c');
	CALL(recv(fd, buf, sizeof(buf), 0));
	tell('d');
	CALL(close(fd));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* A socket connected to itself (simultaneous open on one socket): an echo of its own bytes. */
#include "oracle.h"

static void server(void)
{
	char buf[64];
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t n = sizeof(a);
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	a.sin_addr.s_addr = oracle_address();
	MUST(bind(fd, (struct sockaddr *)&a, sizeof(a)));
	MUST(getsockname(fd, (struct sockaddr *)&a, &n));
	CALL(connect(fd, (struct sockaddr *)&a, sizeof(a)));
	int on = 1;

	MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	for (int i = 0; i < 200; i++) {
		if (send(fd, "to myself", 9, 0) != 9 || get_all(fd, buf, 9) != 9 ||
		    memcmp(buf, "to myself", 9))
			say("wrong at %d", i);
	}
	CALL(recv(fd, buf, 1, MSG_DONTWAIT));
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, buf, 1, 0));
	CALL(close(fd));
}

ORACLE_MAIN(PROOF_NONE, server, NULL)

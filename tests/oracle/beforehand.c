/* SPDX-License-Identifier: MIT */
/*
 * Options that no plane can serve, set before there's a connection: on the listener, whose
 * connections inherit them, or on the socket that connects. They hold, however much moves.
 */
#include <time.h>

#include "oracle.h"

enum { PINGS = 300, WAITS = 20 };

static char buf[64];

static void stamp(int fd)
{
	int on = 1;

	CALL(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof(on)));
}

static void say_stamped(int fd)
{
	_Alignas(struct cmsghdr) char control[128];
	struct iovec v = {buf, sizeof(buf)};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	ssize_t n = recvmsg(fd, &m, 0);

	say("%zd bytes", n);
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		say("level %d type %d length %zu", c->cmsg_level, c->cmsg_type, c->cmsg_len);
}

static void server(void)
{
	int listener = oracle_listener(AF_INET), early = !strcmp(oracle_arg(1, ""), "listener");

	if (early)
		stamp(listener);
	tell_num(oracle_port(listener));
	int fd = (int)MUST(accept(listener, NULL, NULL));

	for (int i = 0; i < PINGS; i++) {
		get_all(fd, buf, 10);
		put_all(fd, buf, 10);
	}
	if (early) {
		tell('p');
		say_stamped(fd);
	} else {
		hear('p');
		put_all(fd, buf, 10);
	}
	hear('z');
}

static void client(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)hear_num())};
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	int early = strcmp(oracle_arg(1, ""), "listener");
	struct timespec breath = {0, 20000000};

	a.sin_addr.s_addr = oracle_address();
	if (early)
		stamp(fd);
	MUST(connect(fd, (struct sockaddr *)&a, sizeof(a)));
	for (int i = 0; i < PINGS; i++) {
		put_all(fd, buf, 10);
		get_all(fd, buf, 10);
		if (i > PINGS - WAITS && oracle_fast() && !oracle_standing(fd))
			nanosleep(&breath, NULL); /* whatever is under way, let it come */
	}
	if (early) {
		tell('p');
		say_stamped(fd);
	} else {
		hear('p');
		put_all(fd, buf, 10);
	}
	tell('z');
}

ORACLE_MAIN(PROOF_NONE, server, client)

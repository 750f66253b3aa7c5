/* SPDX-License-Identifier: MIT */
/* TCP_INQ: recvmsg tells how much more there is, in whatever room it's given. */
#include "oracle.h"

#ifndef TCP_INQ
#define TCP_INQ 36
#endif
#ifndef TCP_CM_INQ
#define TCP_CM_INQ TCP_INQ
#endif

static char buf[8000];

static void ask(const char *when, int fd, size_t n, int flags, size_t room)
{
	_Alignas(struct cmsghdr) char control[64];
	struct iovec v = {buf, n};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = room ? control : NULL,
			   .msg_controllen = room};
	struct cmsghdr *c;
	int left = -1;

	memset(control, 0x5a, sizeof(control));
	errno = 0;
	ssize_t got = recvmsg(fd, &m, flags);

	say("%s: %zd %s, control %zu, flags %x", when, got, errno ? strerrorname_np(errno) : "ok",
	    m.msg_controllen, (unsigned)m.msg_flags);
	for (c = got < 0 ? NULL : CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_len >= CMSG_LEN(sizeof(left)))
			memcpy(&left, CMSG_DATA(c), sizeof(left));
		say("%s: level %d type %d length %zu: %d", when, c->cmsg_level, c->cmsg_type,
		    c->cmsg_len, left);
	}
}

static void server(void)
{
	int fd = oracle_accept(), on = 1;
	socklen_t n = sizeof(on);

	CALL(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
	CALL(getsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, &n));
	say("is %d", on);
	ask("nothing", fd, 10, MSG_DONTWAIT, 64);
	tell('a');
	await_readable(fd, 5000);
	ask("peek", fd, 1000, MSG_PEEK, 64);
	ask("1000", fd, 1000, 0, 64);
	ask("no room", fd, 500, 0, 0);
	ask("little room", fd, 500, 0, sizeof(struct cmsghdr));
	ask("half the number", fd, 500, 0, sizeof(struct cmsghdr) + 2);
	ask("just the number", fd, 500, 0, CMSG_LEN(sizeof(int)));
	CALL(recv(fd, buf, 500, 0));
	ask("all", fd, 4000, 0, 64);
	tell('b');
	await_event(fd, POLLRDHUP);
	await_readable(fd, 100);
	ask("before the end", fd, 60, 0, 64);
	ask("to the end", fd, 60, 0, 64);
	ask("the end", fd, 60, 0, 64);
	ask("and again", fd, 60, 0, 64);
	CALL(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &(int){0}, sizeof(on)));
	ask("off", fd, 60, 0, 64);
	CALL(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &(int){2}, sizeof(on)));
	tell('z');
}

static void client(void)
{
	int fd = oracle_connect();

	hear('a');
	put_all(fd, buf, 5000);
	hear('b');
	put_all(fd, buf, 100);
	CALL(shutdown(fd, SHUT_WR));
	hear('z');
}

ORACLE_MAIN(PROOF_DEFAULT + 5000, server, client)

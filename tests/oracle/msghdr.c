/* SPDX-License-Identifier: MIT */
/* recvmsg and recvfrom with every output field poisoned: which are set, and to what. */
#include "oracle.h"

static char buf[64], name[128], control[256];
static struct iovec iov = {buf, sizeof(buf)};

static void poisoned(const char *when, int fd, int flags)
{
	struct msghdr m = {name, sizeof(name), &iov, 1, control, sizeof(control), 0x55aa};

	memset(name, 0x5a, sizeof(name));
	memset(control, 0x5a, sizeof(control));
	errno = 0;
	ssize_t n = recvmsg(fd, &m, flags);

	say("%s: %zd %s namelen %u controllen %zu flags %x name %x control %x", when, n,
	    errno ? strerrorname_np(errno) : "ok", m.msg_namelen, m.msg_controllen,
	    (unsigned)m.msg_flags, (unsigned)name[0], (unsigned)control[0]);
	say("%s: iov %d %zu", when, m.msg_iov == &iov, m.msg_iovlen);
}

static void poisoned_from(const char *when, int fd, int flags)
{
	socklen_t n = sizeof(name);

	memset(name, 0x5a, sizeof(name));
	errno = 0;
	ssize_t got = recvfrom(fd, buf, sizeof(buf), flags, (struct sockaddr *)name, &n);

	say("%s: recvfrom %zd %s namelen %u name %x", when, got,
	    errno ? strerrorname_np(errno) : "ok", n, (unsigned)name[0]);
}

static void server(void)
{
	int fd = oracle_accept();

	poisoned("nothing there", fd, MSG_DONTWAIT);
	poisoned_from("nothing there", fd, MSG_DONTWAIT);
	tell('a');
	await_readable(fd, 30);
	poisoned("peek", fd, MSG_PEEK);
	poisoned_from("peek", fd, MSG_PEEK);
	iov.iov_len = 10;
	poisoned("ten", fd, 0);
	poisoned("ten, cmsg_cloexec", fd, MSG_CMSG_CLOEXEC);
	poisoned("ten, trunc", fd, MSG_TRUNC);
	tell('b');
	await_readable(fd, 30);
	poisoned_from("rest", fd, 0);
	tell('c');
	await_event(fd, POLLRDHUP);
	poisoned("end", fd, 0);
	poisoned_from("end", fd, 0);
	poisoned("error queue", fd, MSG_ERRQUEUE);
}

static void client(void)
{
	struct sockaddr_in other = {.sin_family = AF_INET, .sin_port = htons(1)};
	struct iovec out = {"thirty bytes for one recvmsg..", 30};
	struct msghdr m = {
		.msg_name = &other, .msg_namelen = sizeof(other), .msg_iov = &out, .msg_iovlen = 1};
	int fd = oracle_connect();

	hear('a');
	/* A connected stream ignores the name. */
	CALL(sendmsg(fd, &m, 0));
	hear('b');
	CALL(sendto(fd, out.iov_base, 30, 0, (struct sockaddr *)&other, sizeof(other)));
	hear('c');
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

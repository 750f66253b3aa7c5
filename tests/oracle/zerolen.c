/* SPDX-License-Identifier: MIT */
/* Lengths of zero and pointers to nothing, with bytes waiting and without, and after the end. */
#include "oracle.h"

static char buf[64];
static volatile int negative = -1;

static void nothing(int fd)
{
	struct iovec empty[2] = {{NULL, 0}, {buf, 0}};
	struct msghdr none = {.msg_iov = NULL};
	struct msghdr two = {.msg_iov = empty, .msg_iovlen = 2};

	CALL(send(fd, buf, 0, 0));
	CALL(send(fd, NULL, 0, 0));
	CALL(write(fd, buf, 0));
	CALL(write(fd, NULL, 0));
	CALL(sendmsg(fd, &none, 0));
	CALL(sendmsg(fd, &two, 0));
	CALL(writev(fd, NULL, 0));
	CALL(writev(fd, empty, 2));
	CALL(writev(fd, empty, negative));
	CALL(read(fd, buf, 0));
	CALL(read(fd, NULL, 0));
	CALL(readv(fd, NULL, 0));
	CALL(readv(fd, empty, 2));
}

static void nothing_received(int fd)
{
	struct iovec empty[2] = {{NULL, 0}, {buf, 0}};
	struct msghdr none = {.msg_iov = NULL};
	struct msghdr two = {.msg_iov = empty, .msg_iovlen = 2};

	CALL(recv(fd, buf, 0, MSG_DONTWAIT));
	CALL(recv(fd, NULL, 0, MSG_DONTWAIT));
	CALL(recv(fd, buf, 0, MSG_DONTWAIT | MSG_PEEK));
	CALL(recvmsg(fd, &none, MSG_DONTWAIT));
	CALL(recvmsg(fd, &two, MSG_DONTWAIT));
}

static void bad_pointers(int fd)
{
	/* Never mapped on this architecture; the compiler must not know. */
	void *volatile bad = (void *)16;
	struct iovec half[2] = {{buf, 3}, {bad, 3}};

	CALL(send(fd, bad, 5, 0));
	CALL(write(fd, bad, 5));
	CALL(recv(fd, bad, 5, MSG_DONTWAIT));
	CALL(writev(fd, bad, 2));
	CALL(sendmsg(fd, bad, 0));
	CALL(recvmsg(fd, bad, MSG_DONTWAIT));
	(void)half;
}

static void server(void)
{
	int fd = oracle_accept();

	nothing(fd);
	tell('a');
	await_readable(fd, 5);
	nothing(fd);
	nothing_received(fd);
	bad_pointers(fd);
	CALL(recv(fd, buf, 5, 0));
	tell('b');
	await_event(fd, POLLRDHUP);
	nothing(fd);
	nothing_received(fd);
	CALL(recv(fd, buf, 5, 0));
	CALL(shutdown(fd, SHUT_WR));
	signal(SIGPIPE, SIG_IGN);
	nothing(fd);
}

static void client(void)
{
	int fd = oracle_connect();

	hear('a');
	CALL(send(fd, "bytes", 5, 0));
	hear('b');
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, buf, 5, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

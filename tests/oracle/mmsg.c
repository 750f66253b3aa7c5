/* SPDX-License-Identifier: MIT */
/* sendmmsg and recvmmsg on a stream. */
#include <time.h>

#include "oracle.h"

enum { COUNT = 4 };
static char bytes[COUNT][100];
static struct iovec iov[COUNT];
static struct mmsghdr msgs[COUNT];

static void prepare(size_t each)
{
	memset(msgs, 0, sizeof(msgs));
	for (int i = 0; i < COUNT; i++) {
		iov[i].iov_base = bytes[i];
		iov[i].iov_len = each;
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
		msgs[i].msg_len = 0xdead;
	}
}

static void lengths(void)
{
	for (int i = 0; i < COUNT; i++)
		say("msg %d: %u flags %x", i, msgs[i].msg_len, (unsigned)msgs[i].msg_hdr.msg_flags);
	say_bytes("all", bytes, sizeof(bytes));
}

static void server(void)
{
	struct timespec none = {0, 0};
	int fd = oracle_accept();

	prepare(100);
	CALL(recvmmsg(fd, msgs, COUNT, MSG_DONTWAIT, NULL));
	tell('a');
	await_readable(fd, 250);
	CALL(recvmmsg(fd, msgs, COUNT, MSG_DONTWAIT, NULL));
	lengths();
	tell('b');
	prepare(50);
	await_readable(fd, 250);
	CALL(recvmmsg(fd, msgs, COUNT, MSG_WAITFORONE, NULL));
	lengths();
	CALL(recvmmsg(fd, msgs, 1, 0, &none));
	CALL(recvmmsg(fd, msgs, 0, 0, NULL));
	tell('c');
	CALL(recvmmsg(fd, msgs, COUNT, 0, NULL));
	lengths();
}

static void client(void)
{
	int fd = oracle_connect();

	for (int i = 0; i < COUNT; i++)
		fill(bytes[i], sizeof(bytes[i]), (uint64_t)i);
	prepare(100);
	iov[2].iov_len = 50;
	hear('a');
	CALL(sendmmsg(fd, msgs, 3, 0));
	lengths();
	hear('b');
	CALL(sendmmsg(fd, msgs, 3, 0));
	CALL(sendmmsg(fd, msgs, 0, 0));
	hear('c');
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, bytes, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

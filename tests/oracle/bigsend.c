/* SPDX-License-Identifier: MIT */
/* Eight mebibytes in one blocking call while the peer reads slowly, by each writing call. */
#include "oracle.h"

enum { BYTES = 8 << 20 };
static char buf[BYTES];

static void server(void)
{
	int fd = oracle_accept();
	struct sha256 s;
	char hex[65];
	size_t got = 0;

	sha256_start(&s);
	/* Slow: a system call for each small piece, with a peek before it. */
	for (;;) {
		ssize_t n = recv(fd, buf, 30000, MSG_PEEK);

		n = n > 0 ? recv(fd, buf, (size_t)n, 0) : n;
		if (n <= 0)
			break;
		sha256_add(&s, buf, (size_t)n);
		got += (size_t)n;
	}
	sha256_hex(&s, hex);
	say("%zu %.16s", got, hex);
}

static void client(void)
{
	int fd = oracle_connect();
	struct iovec v[2] = {{buf, BYTES / 2}, {buf + BYTES / 2, BYTES / 2}};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};

	fill(buf, BYTES, 1);
	CALL(send(fd, buf, BYTES, 0));
	CALL(write(fd, buf, BYTES));
	CALL(writev(fd, v, 2));
	CALL(sendmsg(fd, &m, 0));
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, buf, 1, 0));
}

/* A writer that stalls on its peer may go back to the kernel and stay a while. */
ORACLE_MAIN(PROOF_DEFAULT, server, client)

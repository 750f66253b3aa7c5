/* SPDX-License-Identifier: MIT */
/* Scattered buffers: up to 1024 of them, one too many, positions that sockets refuse. */
#include <limits.h>

#include "oracle.h"

static char bytes[1025 * 37];
static struct iovec many[1025];

static void cut(char *base, size_t each)
{
	for (int i = 0; i < 1025; i++) {
		many[i].iov_base = base + (size_t)i * each;
		many[i].iov_len = each;
	}
}

static void uneven(int fd)
{
	struct iovec v[4] = {{bytes, 1}, {bytes + 1, 0}, {bytes + 1, 7}, {bytes + 8, 100}};

	await_readable(fd, 50);
	CALL(readv(fd, v, 4));
	say_bytes("uneven", bytes, 50);
}

static void server(void)
{
	int fd = oracle_accept();
	size_t got = 0;

	cut(bytes, 37);
	hear('a');
	while (got < 1024 * 37) {
		ssize_t n = readv(fd, many, 1024);

		if (n <= 0)
			break;
		/* Whole pieces only are simple to take up again. */
		if (n % 37)
			n += (ssize_t)get_all(fd, bytes + n, (size_t)(37 - n % 37));
		got += (size_t)n;
		cut(bytes + got, 37);
	}
	say_bytes("1024 pieces", bytes, (ssize_t)got);
	CALL(readv(fd, many, 1025));
	tell('b');
	uneven(fd);
	CALL(pread(fd, bytes, 1, 0));
	CALL(pwrite(fd, bytes, 1, 0));
	CALL(preadv(fd, many, 1, 0));
	CALL(pwritev(fd, many, 1, 0));
	CALL(lseek(fd, 0, SEEK_CUR));
	tell('c');
	await_readable(fd, 20);
	cut(bytes, 10);
	CALL(preadv2(fd, many, 2, -1, 0));
	CALL(preadv2(fd, many, 2, 0, 0));
	CALL(preadv2(fd, many, 2, -1, RWF_NOWAIT));
	say_bytes("preadv2", bytes, 20);
}

static void client(void)
{
	int fd = oracle_connect();

	fill(bytes, sizeof(bytes), 3);
	cut(bytes, 37);
	CALL(writev(fd, many, 1024));
	CALL(writev(fd, many, 1025));
	tell('a');
	hear('b');
	cut(bytes, 10);
	CALL(writev(fd, many, 5));
	hear('c');
	CALL(pwritev2(fd, many, 2, -1, 0));
	CALL(pwritev2(fd, many, 2, 0, 0));
	CALL(recv(fd, bytes, 1, 0));
}

ORACLE_MAIN(30000, server, client)

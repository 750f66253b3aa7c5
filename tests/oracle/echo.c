/* SPDX-License-Identifier: MIT */
/* Blocking echo of messages from one byte to 100 000, each compared by checksum. */
#include "oracle.h"

static const int sizes[] = {1, 2, 3, 63, 64, 1000, 1460, 4096, 16383, 16384, 65536, 100000};
enum { COUNT = sizeof(sizes) / sizeof(*sizes) };

static void server(void)
{
	static char buf[100000];
	int fd = oracle_accept();

	for (int i = 0; i < COUNT; i++) {
		size_t n = get_all(fd, buf, (size_t)sizes[i]);

		say_bytes("request", buf, (ssize_t)n);
		put_all(fd, buf, n);
	}
	CALL(recv(fd, buf, 1, 0));
	CALL(close(fd));
}

static void client(void)
{
	static char buf[100000], back[100000];
	int fd = oracle_connect();

	for (int i = 0; i < COUNT; i++) {
		fill(buf, (size_t)sizes[i], (uint64_t)i);
		CALL(send(fd, buf, sizes[i], 0));
		size_t n = get_all(fd, back, (size_t)sizes[i]);

		say_bytes("reply", back, (ssize_t)n);
		say("same: %d", !memcmp(buf, back, n));
	}
	CALL(close(fd));
}

ORACLE_MAIN(200000, server, client)

/* SPDX-License-Identifier: MIT */
/* Two threads take bytes from one non-blocking socket (B15): EAGAIN only, every byte once. */
#include <pthread.h>

#include "oracle.h"

enum { BYTES = 200000 };
static int fd;
static long sum, count, odd;

static void *taker(void *arg)
{
	char c[7];

	(void)arg;
	for (;;) {
		ssize_t n = recv(fd, c, sizeof(c), 0);

		if (n == 0)
			return NULL;
		if (n < 0 && errno != EAGAIN) {
			__atomic_fetch_add(&odd, 1, __ATOMIC_RELAXED);
			return NULL;
		}
		if (n < 0) {
			poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 8000);
			continue;
		}
		for (ssize_t i = 0; i < n; i++)
			__atomic_fetch_add(&sum, (unsigned char)c[i], __ATOMIC_RELAXED);
		__atomic_fetch_add(&count, n, __ATOMIC_RELAXED);
	}
}

static void server(void)
{
	pthread_t t[2];

	fd = oracle_accept();
	set_nonblock(fd, 1);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, taker, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	say("count %ld sum %ld odd %ld", count, sum, odd);
}

static void client(void)
{
	static char buf[BYTES];
	int out = oracle_connect();

	fill(buf, BYTES, 4);
	for (size_t at = 0; at < BYTES; at += 1000)
		put_all(out, buf + at, 1000);
	CALL(shutdown(out, SHUT_WR));
	CALL(recv(out, buf, 1, 0));
}

ORACLE_MAIN(100000, server, client)

/* SPDX-License-Identifier: MIT */
/*
 * Random sizes both ways at once with SHA-256 at each end, from the first byte of each connection
 * (no warm-up: the change of plane comes in the middle). Args: bytes, seed, rounds.
 */
#include <pthread.h>

#include "oracle.h"

enum { PIECE = 100000 };

struct side {
	int fd;
	uint64_t bytes, seed;
	char hex[65];
};

static size_t next_size(uint64_t *state, uint64_t left)
{
	uint64_t r = next_random(state), size;

	/* Mostly small, now and then large. */
	size = r % 16 == 0 ? r / 16 % PIECE + 1 : r / 16 % 2000 + 1;
	return size < left ? size : left;
}

static void *writer(void *arg)
{
	struct side *w = arg;
	uint64_t state = w->seed;
	struct sha256 s;
	char *buf = malloc(PIECE);

	sha256_start(&s);
	for (uint64_t left = w->bytes; left;) {
		size_t n = next_size(&state, left);

		fill(buf, n, state);
		sha256_add(&s, buf, n);
		put_all(w->fd, buf, n);
		left -= n;
	}
	MUST(shutdown(w->fd, SHUT_WR));
	sha256_hex(&s, w->hex);
	free(buf);
	return NULL;
}

static void *reader(void *arg)
{
	struct side *r = arg;
	uint64_t state = r->seed ^ 0x5555;
	struct sha256 s;
	char *buf = malloc(PIECE);

	sha256_start(&s);
	r->bytes = 0;
	for (;;) {
		ssize_t n = recv(r->fd, buf, next_size(&state, PIECE), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			say("recv: %s", strerrorname_np(errno));
		if (n <= 0)
			break;
		sha256_add(&s, buf, (size_t)n);
		r->bytes += (uint64_t)n;
	}
	sha256_hex(&s, r->hex);
	free(buf);
	return NULL;
}

static void both_ways(int fd, uint64_t seed)
{
	struct side w = {
		.fd = fd, .bytes = strtoull(oracle_arg(1, "1000000"), NULL, 0), .seed = seed};
	struct side r = {.fd = fd, .seed = seed};
	pthread_t t;

	pthread_create(&t, NULL, writer, &w);
	reader(&r);
	pthread_join(t, NULL);
	say("sent %llu %.16s", (unsigned long long)w.bytes, w.hex);
	say("received %llu %.16s", (unsigned long long)r.bytes, r.hex);
	CALL(close(fd));
}

static uint64_t seed_of(int round, int side)
{
	return strtoull(oracle_arg(2, "1"), NULL, 0) * 1000003 + (uint64_t)(round * 2 + side);
}

static int rounds(void)
{
	return atoi(oracle_arg(3, "5"));
}

static void server(void)
{
	int listener = oracle_listener(AF_INET);

	tell_num(oracle_port(listener));
	for (int i = 0; i < rounds(); i++)
		both_ways((int)MUST(accept(listener, NULL, NULL)), seed_of(i, 0));
}

static void client(void)
{
	int port = (int)hear_num();

	for (int i = 0; i < rounds(); i++)
		both_ways(oracle_dial(port), seed_of(i, 1));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

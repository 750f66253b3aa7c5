/* SPDX-License-Identifier: MIT */
/*
 * Random sizes both ways at once with SHA-256 at each end, from the first byte of each connection
 * (no warm-up: the change of plane comes in the middle). Args: bytes, seed, rounds, changes.
 *
 * changes: at a random place of each round and end something happens that may take the stream off
 * the plane again: nothing, `xshim return`, a pause in reading, an option that no plane has. (A
 * link that dies near an end is a known difference: linkdeath.c is about that.)
 */
#include <pthread.h>

#include "oracle.h"

enum { PIECE = 100000, PAUSE_MS = 40, BREATHS = 25 };
enum change { NOTHING, RETURN, PAUSE, OPTION, CHANGES };

struct side {
	int fd;
	uint64_t bytes, seed;
	char hex[65];
	enum change change; /* the reader's */
	uint64_t change_at;
	int slow; /* the writer: time for the planes to change under it */
	pthread_t changer;
	int changed;
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
		if (w->slow && left / (w->bytes / BREATHS) != (left - n) / (w->bytes / BREATHS))
			poll(NULL, 0, 4);
		left -= n;
	}
	MUST(shutdown(w->fd, SHUT_WR));
	sha256_hex(&s, w->hex);
	free(buf);
	return NULL;
}

/* --- what comes between ---------- */

static void *changer(void *arg)
{
	struct side *r = arg;
	int off = 0;

	if (r->change == RETURN)
		oracle_return(r->fd);
	else if (r->change == OPTION)
		setsockopt(r->fd, SOL_SOCKET, SO_RXQ_OVFL, &off, sizeof(off));
	return NULL;
}

static void look_for_change(struct side *r)
{
	if (r->changed || r->change == NOTHING || r->bytes < r->change_at)
		return;
	r->changed = 1;
	if (r->change == PAUSE)
		poll(NULL, 0, PAUSE_MS);
	pthread_create(&r->changer, NULL, changer, r);
}

static void plan(struct side *r)
{
	uint64_t state = r->seed ^ 0x777;

	r->change = (enum change)(next_random(&state) % CHANGES);
	r->change_at = next_random(&state) % strtoull(oracle_arg(1, "1000000"), NULL, 0);
}

/* --- the streams ---------- */

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
		look_for_change(r);
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

	w.slow = oracle_arg(4, NULL) && oracle_fast();
	if (w.slow)
		plan(&r);
	pthread_create(&t, NULL, writer, &w);
	reader(&r);
	pthread_join(t, NULL);
	if (r.changed)
		pthread_join(r.changer, NULL);
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

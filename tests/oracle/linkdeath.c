/* SPDX-License-Identifier: MIT */
/*
 * Eight streams both ways, and the link between the two processes is cut under them, three times:
 * twice they go on until some are on the plane again, the last time they end at once. Each end
 * compares what it read with what the other wrote.
 *
 * Arg removed: what cuts it is gone for good, and says so by taking the file away; the streams go
 * on without.
 *
 * Four streams write as fast as the machine lets them; on a busy one they leave the plane as
 * stalled, which is right. The other four are never further ahead of their peer than a window
 * holds.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "oracle.h"

enum { STREAMS = 8, PIECE = 16000, STEP = 2000, CUTS = 3, WAIT_LOOKS = 1000, MORE = 100000 };

struct stream {
	int fd;
	bool steady;
	pthread_t writer, reader;
	atomic_ulong sent, got;
	long wrote, read; /* the beginnings of the hashes */
};

static struct stream streams[STREAMS];
static atomic_bool stop;

static long number_of(struct sha256 *s)
{
	char hex[65];

	sha256_hex(s, hex);
	hex[15] = 0;
	return strtol(hex, NULL, 16);
}

static void breathe(void)
{
	poll(NULL, 0, 2);
}

static void *writer(void *arg)
{
	struct stream *st = arg;
	uint64_t state = (uint64_t)st->fd + 17;
	char *buf = malloc(PIECE);
	struct sha256 s;

	sha256_start(&s);
	while (!stop) {
		size_t n = next_random(&state) % (st->steady ? STEP : PIECE) + 1;

		if (st->steady && st->sent > st->got + STEP) {
			breathe();
			continue;
		}
		fill(buf, n, state);
		sha256_add(&s, buf, n);
		put_all(st->fd, buf, n);
		st->sent += n;
		if (!st->steady)
			breathe(); /* the machine is others' too */
	}
	MUST(shutdown(st->fd, SHUT_WR));
	st->wrote = number_of(&s);
	free(buf);
	return NULL;
}

static void *reader(void *arg)
{
	struct stream *st = arg;
	char *buf = malloc(PIECE);
	struct sha256 s;
	ssize_t n;

	sha256_start(&s);
	while ((n = recv(st->fd, buf, PIECE, 0)) > 0) {
		sha256_add(&s, buf, (size_t)n);
		st->got += (size_t)n;
	}
	if (n < 0)
		say("recv: %s", strerrorname_np(errno));
	st->read = number_of(&s);
	free(buf);
	return NULL;
}

static void begin(void)
{
	for (int i = 0; i < STREAMS; i++) {
		streams[i].steady = i % 2;
		pthread_create(&streams[i].writer, NULL, writer, &streams[i]);
		pthread_create(&streams[i].reader, NULL, reader, &streams[i]);
	}
}

static void end(void)
{
	stop = true;
	for (int i = 0; i < STREAMS; i++) {
		pthread_join(streams[i].writer, NULL);
		pthread_join(streams[i].reader, NULL);
		CALL(close(streams[i].fd));
	}
	for (int i = 0; i < STREAMS; i++) {
		tell_num(streams[i].wrote);
		say("stream %d: %s", i, hear_num() == streams[i].read ? "whole" : "BROKEN");
	}
}

static int standing(void)
{
	int n = 0;

	for (int i = 0; i < STREAMS; i++)
		n += oracle_standing(streams[i].fd);
	return n;
}

/* Both directions of all streams go on by this much. */
static void run_on(void)
{
	for (int i = 0; i < STREAMS; i++) {
		unsigned long sent = streams[i].sent, got = streams[i].got;

		while (streams[i].sent < sent + MORE || streams[i].got < got + MORE)
			breathe();
	}
}

static char path[256];

/* The test plane cuts all links of a process that finds this file anew. */
static void cut(void)
{
	const char *at = getenv("XSHIM_TESTPLANE");

	at = at ? strstr(at, "cut_file=") : NULL;
	if (!at)
		oracle_die("no cut_file in XSHIM_TESTPLANE", 0);
	snprintf(path, sizeof(path), "%s", at + strlen("cut_file="));
	path[strcspn(path, ",")] = 0;
	unlink(path);
	close((int)MUST(open(path, O_CREAT | O_WRONLY, 0600)));
}

static void await_standing(void)
{
	for (int i = 0; i < WAIT_LOOKS; i++, breathe())
		if (standing() >= STREAMS / 4)
			return;
	say("%d of %d streams on the plane", standing(), STREAMS);
}

static void cut_thrice(void)
{
	for (int i = 1; oracle_fast() && i <= CUTS; i++) {
		cut();
		if (i == CUTS)
			break;
		run_on();
		await_standing();
		run_on();
	}
}

static void cut_for_good(void)
{
	if (oracle_fast()) {
		cut();
		while (access(path, F_OK) == 0)
			breathe();
		while (standing())
			breathe();
	}
	run_on();
	say("%d streams on the plane", oracle_fast() ? standing() : 0);
}

static void server(void)
{
	int listener = oracle_listener(AF_INET);

	tell_num(oracle_port(listener));
	for (int i = 0; i < STREAMS; i++) {
		streams[i].fd = (int)MUST(accept(listener, NULL, NULL));
		warm_echo(streams[i].fd);
	}
	begin();
	hear('e');
	end();
}

static void client(void)
{
	int port = (int)hear_num();

	for (int i = 0; i < STREAMS; i++) {
		streams[i].fd = oracle_dial(port);
		warm_ping(streams[i].fd);
	}
	begin();
	run_on();
	if (oracle_argc() > 1)
		cut_for_good();
	else
		cut_thrice();
	tell('e');
	end();
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

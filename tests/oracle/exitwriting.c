/* SPDX-License-Identifier: MIT */
/*
 * A process exits while its threads write: the exit status is its own, no thread is told EPIPE, and
 * what arrived is the beginning of what was written, and then the end.
 */
#include <pthread.h>

#include "oracle.h"

enum { STREAMS = 3, PIECE = 500, BEFORE = 200000 };

struct stream {
	int fd, err;
	pthread_t thread;
	_Atomic size_t got;
	size_t wrong;
};

static char piece[PIECE];

static void *writer(void *arg)
{
	int fd = *(int *)arg;

	for (;;) {
		ssize_t n = send(fd, piece, sizeof(piece), 0);

		if (n < 0)
			say("send: %s", strerrorname_np(errno));
		if (n != sizeof(piece))
			break;
	}
	return NULL;
}

static void *reader(void *arg)
{
	struct stream *st = arg;
	char buf[PIECE];
	ssize_t n;

	while ((n = recv(st->fd, buf, sizeof(buf), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			st->wrong += buf[i] != piece[(st->got + (size_t)i) % PIECE];
		st->got += (size_t)n;
	}
	st->err = n ? errno : 0;
	return NULL;
}

static void server(void)
{
	static struct stream st[STREAMS];

	fill(piece, sizeof(piece), 3);
	for (int i = 0; i < STREAMS; i++)
		st[i].fd = oracle_accept();
	for (int i = 0; i < STREAMS; i++)
		pthread_create(&st[i].thread, NULL, reader, &st[i]);
	while (st[0].got < BEFORE)
		poll(NULL, 0, 1);
	tell('g');
	for (int i = 0; i < STREAMS; i++) {
		pthread_join(st[i].thread, NULL);
		say("the end: %s, %zu bytes are wrong",
		    st[i].err ? strerrorname_np(st[i].err) : "EOF", st[i].wrong);
		CALL(close(st[i].fd));
	}
}

static void client(void)
{
	static int fd[STREAMS];
	pthread_t t;

	fill(piece, sizeof(piece), 3);
	for (int i = 0; i < STREAMS; i++)
		fd[i] = oracle_connect();
	for (int i = 0; i < STREAMS; i++)
		pthread_create(&t, NULL, writer, &fd[i]);
	hear('g');
	exit(7);
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

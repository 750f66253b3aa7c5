/* SPDX-License-Identifier: MIT */
/*
 * A server that holds back bytes in all its answers, from the connection's beginning: TCP_CORK
 * around a head and a file (arg: sendfile), MSG_MORE on the head (more), or one cork for an answer
 * that has no end (long), of which the kernel always has a held back tail. Its bytes move like
 * anybody's, and what it's told of TCP_CORK is what it has set.
 */
#include <sys/mman.h>
#include <sys/sendfile.h>

#include "oracle.h"

enum { ROUNDS = 200, MOST = 20000, HEAD = 40, BODY = 5000, ANSWER = HEAD + BODY, PART = 200000 };
static char body[PART], buf[PART];

static void cork(int fd, int on)
{
	int is = -1;
	socklen_t n = sizeof(is);

	MUST(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)));
	MUST(getsockopt(fd, IPPROTO_TCP, TCP_CORK, &is, &n));
	if (is != on)
		say("TCP_CORK is %d instead of %d", is, on);
}

/* Enough rounds, and some on the plane. */
static int last(int fd, int round)
{
	static int moved;

	if (!moved && round >= ROUNDS && round % 50 == 0)
		moved = !oracle_fast() || round >= MOST || oracle_standing(fd) ? round : 0;
	return moved && round == moved + 49;
}

static void answer(int fd, int file, char first)
{
	off_t at = 0;

	buf[0] = first;
	if (strcmp(oracle_arg(1, "sendfile"), "sendfile") != 0) {
		MUST(send(fd, buf, HEAD, MSG_MORE));
		put_all(fd, body, BODY);
		return;
	}
	cork(fd, 1);
	MUST(write(fd, buf, HEAD));
	while (at < BODY)
		MUST(sendfile(fd, file, &at, (size_t)(BODY - at)));
	cork(fd, 0);
}

/* The request comes before the part's tail: who waits for all of it would wait for the kernel to
 * lose patience. */
static void endless(int fd)
{
	char request;

	cork(fd, 1);
	for (int i = 0, ended = 0; !ended; i++) {
		ended = last(fd, i);
		body[0] = ended ? 'L' : 'M';
		put_all(fd, body, PART);
		MUST(recv(fd, &request, 1, 0));
	}
	cork(fd, 0);
}

static void answers(int fd)
{
	int file = (int)MUST(memfd_create("file", 0));
	char request;

	fill(buf, HEAD, 4);
	MUST(write(file, body, BODY));
	for (int i = 0, ended = 0; !ended; i++) {
		MUST(recv(fd, &request, 1, 0));
		ended = last(fd, i);
		answer(fd, file, ended ? 'L' : 'M');
	}
}

static void server(void)
{
	int listener = oracle_listener(AF_INET), fd;

	fill(body, PART, 3);
	tell_num(oracle_port(listener));
	fd = (int)MUST(accept(listener, NULL, NULL));
	if (!strcmp(oracle_arg(1, "sendfile"), "long"))
		endless(fd);
	else
		answers(fd);
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, buf, 1, 0));
}

static long wrong(const char *got, const char *want, size_t n)
{
	long bad = 0;

	for (size_t i = 0; i < n; i++)
		bad += got[i] != want[i];
	return bad;
}

static void long_answer(int fd)
{
	const size_t half = PART / 2;
	long bad = 0;
	char first;

	do {
		get_all(fd, buf, half);
		first = buf[0];
		put_all(fd, "r", 1);
		get_all(fd, buf + half, half);
		bad += wrong(buf + 1, body + 1, PART - 1);
	} while (first == 'M');
	say("ends with %c, %ld wrong bytes", first, bad);
}

static void short_answers(int fd)
{
	static char head[HEAD];
	long bad = 0;

	fill(head, HEAD, 4);
	do {
		put_all(fd, "r", 1);
		get_all(fd, buf, ANSWER);
		bad += wrong(buf + 1, head + 1, HEAD - 1) + wrong(buf + HEAD, body, BODY);
	} while (buf[0] == 'M');
	say("ends with %c, %ld wrong bytes", buf[0], bad);
}

static void client(void)
{
	int fd = oracle_dial((int)hear_num());

	fill(body, PART, 3);
	if (!strcmp(oracle_arg(1, "sendfile"), "long"))
		long_answer(fd);
	else
		short_answers(fd);
	CALL(recv(fd, buf, 1, 0));
	CALL(close(fd));
}

ORACLE_MAIN(100000, server, client)

/* SPDX-License-Identifier: MIT */
/*
 * Would-block on both sides, by O_NONBLOCK and by MSG_DONTWAIT; a full stream is drained and all
 * bytes are compared. How many bytes fit is nobody's business, so it isn't printed.
 */
#include "oracle.h"

enum { PIECE = 8192 };

static void would_block(int fd)
{
	char buf[64];

	CALL(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	set_nonblock(fd, 1);
	CALL(recv(fd, buf, sizeof(buf), 0));
	CALL(read(fd, buf, sizeof(buf)));
	CALL(recv(fd, buf, sizeof(buf), MSG_PEEK));
	CALL(recv(fd, buf, sizeof(buf), MSG_WAITALL));
	tell('s');
	await_readable(fd, 5);
	CALL(read(fd, buf, sizeof(buf)));
	CALL(read(fd, buf, sizeof(buf)));
	tell('t');
}

static void drain(int fd)
{
	static char buf[1 << 16];
	uint64_t want = (uint64_t)hear_num(), got = 0;
	struct sha256 s;
	char hex[65];

	sha256_start(&s);
	while (got < want) {
		size_t part = want - got < sizeof(buf) ? want - got : sizeof(buf);
		size_t n = get_all(fd, buf, part);

		if (!n)
			break;
		sha256_add(&s, buf, n);
		got += n;
	}
	sha256_hex(&s, hex);
	say("all there: %d", got == want);
	CALL(recv(fd, buf, sizeof(buf), 0));
	tell_num((long)strtoull((hex[15] = 0, hex), NULL, 16));
}

static void server(void)
{
	char buf[64];
	int fd = oracle_accept();

	would_block(fd);
	drain(fd);
	hear('e');
	await_readable(fd, 1);
	CALL(recv(fd, buf, sizeof(buf), 0));
	CALL(close(fd));
}

/* Writes until the stream is full; partial writes count as what they are. */
static uint64_t fill_up(int fd, struct sha256 *s, int flags)
{
	static unsigned char buf[PIECE];
	uint64_t sent = 0;

	for (;;) {
		fill(buf, sizeof(buf), sent);
		ssize_t n = send(fd, buf, sizeof(buf), flags);

		if (n < 0) {
			say("full: %s", strerrorname_np(errno));
			return sent;
		}
		sha256_add(s, buf, (size_t)n);
		sent += (uint64_t)n;
	}
}

static void client(void)
{
	int fd = oracle_connect();
	struct sha256 s;
	char hex[65];

	hear('s');
	CALL(send(fd, "hello", 5, 0));
	hear('t');
	sha256_start(&s);
	uint64_t sent = fill_up(fd, &s, MSG_DONTWAIT);

	set_nonblock(fd, 1);
	sent += fill_up(fd, &s, 0);
	tell_num((long)sent);
	await_event(fd, POLLOUT);
	sha256_hex(&s, hex);
	say("same: %d", hear_num() == (long)strtoull((hex[15] = 0, hex), NULL, 16));
	await_event(fd, POLLOUT);
	CALL(send(fd, "x", 1, 0));
	tell('e');
	await_event(fd, POLLIN);
	CALL(recv(fd, hex, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* SO_RCVTIMEO and SO_SNDTIMEO end a wait with EAGAIN; how long it took isn't asked. */
#include <sys/time.h>

#include "oracle.h"

static char buf[1 << 16];

static void set_timeout(int fd, int which, int ms)
{
	struct timeval t = {ms / 1000, ms % 1000 * 1000}, back = {9, 9};
	socklen_t n = sizeof(back);

	CALL(setsockopt(fd, SOL_SOCKET, which, &t, sizeof(t)));
	CALL(getsockopt(fd, SOL_SOCKET, which, &back, &n));
	say("timeout %ld.%06ld", back.tv_sec, back.tv_usec);
}

static void server(void)
{
	int fd = oracle_accept();
	long sent = 0;

	set_timeout(fd, SO_RCVTIMEO, 40);
	CALL(recv(fd, buf, 10, 0));
	CALL(read(fd, buf, 10));
	CALL(recv(fd, buf, 10, MSG_PEEK));
	tell('a');
	await_readable(fd, 5);
	CALL(recv(fd, buf, 10, MSG_WAITALL));
	CALL(recv(fd, buf, 10, 0));
	set_timeout(fd, SO_SNDTIMEO, 40);
	for (;;) {
		ssize_t n = send(fd, buf, sizeof(buf), 0);

		if (n < 0) {
			say("full: %s", strerrorname_np(errno));
			break;
		}
		sent += n;
	}
	tell_num(sent);
	hear('b');
	CALL(send(fd, "more", 4, 0));
	set_timeout(fd, SO_RCVTIMEO, 0);
	tell('c');
	CALL(recv(fd, buf, 5, 0));
	CALL(close(fd));
}

static void client(void)
{
	int fd = oracle_connect();

	hear('a');
	CALL(send(fd, "hello", 5, 0));
	long want = hear_num();

	while (want > 0) {
		size_t n = get_all(fd, buf, want < (long)sizeof(buf) ? (size_t)want : sizeof(buf));

		if (!n)
			break;
		want -= (long)n;
	}
	say("missing %ld", want);
	tell('b');
	CALL(get_all(fd, buf, 4));
	hear('c');
	CALL(send(fd, "after", 5, 0));
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

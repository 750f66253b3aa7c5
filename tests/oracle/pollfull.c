/* SPDX-License-Identifier: MIT */
/* Writability: a full stream isn't writable, poll, select and epoll agree, reading makes room. */
#include <sys/select.h>

#include "oracle.h"

static char buf[1 << 16];

/* Full to the last byte, as poll sees it too: a reader that takes nothing makes no more room. */
static long fill_up(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	long sent = 0;

	do {
		ssize_t n;

		while ((n = send(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
			sent += n;
	} while (poll(&p, 1, 100) > 0);
	return sent;
}

static void look(const char *state, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
	struct timeval none = {0, 0};
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT};
	int set = (int)MUST(epoll_create1(0));
	fd_set out;

	int ready = poll(&p, 1, 0);

	say("%s: poll %d %s", state, ready, poll_names(p.revents));
	FD_ZERO(&out);
	FD_SET(fd, &out);
	say("%s: select %d", state, select(fd + 1, NULL, &out, NULL, &none));
	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	e.events = 0;
	int n = epoll_wait(set, &e, 1, 0);

	say("%s: epoll %d %s", state, n, epoll_names(e.events));
	close(set);
}

static void server(void)
{
	int fd = oracle_accept();
	long want = hear_num();

	while (want > 0) {
		size_t n = get_all(fd, buf, want < (long)sizeof(buf) ? (size_t)want : sizeof(buf));

		if (!n)
			break;
		want -= (long)n;
	}
	say("missing %ld", want);
	tell('d');
	CALL(recv(fd, buf, 1, 0));
}

static void client(void)
{
	int fd = oracle_connect();

	look("empty", fd);
	long sent = fill_up(fd);

	look("full", fd);
	tell_num(sent);
	await_event(fd, POLLOUT);
	look("room", fd);
	hear('d');
	await_outq_empty(fd);
	look("drained", fd);
	CALL(send(fd, "x", 1, MSG_DONTWAIT));
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

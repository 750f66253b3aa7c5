/* SPDX-License-Identifier: MIT */
/* Level, edge and one-shot (arg 1) over the same sequence of events, MOD as a rearm. */
#include "oracle.h"

static int set;
static char buf[64];

static void look(const char *when)
{
	struct epoll_event e[4];

	memset(e, 0, sizeof(e));
	int n = epoll_wait(set, e, 4, 0);

	say("%s: %d %s %lx", when, n, n > 0 ? epoll_names(e[0].events) : "",
	    n > 0 ? (unsigned long)e[0].data.u64 : 0);
}

static void await_look(const char *when, int fd, int bytes)
{
	await_readable(fd, bytes);
	look(when);
	look("again");
}

/* Waits while the connection itself is in one of these states. */
static void await_past(int fd, unsigned states)
{
	struct tcp_info info;
	socklen_t n = sizeof(info);

	for (int i = 0; i < 5000; i++) {
		MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n));
		if (!(states & 1u << info.tcpi_state))
			break;
		poll(NULL, 0, 1);
	}
}

static void change(int op, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.u64 = 0x1234567890abcdef};

	CALL(epoll_ctl(set, op, fd, &e));
}

static uint32_t mode(void)
{
	const char *name = oracle_arg(1, "level");

	return !strcmp(name, "edge")	   ? EPOLLET
	       : !strcmp(name, "oneshot")  ? EPOLLONESHOT
	       : !strcmp(name, "edgeshot") ? EPOLLET | EPOLLONESHOT
					   : 0;
}

static void reading(int fd, uint32_t m)
{
	tell('a');
	await_look("5 bytes", fd, 5);
	CALL(read(fd, buf, 2));
	look("2 read");
	tell('b');
	await_look("5 more", fd, 8);
	CALL(read(fd, buf, sizeof(buf)));
	look("all read");
	tell('c');
	await_readable(fd, 1);
	change(EPOLL_CTL_MOD, fd, EPOLLIN | m);
	look("rearmed with a byte waiting");
	look("again");
	change(EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT | m);
	look("rearmed for both");
	look("again");
	CALL(read(fd, buf, sizeof(buf)));
	look("read");
	change(EPOLL_CTL_MOD, fd, EPOLLIN | m);
	look("rearmed for nothing");
}

static void ending(int fd, uint32_t m)
{
	change(EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLRDHUP | m);
	tell('d');
	await_event(fd, POLLRDHUP);
	look("peer's end");
	look("again");
	CALL(read(fd, buf, sizeof(buf)));
	look("end read");
	change(EPOLL_CTL_MOD, fd, EPOLLRDHUP | m);
	look("end, rearmed");
	change(EPOLL_CTL_DEL, fd, 0);
	look("removed");
	change(EPOLL_CTL_MOD, fd, EPOLLIN);
	change(EPOLL_CTL_DEL, fd, 0);
	change(EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | m);
	change(EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | m);
	look("added again");
}

static void server(void)
{
	uint32_t m = mode();
	int fd = oracle_accept();

	set = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	change(EPOLL_CTL_ADD, fd, EPOLLIN | m);
	look("idle");
	reading(fd, m);
	ending(fd, m);
	tell('e');
	CALL(shutdown(fd, SHUT_WR));
	await_event(fd, POLLHUP);
	/* Bare, the FIN's acknowledgement is an edge too: it's there first, as on an idle machine.
	 */
	await_past(fd, 1u << TCP_LAST_ACK);
	look("both ended");
	look("again");
	/* On a plane the connection's own FIN follows the one in band, and is no news. */
	await_past(fd, 1u << TCP_ESTABLISHED | 1u << TCP_CLOSE_WAIT | 1u << TCP_LAST_ACK);
	look("with the FIN");
	CALL(close(fd));
	look("closed");
	CALL(epoll_wait(set, NULL, 0, 0));
	CALL(epoll_wait(set, NULL, -1, 0));
}

static void client(void)
{
	int fd = oracle_connect();

	hear('a');
	CALL(send(fd, "12345", 5, 0));
	hear('b');
	CALL(send(fd, "67890", 5, 0));
	hear('c');
	CALL(send(fd, "x", 1, 0));
	hear('d');
	CALL(shutdown(fd, SHUT_WR));
	hear('e');
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* SO_RCVLOWAT: poll and blocking reads wait for that many bytes; set on the way and set back. */
#include "oracle.h"

static char buf[64];

static void look(const char *when, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = poll(&p, 1, 0);

	say("%s: %d %s", when, n, poll_names(p.revents));
}

static void set_lowat(int fd, int n)
{
	CALL(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof(n)));
}

/* FIONREAD alone: poll says nothing below the mark. */
static void await_count(int fd, int want)
{
	int n = 0;

	for (int i = 0; i < 5000 && n < want; i++) {
		ioctl(fd, FIONREAD, &n);
		poll(NULL, 0, 1);
	}
	say("FIONREAD %d", n);
}

static void server(void)
{
	int fd = oracle_accept();

	set_lowat(fd, 10);
	tell('a');
	await_count(fd, 5);
	look("5 of 10", fd);
	CALL(recv(fd, buf, 64, MSG_DONTWAIT));
	tell('b');
	await_count(fd, 5);
	tell('c');
	await_event(fd, POLLIN);
	look("10 of 10", fd);
	CALL(recv(fd, buf, 64, 0));
	tell('d');
	CALL(recv(fd, buf, 64, 0));
	set_lowat(fd, 1);
	tell('e');
	await_event(fd, POLLIN);
	CALL(recv(fd, buf, 64, 0));
	set_lowat(fd, 10);
	tell('f');
	await_event(fd, POLLRDHUP);
	look("end below the mark", fd);
	CALL(recv(fd, buf, 64, 0));
	CALL(recv(fd, buf, 64, 0));
}

static void client(void)
{
	int fd = oracle_connect();

	for (char c = 'a'; c <= 'c'; c++) {
		hear(c);
		CALL(send(fd, "12345", 5, 0));
	}
	hear('d');
	CALL(send(fd, "1234567890", 10, 0));
	hear('e');
	CALL(send(fd, "1", 1, 0));
	hear('f');
	CALL(send(fd, "123", 3, 0));
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

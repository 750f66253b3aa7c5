/* SPDX-License-Identifier: MIT */
/*
 * Waits that end by their time alone say so, never early by an inner wake-up (B64): a moved
 * connection is in the set, and traffic that nobody asked about goes on.
 */
#include <sys/select.h>
#include <time.h>

#include "oracle.h"

static char buf[64];

static int early(long since_ms, long asked)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000 - since_ms < asked - 1;
}

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void server(void)
{
	int fd = oracle_accept(), other = oracle_accept();
	int set = (int)MUST(epoll_create1(0));
	struct epoll_event e = {.events = EPOLLIN};
	struct timespec t = {0, 200000000};
	struct timeval v = {0, 200000};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	fd_set in;
	sigset_t none;

	sigemptyset(&none);
	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	e.events = EPOLLIN | EPOLLET;
	MUST(epoll_ctl(set, EPOLL_CTL_ADD, other, &e));
	tell('g');
	long at = now();

	/* One edge of the noise, then nothing that was asked for. */
	CALL(epoll_wait(set, &e, 1, 5000));
	e.events = 0;
	CALL(epoll_ctl(set, EPOLL_CTL_MOD, other, &e));
	at = now();
	CALL(epoll_wait(set, &e, 1, 200));
	say("early: %d", early(at, 200));
	at = now();
	CALL(epoll_pwait(set, &e, 1, 200, &none));
	say("early: %d", early(at, 200));
	at = now();
	CALL(epoll_pwait2(set, &e, 1, &t, NULL));
	say("early: %d", early(at, 200));
	at = now();
	CALL(poll(&p, 1, 200));
	say("early: %d", early(at, 200));
	at = now();
	FD_ZERO(&in);
	FD_SET(fd, &in);
	CALL(select(fd + 1, &in, NULL, NULL, &v));
	say("early: %d", early(at, 200));
	hear('z');
	CALL(close(fd));
}

static void client(void)
{
	int fd = oracle_connect(), other = oracle_connect();

	hear('g');
	for (int i = 0; i < 100; i++) {
		put_all(other, "noise", 5);
		poll(NULL, 0, 10);
	}
	tell('z');
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(2 * PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/*
 * Threads that echo on connections of their own while others fork without a pause. Each child uses
 * what a fork may have left locked: it makes connections to itself, sets, duplicates; closes what
 * it inherited; leaves by _exit, exit, exec or a signal. No child may hang, no byte may be lost.
 */
#include <pthread.h>

#include "oracle.h"

enum { PAIRS = 4, FORKERS = 2, FORKS = 24, BYTES = 64 };

static int conn[PAIRS];
static int ended[8];

static void *echoes(void *arg)
{
	int fd = *(int *)arg;
	char buf[BYTES];

	for (;;) {
		size_t n = get_all(fd, buf, sizeof(buf));

		if (n != sizeof(buf))
			break;
		put_all(fd, buf, n);
	}
	return NULL;
}

static int talks_to_itself(void)
{
	int listener = oracle_listener(AF_INET), ok = 0;
	int a = oracle_dial(oracle_port(listener)), b = accept(listener, NULL, NULL);
	int set = epoll_create1(0), copy = dup(b);
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = b};
	struct pollfd p = {.fd = copy, .events = POLLIN};
	char buf[4];

	epoll_ctl(set, EPOLL_CTL_ADD, b, &ev);
	for (int i = 0; i < 50; i++) {
		if (send(a, "ping", 4, 0) != 4 || poll(&p, 1, 30000) != 1 ||
		    epoll_wait(set, &ev, 1, 30000) != 1 || recv(copy, buf, 4, MSG_WAITALL) != 4)
			break;
		ok++;
	}
	close(copy);
	close(a);
	return ok == 50 && recv(b, buf, 1, 0) == 0;
}

static void be_child(unsigned how)
{
	alarm(50);
	if (how % 2 && !talks_to_itself())
		_exit(1);
	for (int i = 0; i < PAIRS; i++)
		close(conn[i]);
	switch (how / 2) {
	case 0:
		_exit(0);
	case 1:
		_exit(talks_to_itself() ? 0 : 2);
	case 2:
		execl("/bin/true", "true", NULL);
		_exit(3);
	default:
		kill(getpid(), SIGKILL);
	}
}

static void *forks(void *arg)
{
	for (unsigned i = 0; i < FORKS; i++) {
		int status = -1;
		pid_t child = fork();

		if (!child)
			be_child(i % 8);
		waitpid(child, &status, 0);
		if (status == (i % 8 / 2 == 3 ? SIGKILL : 0))
			__atomic_fetch_add(&ended[i % 8], 1, __ATOMIC_RELAXED);
		else
			say("child of kind %u: %x", i % 8, (unsigned)status);
	}
	return arg;
}

static void server(void)
{
	pthread_t echoer[PAIRS], forker[FORKERS];
	int listener = oracle_listener(AF_INET);

	tell_num(oracle_port(listener));
	for (int i = 0; i < PAIRS; i++) {
		conn[i] = (int)MUST(accept(listener, NULL, NULL));
		warm_echo(conn[i]);
	}
	for (int i = 0; i < PAIRS; i++)
		pthread_create(&echoer[i], NULL, echoes, &conn[i]);
	for (int i = 0; i < FORKERS; i++)
		pthread_create(&forker[i], NULL, forks, NULL);
	for (int i = 0; i < FORKERS; i++)
		pthread_join(forker[i], NULL);
	tell('e');
	for (int i = 0; i < PAIRS; i++)
		pthread_join(echoer[i], NULL);
	for (int i = 0; i < 8; i++)
		say("kind %d: %d", i, ended[i]);
}

static _Atomic int over;

static void *pings(void *arg)
{
	int fd = *(int *)arg;
	unsigned char out[BYTES], in[BYTES];
	long wrong = 0;

	for (unsigned i = 0; !over; i++) {
		fill(out, sizeof(out), i);
		put_all(fd, out, sizeof(out));
		wrong += get_all(fd, in, sizeof(in)) != sizeof(in) ||
			 memcmp(in, out, sizeof(in)) != 0;
	}
	shutdown(fd, SHUT_WR);
	return (void *)wrong;
}

static void client(void)
{
	pthread_t thread[PAIRS];
	int fd[PAIRS], port = (int)hear_num();

	for (int i = 0; i < PAIRS; i++) {
		fd[i] = oracle_dial(port);
		warm_ping(fd[i]);
	}
	for (int i = 0; i < PAIRS; i++)
		pthread_create(&thread[i], NULL, pings, &fd[i]);
	hear('e');
	over = 1;
	for (int i = 0; i < PAIRS; i++) {
		void *wrong;

		pthread_join(thread[i], &wrong);
		say("wrong: %ld", (long)wrong);
	}
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

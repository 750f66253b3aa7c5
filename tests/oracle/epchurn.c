/* SPDX-License-Identifier: MIT */
/*
 * An event loop that takes its socket out of the set and puts it back for every message, as
 * redis-benchmark does, while the connection moves to a plane; two other threads do the same with a
 * connection and a pipe of their own in the same set. No call fails, no message is missed.
 */
#include <pthread.h>

#include "oracle.h"

enum { LEAST = 600, MOST = 3000 };

static int set, other[2], tube[2];
static _Atomic int over, failed;

static void change(int op, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.fd = fd};

	if (epoll_ctl(set, op, fd, &e))
		failed++;
}

static void *churn(void *arg)
{
	int fd = *(int *)arg;

	oracle_slot(arg == &other[0] ? 2 : 3);
	while (!over) {
		struct epoll_event e;

		change(EPOLL_CTL_ADD, fd, EPOLLIN);
		change(EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLRDHUP);
		if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) != -1 || errno != EEXIST)
			failed++;
		change(EPOLL_CTL_DEL, fd, 0);
		if (epoll_ctl(set, EPOLL_CTL_MOD, fd, &e) != -1 || errno != ENOENT)
			failed++;
		if (epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) != -1 || errno != ENOENT)
			failed++;
	}
	return NULL;
}

/* The one event that's due. */
static void await(int fd, uint32_t events)
{
	struct epoll_event e = {.events = 0};
	int n;

	change(EPOLL_CTL_ADD, fd, events);
	n = epoll_wait(set, &e, 1, 8000);
	if (n != 1 || e.data.fd != fd || e.events != events) {
		say("wait: %d data %llx (fd %d, other %d, pipe %d) %s", n,
		    (unsigned long long)e.data.u64, fd, other[0], tube[0], epoll_names(e.events));
		failed++;
	}
	change(EPOLL_CTL_DEL, fd, 0);
}

static void message(int fd, char what)
{
	char back = 0;

	await(fd, EPOLLOUT);
	MUST(send(fd, &what, 1, 0));
	await(fd, EPOLLIN);
	if (recv(fd, &back, 1, 0) != 1 || back != what)
		failed++;
}

static void server(void)
{
	int listener = oracle_listener(AF_INET), fd;
	char c = 0;

	tell_num(oracle_port(listener));
	fd = (int)MUST(accept(listener, NULL, NULL));
	while (c != 'q') {
		if (recv(fd, &c, 1, 0) != 1)
			oracle_die("recv", errno);
		MUST(send(fd, &c, 1, 0));
	}
	CALL(recv(fd, &c, 1, 0));
	CALL(close(fd));
}

static void client(void)
{
	pthread_t t[2];
	int fd, after = 0;

	set = (int)MUST(epoll_create1(0));
	oracle_self_pair(other);
	MUST(pipe(tube));
	fd = oracle_dial((int)hear_num());
	pthread_create(&t[0], NULL, churn, &other[0]);
	pthread_create(&t[1], NULL, churn, &tube[0]);
	for (int i = 0; i < MOST && !failed && after < LEAST; i++) {
		message(fd, 'a');
		if (after || (i % 100 == 0 && oracle_standing(fd)))
			after++;
	}
	message(fd, 'q');
	over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	say("failed: %d", (int)failed);
	CALL(close(fd));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

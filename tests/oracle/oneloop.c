/* SPDX-License-Identifier: MIT */
/*
 * A process connected to itself, one thread: both ends in one epoll set, a few hundred kilobytes
 * each way, nothing may wait for the other end inside a call. With arg "threads" the ends are two
 * blocking threads.
 */
#include <pthread.h>

#include "oracle.h"

enum { BYTES = 400000 };
static int ends[2];
static char out[2][BYTES], in[2][BYTES];
static size_t sent[2], got[2];
static int ended[2];

static void write_some(int i)
{
	while (sent[i] < BYTES) {
		size_t part = BYTES - sent[i] < 7000 ? BYTES - sent[i] : 7000;
		ssize_t n = send(ends[i], out[i] + sent[i], part, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			oracle_die("send", errno);
		sent[i] += (size_t)n;
	}
	MUST(shutdown(ends[i], SHUT_WR));
}

static int read_some(int i)
{
	for (;;) {
		char spare[1];
		size_t room = BYTES - got[i];
		ssize_t n = recv(ends[i], room ? in[i] + got[i] : spare, room ? room : 1, 0);

		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			oracle_die("recv", errno);
		if (n == 0)
			return 1;
		got[i] += (size_t)n;
	}
}

static void loop(void)
{
	int set = (int)MUST(epoll_create1(0)), open = 2;

	for (int i = 0; i < 2; i++) {
		struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
					.data.u32 = (uint32_t)i};

		set_nonblock(ends[i], 1);
		MUST(epoll_ctl(set, EPOLL_CTL_ADD, ends[i], &e));
	}
	while (open) {
		struct epoll_event e[2];
		int n = epoll_wait(set, e, 2, 8000);

		if (n <= 0)
			oracle_die("epoll_wait gives nothing", 0);
		for (int j = 0; j < n; j++) {
			int i = (int)e[j].data.u32;

			if ((e[j].events & EPOLLOUT) && sent[i] < BYTES)
				write_some(i);
			if ((e[j].events & EPOLLIN) && !ended[i])
				ended[i] = read_some(i);
			if (!ended[i] || sent[i] < BYTES)
				continue;
			open--;
			MUST(epoll_ctl(set, EPOLL_CTL_DEL, ends[i], NULL));
		}
	}
}

static void *writer(void *arg)
{
	int i = (int)(intptr_t)arg;

	put_all(ends[i], out[i], BYTES);
	MUST(shutdown(ends[i], SHUT_WR));
	return NULL;
}

static void *reader(void *arg)
{
	int i = (int)(intptr_t)arg;

	got[i] = get_all(ends[i], in[i], BYTES);
	return NULL;
}

static void threads(void)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, i < 2 ? writer : reader, (void *)(intptr_t)(i % 2));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static void server(void)
{
	oracle_self_pair(ends);
	fill(out[0], BYTES, 1);
	fill(out[1], BYTES, 2);
	if (strcmp(oracle_arg(1, "loop"), "threads"))
		loop();
	else
		threads();
	for (int i = 0; i < 2; i++) {
		say_bytes("arrived", in[i], (ssize_t)got[i]);
		say("same: %d", !memcmp(in[i], out[1 - i], BYTES));
		CALL(recv(ends[i], in[i], 1, 0));
	}
	CALL(close(ends[0]));
	CALL(close(ends[1]));
}

ORACLE_MAIN(500000, server, NULL)

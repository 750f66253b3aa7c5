/* SPDX-License-Identifier: MIT */
/*
 * epoll with managed sockets and several threads: no wake is lost, kernel descriptors and planes
 * take turns, sleepers are kicked, nested sets show their members, one-shots stay disarmed.
 */
#include "fake_sock.h"

#include <sys/eventfd.h>

/* --- many threads on one set ------------------------------------------------------------- */
#define THREADS 4
#define SOCKS 16
#define MESSAGES 20000

static struct {
	int set;
	uint32_t events;
	struct xs_sock *sock[SOCKS];
	_Atomic long consumed;
	sem_t done;
} crowd;

static void handle(struct epoll_event *ev)
{
	struct xs_sock *s = ev->data.ptr;
	struct epoll_event again = {.events = crowd.events, .data.ptr = s};

	/* Level-triggered: one at a time; else until it's empty. */
	while (consume(s)) {
		if (++crowd.consumed == MESSAGES)
			sem_post(&crowd.done);
		if (!(crowd.events & (EPOLLET | EPOLLONESHOT)))
			return;
	}
	if (crowd.events & EPOLLONESHOT)
		assert(!xs_ep_ctl(crowd.set, EPOLL_CTL_MOD, s->fd, &again));
}

static void *worker(void *max)
{
	struct epoll_event ev[8];
	int n;

	for (;;) {
		n = door_ep_wait(crowd.set, ev, *(int *)max, NULL, NULL);
		assert(n > 0);
		for (int i = 0; i < n; i++) {
			if (!ev[i].data.ptr)
				return NULL;
			handle(&ev[i]);
		}
	}
}

static void test_crowd(uint32_t events, int max)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
	pthread_t t[THREADS];
	int stop = eventfd(0, 0);
	uint64_t one = 1;

	crowd.set = set_of(NULL, 0);
	crowd.events = events;
	crowd.consumed = 0;
	for (int i = 0; i < SOCKS; i++) {
		struct epoll_event e = {.events = events};

		crowd.sock[i] = make(true);
		e.data.ptr = crowd.sock[i];
		assert(!xs_ep_ctl(crowd.set, EPOLL_CTL_ADD, crowd.sock[i]->fd, &e));
	}
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, worker, &max);
	for (unsigned i = 0; i < MESSAGES; i++) {
		deliver(crowd.sock[i * 7 % SOCKS]);
		if (i % 64 == 0)
			sched_yield();
	}
	sem_wait(&crowd.done);
	assert(!xs_ep_ctl(crowd.set, EPOLL_CTL_ADD, stop, &ev));
	assert(xs_real.write(stop, &one, 8) == 8);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	CHECK_EQ(crowd.consumed, MESSAGES);
}

/* --- a sleeper in the kernel's epoll_wait is kicked -------------------------------------- */
static void test_kick(void)
{
	struct xs_sock *s = make(false);
	struct call c = {.set = set_of(s, EPOLLIN)};
	pthread_t t;

	pthread_create(&t, NULL, waits, &c);
	sem_wait(&begun);
	s->managed = true;
	while (xs_ep_sleepers(s))
		sched_yield();
	deliver(s);
	pthread_join(t, NULL);
	CHECK_EQ(result, 1);
	CHECK(c.ev.data.ptr == s && c.ev.events == EPOLLIN);
}

/* --- nested sets ------------------------------------------------------------------------- */
static void test_nested(bool managed_first)
{
	struct xs_sock *s = make(managed_first);
	int inner = set_of(s, EPOLLIN), outer = set_of(NULL, 0);
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = 42};
	struct pollfd p = {.fd = outer, .events = POLLIN};
	struct call c = {.set = outer};
	pthread_t t;

	assert(!xs_ep_ctl(outer, EPOLL_CTL_ADD, inner, &ev));
	pthread_create(&t, NULL, waits, &c);
	sem_wait(&begun);
	s->managed = true;
	while (xs_ep_sleepers(s))
		sched_yield();
	CHECK_EQ(door_ep_wait(inner, &ev, 1, &zero, NULL), 0);
	deliver(s);
	pthread_join(t, NULL);
	CHECK(result == 1 && c.ev.data.u64 == 42);
	CHECK_EQ(door_poll(&p, 1, &zero, NULL), 1);
	CHECK_EQ(door_ep_wait(inner, &ev, 1, &zero, NULL), 1);
	CHECK(ev.data.ptr == s && ev.events == EPOLLIN);
	consume(s);
	CHECK_EQ(door_ep_wait(outer, &ev, 1, &zero, NULL), 0);
	CHECK_EQ(door_poll(&p, 1, &zero, NULL), 0);
}

/* What was taken out while all of it was on planes, and then the twin and a plane stir. */
static void test_removed(bool watched_first)
{
	struct xs_sock *s = make(true);
	int inner, outer = set_of(NULL, 0);
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = s};
	struct pollfd p = {.fd = outer, .events = POLLIN};

	serves = 0;
	inner = set_of(s, EPOLLIN);
	if (watched_first)
		assert(!xs_ep_ctl(outer, EPOLL_CTL_ADD, inner, &ev));
	CHECK_EQ(xs_ep_ctl(inner, EPOLL_CTL_DEL, s->fd, &ev), 0);
	if (!watched_first)
		assert(!xs_ep_ctl(outer, EPOLL_CTL_ADD, inner, &ev));
	assert(xs_real.write(s->peer, "x", 1) == 1);
	wake(s, XS_WHAT_MOVED);
	CHECK_EQ(xs_real.poll(&p, 1, 0), 0);
	CHECK_EQ(door_poll(&p, 1, &zero, NULL), 0);
	CHECK_EQ(xs_ep_ctl(inner, EPOLL_CTL_ADD, s->fd, &ev), 0);
	deliver(s);
	CHECK_EQ(door_poll(&p, 1, &zero, NULL), 1);
	serves = POLLRDHUP | POLLHUP;
}

/* A set that a child has inherited is an obstacle as long as the item is in it. */
static void test_inherited(void)
{
	struct xs_sock *s = make(false);
	int set = set_of(s, EPOLLIN);
	struct epoll_event ev = {.events = EPOLLIN};
	struct xs_crit cs;

	CHECK_EQ(xs_ep_obstacle(s), 0);
	xs_crit_enter(&cs); /* as all of a fork */
	xs_ep_fork_child();
	xs_crit_leave(&cs);
	CHECK_EQ(xs_ep_obstacle(s), XS_R_EPOLL_SET);
	CHECK_EQ(xs_ep_ctl(set, EPOLL_CTL_DEL, s->fd, &ev), 0);
	CHECK_EQ(xs_ep_obstacle(s), 0);
}

/* --- few slots: turns -------------------------------------------------------------------- */
static void test_turns(void)
{
	struct xs_sock *s = make(true), *s2 = make(true);
	int set = set_of(s, EPOLLIN), fd = eventfd(1, 0);
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
	int seen[3] = {0};

	assert(!xs_ep_ctl(set, EPOLL_CTL_ADD, fd, &ev));
	ev.data.ptr = s2;
	assert(!xs_ep_ctl(set, EPOLL_CTL_ADD, s2->fd, &ev));
	deliver(s);
	deliver(s2);
	for (int i = 0; i < 12; i++) {
		assert(door_ep_wait(set, &ev, 1, &zero, NULL) == 1);
		seen[ev.data.ptr == s ? 0 : ev.data.ptr == s2 ? 1 : 2]++;
	}
	CHECK(seen[0] >= 3 && seen[1] >= 3 && seen[2] >= 3);
	CHECK_EQ(seen[0] + seen[1] + seen[2], 12);
}

/* --- one-shot: all bits are disarmed ----------------------------------------------------- */
static void test_oneshot(void)
{
	struct xs_sock *s = make(true);
	int set = set_of(s, EPOLLIN | EPOLLOUT | EPOLLONESHOT);
	struct epoll_event ev;

	CHECK(door_ep_wait(set, &ev, 1, &zero, NULL) == 1 && ev.events == EPOLLOUT);
	deliver(s);
	CHECK_EQ(door_ep_wait(set, &ev, 1, &zero, NULL), 0);
	ev = (struct epoll_event){.events = EPOLLIN | EPOLLONESHOT, .data.ptr = s};
	CHECK_EQ(xs_ep_ctl(set, EPOLL_CTL_MOD, s->fd, &ev), 0);
	CHECK(door_ep_wait(set, &ev, 1, &zero, NULL) == 1 && ev.events == EPOLLIN);
	/* Disarmed by the kernel before it's managed: stays so. */
	s = make(false);
	set = set_of(s, EPOLLOUT | EPOLLONESHOT);
	CHECK_EQ(door_ep_wait(set, &ev, 1, &zero, NULL), 1);
	s->managed = true;
	xs_ep_sleepers(s);
	CHECK_EQ(door_ep_wait(set, &ev, 1, &zero, NULL), 0);
}

int main(void)
{
	xs_real_init();
	xs_config_load(); /* before there are threads, as in a program */
	sem_init(&begun, 0, 0);
	sem_init(&crowd.done, 0, 0);
	test_crowd(EPOLLIN, 1);
	test_crowd(EPOLLIN, 8);
	test_crowd(EPOLLIN | EPOLLET | EPOLLONESHOT, 1);
	test_crowd(EPOLLIN | EPOLLONESHOT, 8);
	test_kick();
	test_nested(true);
	test_nested(false);
	test_removed(true);
	test_removed(false);
	test_turns();
	test_oneshot();
	test_inherited();
	return check_done();
}

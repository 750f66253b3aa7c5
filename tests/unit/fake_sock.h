/* SPDX-License-Identifier: MIT */
/*
 * Fake sockets for the tests of poll, select and epoll: a counter of messages over a silent socket
 * pair, in place of what sock/ offers to the waits.
 */
#ifndef XS_TESTS_UNIT_FAKE_SOCK_H
#define XS_TESTS_UNIT_FAKE_SOCK_H

#include "base/clock.h"
#include "base/config.h"
#include "base/crit.h"
#include "base/lock.h"
#include "base/real.h"
#include "check.h"
#include "engine/wait.h"
#include "sock/epollset.h"
#include "sock/fdtable.h"
#include "sock/sock.h"

#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

struct xs_sock {
	struct xs_obj obj;
	struct xs_lock lock;
	_Atomic bool managed;
	struct xs_waiter *waiters;
	unsigned messages;
	int fd, peer;
};
static _Atomic int looks;

#include "fake_waiters.h"

unsigned xs_ready(struct xs_sock *s, unsigned want)
{
	unsigned bits = POLLOUT | POLLWRNORM;

	xs_lock_take(&s->lock);
	if (s->messages)
		bits |= POLLIN | POLLRDNORM;
	xs_lock_drop(&s->lock);
	return bits & want;
}

static unsigned serves = POLLRDHUP | POLLHUP;
unsigned xs_twin_serves(struct xs_sock *s)
{
	(void)s;
	return serves;
}

unsigned xs_twin_watch(struct xs_sock *s, unsigned want)
{
	(void)s;
	(void)want;
	return POLLIN | POLLRDHUP;
}

bool xs_ready_wanted(void)
{
	return true;
}

void xs_ready_look(void)
{
	looks++;
}

static void no_free(struct xs_obj *o)
{
	(void)o;
}

static struct xs_sock *make(bool managed)
{
	static struct xs_sock pool[128];
	static unsigned used;
	struct xs_sock *s = &pool[used++];
	struct xs_crit cs;
	int p[2], err = 0;

	assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p));
	s->fd = p[0];
	s->peer = p[1];
	s->managed = managed;
	xs_lock_init(&s->lock, XS_RANK_CONN);
	xs_obj_init(&s->obj, XS_FD_SOCK, no_free);
	xs_crit_enter(&cs);
	assert(!xs_fdtable_set(s->fd, &s->obj, &err) && !err);
	xs_crit_leave(&cs);
	return s;
}

static inline void deliver(struct xs_sock *s)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_lock_take(&s->lock);
	s->messages++;
	notify_all(s, POLLIN | POLLRDNORM);
	xs_lock_drop(&s->lock);
	xs_crit_leave(&cs);
}

static inline bool consume(struct xs_sock *s)
{
	struct xs_crit cs;
	bool got;

	xs_crit_enter(&cs);
	xs_lock_take(&s->lock);
	got = s->messages > 0;
	s->messages -= got;
	xs_lock_drop(&s->lock);
	xs_crit_leave(&cs);
	return got;
}

static inline int set_of(struct xs_sock *s, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = s};
	int set = xs_real.epoll_create1(0);

	xs_ep_created(set);
	if (s)
		assert(!xs_ep_ctl(set, EPOLL_CTL_ADD, s->fd, &ev));
	return set;
}

/* A thread in epoll_wait. */
static sem_t begun;
static _Atomic int result;
static _Atomic bool returned __attribute__((unused));

/* --- what the doors do: the kernel's call where it serves all, else ours; negative errno
 * ---------- */
static inline int door_ep_wait(int epfd, struct epoll_event *ev, int max, const struct timespec *t,
			       const sigset_t *mask)
{
	struct xs_ep_wait w = {.epfd = epfd, .ev = ev, .max = max, .mask = mask};
	int r;

	if (!xs_ep_enter(&w, t))
		return xs_ep_wait(&w);
	r = xs_ep_leave(&w, xs_real.epoll_pwait2(epfd, ev, max, t, mask));
	return r < 0 ? -errno : r;
}

static inline int door_poll(struct pollfd *fds, nfds_t n, const struct timespec *t,
			    const sigset_t *mask)
{
	struct xs_sleep *sleep = xs_poll_enter(fds, n);
	int r;

	if (!sleep)
		return xs_poll(fds, n, t, mask);
	r = xs_wait_leave(sleep, xs_real.ppoll(fds, n, t, mask));
	return r < 0 ? -errno : r;
}

static inline int door_select(int n, fd_set *rd, const struct timespec *t, struct timespec *left,
			      const sigset_t *mask)
{
	struct xs_sleep *sleep = xs_select_enter(n, rd, NULL, NULL);
	int r;

	if (!sleep)
		return xs_select(n, rd, NULL, NULL, t, left, mask);
	r = xs_wait_leave(sleep, xs_real.pselect(n, rd, NULL, NULL, t, mask));
	return r < 0 ? -errno : r;
}

struct call {
	int set;
	struct epoll_event ev;
};

static inline void *waits(void *arg)
{
	struct call *c = arg;

	sem_post(&begun);
	result = door_ep_wait(c->set, &c->ev, 1, NULL, NULL);
	returned = true;
	return NULL;
}

static const struct timespec zero __attribute__((unused));

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What every fake socket of the epoll and poll tests has in common: waiters under a lock, managed
 * or not, found by its descriptor. Included after the test's own struct xs_sock.
 */
#ifndef XS_TESTS_UNIT_FAKE_WAITERS_H
#define XS_TESTS_UNIT_FAKE_WAITERS_H

#include "base/crit.h"
#include "sock/fdtable.h"
#include "sock/readiness.h"
#include "sock/sock.h"

bool xs_managed(const struct xs_sock *s)
{
	return s->managed;
}

bool xs_outlives(struct xs_sock *s)
{
	(void)s;
	return false;
}

bool xs_twin_roomy(struct xs_sock *s)
{
	(void)s;
	return false;
}

void xs_twin_event(struct xs_sock *s)
{
	(void)s;
}

void xs_waiter_add(struct xs_sock *s, struct xs_waiter *w)
{
	xs_lock_take(&s->lock);
	w->next = s->waiters;
	w->prev = &s->waiters;
	if (w->next)
		w->next->prev = &w->next;
	s->waiters = w;
	xs_lock_drop(&s->lock);
}

void xs_waiter_del(struct xs_sock *s, struct xs_waiter *w)
{
	xs_lock_take(&s->lock);
	*w->prev = w->next;
	if (w->next)
		w->next->prev = w->prev;
	xs_lock_drop(&s->lock);
}

/* Locked. */
static inline void notify_all(struct xs_sock *s, unsigned what)
{
	for (struct xs_waiter *w = s->waiters; w; w = w->next)
		w->notify(w, what);
}

static inline void wake(struct xs_sock *s, unsigned what)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_lock_take(&s->lock);
	notify_all(s, what);
	xs_lock_drop(&s->lock);
	xs_crit_leave(&cs);
}

void xs_fd_pin(int fd, enum xs_reason why)
{
	(void)fd;
	(void)why;
}

struct xs_sock *xs_sock_get(int fd)
{
	return (struct xs_sock *)xs_fdtable_get(fd, XS_FD_SOCK);
}

void xs_sock_put(struct xs_sock *s)
{
	xs_obj_put(&s->obj);
}

#endif

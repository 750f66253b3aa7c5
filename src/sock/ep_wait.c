/* SPDX-License-Identifier: MIT */
/*
 * epoll_wait and its kin.
 *
 * Without managed members the call is the kernel's, with this thread's record telling that it
 * sleeps there (sleeps.h). A set that gets its first managed member meanwhile is kicked: the call
 * comes back with the kick item's token, which is taken out, and goes on in the managed way for the
 * time that's left.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/crit.h"
#include "engine/signals.h"
#include "engine/wait.h"
#include "sock/epollset.h"
#include "sock/pollset.h"
#include "sock/sleeps.h"
#include "sock/sock.h"

struct wait {
	const struct xs_ep_wait *call;
	struct xs_ep_set *set;
	struct xs_ep_sleep sleep;
};

static int collect(struct wait *w)
{
	const struct xs_ep_wait *call = w->call;
	int n;

	if (atomic_load(&w->set->inners))
		xs_ep_refresh(w->set);
	xs_ep_lock(w->set);
	n = xs_ep_collect(w->set, call->epfd, call->ev, call->max);
	xs_ep_unlock(w->set);
	return n;
}

/* --- the managed way ---------- */
/* The spin looks at the list only: the kernel's part is worth a look when the spin is over. */
static bool spun(void *arg)
{
	struct wait *w = arg;

	return xs_ep_listed(w->set) != 0;
}

static void sleep_over(void *arg)
{
	struct wait *w = arg;

	xs_ep_sleep_del(w->set, &w->sleep);
}

static int sleep_once(struct wait *w)
{
	const struct xs_ep_wait *call = w->call;
	struct pollfd p = {.fd = call->epfd, .events = POLLIN};
	int r;

	w->sleep.sleeper = xs_sleeper_self();
	if (!w->sleep.sleeper)
		return -ENOMEM;
	xs_sleeper_begin(w->sleep.sleeper);
	pthread_cleanup_push(sleep_over, w);
	xs_ep_sleep_add(w->set, &w->sleep);
	r = collect(w);
	if (!r) {
		r = xs_sleeper_sleep(w->sleep.sleeper, &p, 1, call->deadline, call->mask, false);
		if (r > 0)
			r = 0;
	}
	pthread_cleanup_pop(1);
	xs_sleeper_end(w->sleep.sleeper);
	return r;
}

static int wait_managed(struct wait *w)
{
	uint64_t deadline = w->call->deadline;
	int r;

	xs_poll_once();
	r = collect(w);
	if (r || w->call->now)
		return r;
	if (atomic_load(&w->set->managed) && xs_spin(spun, w)) {
		r = collect(w);
		if (r)
			return r;
	}
	do {
		bool late = deadline && xs_now_ns() >= deadline;

		r = late ? 0 : sleep_once(w);
		if (!r)
			r = collect(w);
		if (late)
			break;
	} while (!r);
	return r;
}

/* However the thread leaves, items that it leaves behind are for another one. */
static void pass_on(void *arg)
{
	struct wait *w = arg;

	xs_ep_wake_one(w->set);
	xs_obj_put(&w->set->obj);
}

int xs_ep_wait(struct xs_ep_wait *call)
{
	struct wait w = {.call = call, .set = call->set};
	int keep = errno, r;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	pthread_cleanup_push(pass_on, &w);
	r = wait_managed(&w);
	pthread_cleanup_pop(1);
	xs_crit_leave(&cs);
	if (call->mask && r == -EINTR)
		xs_signals_run(call->mask);
	errno = keep;
	return r;
}

/* --- the kernel's way ---------- */
static struct xs_ep_set *get_set(int epfd)
{
	return (struct xs_ep_set *)xs_fdtable_get(epfd, XS_FD_EPOLL);
}

/* No reference is held while the thread sleeps: it may be cancelled there, or a handler may jump
 * out. w->set stays as a name to compare with. */
bool xs_ep_enter(struct xs_ep_wait *w, const struct timespec *timeout)
{
	w->sleep = NULL;
	w->set = w->max <= INT_MAX / (int)sizeof(*w->ev) ? get_set(w->epfd) : NULL;
	if (!w->set)
		return true;
	w->deadline = xs_pollset_deadline(timeout, &w->now);
	w->sleep = xs_sleep_self();
	if (!w->sleep)
		return false;
	xs_sleep_epoll(w->sleep, w->set);
	if (xs_ep_managed(w->set)) {
		xs_sleep_leave(w->sleep);
		return false;
	}
	xs_obj_put(&w->set->obj);
	return true;
}

/* Tokens out: a kick, or an item that was converted while we slept. */
static int without_tokens(struct xs_ep_wait *w, int n)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_ep_lock(w->set);
	n = xs_ep_filter(w->set, w->ev, n);
	xs_ep_unlock(w->set);
	xs_crit_leave(&cs);
	return n;
}

int xs_ep_leave(struct xs_ep_wait *w, int r)
{
	struct xs_ep_set *set = w->set;

	if (!w->sleep)
		return r;
	/* Once a member was managed a token may come, though none is any more. */
	w->set = r > 0 && (set->inherited || atomic_load(&set->locked) || xs_ep_managed(set))
			 ? get_set(w->epfd)
			 : NULL;
	if (w->set)
		r = without_tokens(w, r);
	xs_sleep_leave(w->sleep);
	if (!w->set)
		return r;
	if (!r)
		return (int)xs_door(xs_ep_wait(w));
	xs_obj_put(&w->set->obj);
	return r;
}

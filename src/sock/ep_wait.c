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
#include "base/real.h"
#include "engine/signals.h"
#include "engine/wait.h"
#include "sock/epollset.h"
#include "sock/pollset.h"
#include "sock/sleeps.h"
#include "sock/sock.h"

struct wait {
	struct xs_ep_set *set;
	struct xs_ep_sleep sleep;
	int epfd;
	struct epoll_event *ev;
	int max;
};

static int collect(struct wait *w)
{
	int n;

	if (atomic_load(&w->set->inners))
		xs_ep_refresh(w->set);
	xs_lock_take(&w->set->lock);
	n = xs_ep_collect(w->set, w->epfd, w->ev, w->max);
	xs_lock_drop(&w->set->lock);
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

static int sleep_once(struct wait *w, uint64_t deadline, const sigset_t *mask)
{
	struct pollfd p = {.fd = w->epfd, .events = POLLIN};
	int r;

	w->sleep.sleeper = xs_sleeper_self();
	if (!w->sleep.sleeper)
		return -ENOMEM;
	xs_sleeper_begin(w->sleep.sleeper);
	pthread_cleanup_push(sleep_over, w);
	xs_ep_sleep_add(w->set, &w->sleep);
	r = collect(w);
	if (!r) {
		r = xs_sleeper_sleep(w->sleep.sleeper, &p, 1, deadline, mask, false);
		if (r > 0)
			r = 0;
	}
	pthread_cleanup_pop(1);
	xs_sleeper_end(w->sleep.sleeper);
	return r;
}

static int wait_managed(struct wait *w, bool now, uint64_t deadline, const sigset_t *mask)
{
	int r;

	xs_poll_once();
	r = collect(w);
	if (r || now)
		return r;
	if (atomic_load(&w->set->managed) && xs_spin(spun, w)) {
		r = collect(w);
		if (r)
			return r;
	}
	do {
		bool late = deadline && xs_now_ns() >= deadline;

		r = late ? 0 : sleep_once(w, deadline, mask);
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

/* Puts the set. */
static int managed_way(struct wait *w, bool now, uint64_t deadline, const sigset_t *mask)
{
	int keep = errno, r;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	pthread_cleanup_push(pass_on, w);
	r = wait_managed(w, now, deadline, mask);
	pthread_cleanup_pop(1);
	xs_crit_leave(&cs);
	if (mask && r == -EINTR)
		xs_signals_run(mask);
	errno = keep;
	return r;
}

/* --- the kernel's way ---------- */
static int real_wait(struct wait *w, const struct timespec *t, const sigset_t *mask)
{
	int r;

	if (!t)
		r = xs_real.epoll_pwait(w->epfd, w->ev, w->max, -1, mask);
	else if (t->tv_nsec % 1000000 || t->tv_sec >= INT_MAX / 1000)
		r = xs_real.epoll_pwait2(w->epfd, w->ev, w->max, t, mask);
	else
		r = xs_real.epoll_pwait(w->epfd, w->ev, w->max,
					(int)(t->tv_sec * 1000 + t->tv_nsec / 1000000), mask);
	return r < 0 ? -errno : r;
}

/* Tokens out: a kick, or an item that was converted while we slept. */
static int without_tokens(struct wait *w, int n)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_lock_take(&w->set->lock);
	n = xs_ep_filter(w->set, w->ev, n);
	xs_lock_drop(&w->set->lock);
	xs_crit_leave(&cs);
	return n;
}

static struct xs_ep_set *get_set(int epfd)
{
	return (struct xs_ep_set *)xs_fdtable_get(epfd, XS_FD_EPOLL);
}

/*
 * w->set becomes a held set when the call has to go on in the managed way, else NULL. No reference
 * is held while the thread sleeps: it may be cancelled there, or a handler may jump out.
 */
static int kernel_way(struct wait *w, const struct timespec *timeout, const sigset_t *mask)
{
	struct xs_sleep *record = xs_sleep_self();
	struct xs_ep_set *set = w->set;
	int r;

	if (!record)
		return 0;
	xs_sleep_epoll(record, set);
	if (xs_ep_managed(set)) {
		xs_sleep_leave(record);
		return 0;
	}
	xs_obj_put(&set->obj);
	r = real_wait(w, timeout, mask);
	/* Once a member was managed a token may come, though none is any more. */
	w->set = r > 0 && (set->inherited || atomic_load(&set->locked) || xs_ep_managed(set))
			 ? get_set(w->epfd)
			 : NULL;
	if (w->set)
		r = without_tokens(w, r);
	xs_sleep_leave(record);
	if (w->set && r) {
		xs_obj_put(&w->set->obj);
		w->set = NULL;
	}
	return r;
}

int xs_ep_wait(int epfd, struct epoll_event *ev, int max, const struct timespec *timeout,
	       const sigset_t *mask)
{
	struct wait w = {.epfd = epfd, .ev = ev, .max = max};
	uint64_t deadline;
	bool now;
	int r;

	if (max > 0 && max <= INT_MAX / (int)sizeof(*ev))
		w.set = get_set(epfd);
	if (!w.set)
		return real_wait(&w, timeout, mask);
	deadline = xs_pollset_deadline(timeout, &now);
	r = kernel_way(&w, timeout, mask);
	return w.set ? managed_way(&w, now, deadline, mask) : r;
}

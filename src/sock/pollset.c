/* SPDX-License-Identifier: MIT */
/*
 * poll and ppoll.
 *
 * As long as nothing in the list is managed the call is the kernel's, with this thread's record
 * telling what it sleeps on (sleeps.h). Otherwise each socket of ours in the list gets a waiter,
 * managed or not yet, xs_ready() answers for the managed ones and a poll(2) of the rest for the
 * rest, and the thread sleeps in xs_sleeper_sleep() on all descriptors, where a managed one stands
 * for its twin's events only. Epoll sets are made readable by their wake item (epollset.h), so
 * they're kernel descriptors here.
 *
 * Handlers never run in that sleep (they run when the call is over), so the waiters may live on
 * this stack; a cancelled thread takes them away by its cleanup.
 */
#include "sock/pollset.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/crit.h"
#include "base/rawsys.h"
#include "base/real.h"
#include "engine/signals.h"
#include "engine/wait.h"
#include "sock/epollset.h"
#include "sock/fdtable.h"
#include "sock/readiness.h"
#include "sock/sleeps.h"
#include "sock/sock.h"

#define ON_STACK 32

struct entry {
	struct xs_waiter waiter;
	struct xs_sock *s;     /* with a reference; NULL: a kernel descriptor */
	struct xs_ep_set *set; /* an epoll set of ours, the same way */
	struct xs_sleeper *sleeper;
	unsigned want;
	bool waits;
};

struct wait {
	struct pollfd *fds, *kernel;
	const unsigned short *count;
	struct entry *entries;
	nfds_t n;
	unsigned kernel_n; /* entries that poll(2) answers */
	size_t mapped;
};

bool xs_pollset_managed(int fd)
{
	struct xs_obj *o = xs_fdtable_peek(fd);

	if (!o)
		return false;
	return o->kind == XS_FD_SOCK ? xs_managed((struct xs_sock *)o)
				     : xs_ep_managed((struct xs_ep_set *)o);
}

uint64_t xs_pollset_deadline(const struct timespec *timeout, bool *now)
{
	*now = timeout && !timeout->tv_sec && !timeout->tv_nsec;
	if (!timeout || *now || timeout->tv_sec > INT_MAX)
		return 0;
	return xs_now_ns() + (uint64_t)timeout->tv_sec * XS_NS_PER_S + (uint64_t)timeout->tv_nsec;
}

/* --- readiness ---------- */
static bool ends_wait(const struct wait *w, nfds_t i)
{
	unsigned bits = (unsigned short)w->fds[i].revents;

	return (w->count ? bits & (w->count[i] | POLLNVAL) : bits) != 0;
}

/* The kernel's list: all that poll(2) answers; the others are left out. */
static void build_kernel(struct wait *w)
{
	w->kernel_n = 0;
	for (nfds_t i = 0; i < w->n; i++) {
		struct entry *e = &w->entries[i];

		w->kernel[i] = w->fds[i];
		w->kernel[i].revents = 0;
		if (w->fds[i].fd < 0)
			continue;
		if (e->s && xs_managed(e->s)) {
			w->kernel[i].fd = -1;
			continue;
		}
		if (e->set)
			xs_ep_refresh(e->set);
		w->kernel_n++;
	}
}

/* Fills revents. The number of entries that end the wait, or a negative errno. */
static int scan(struct wait *w)
{
	int n = 0;

	build_kernel(w);
	if (w->kernel_n && xs_real.poll(w->kernel, w->n, 0) < 0)
		return -errno;
	for (nfds_t i = 0; i < w->n; i++) {
		struct entry *e = &w->entries[i];
		unsigned want = (unsigned short)w->fds[i].events;

		w->fds[i].revents = w->kernel[i].revents;
		if (e->s && w->kernel[i].fd < 0 && w->fds[i].fd >= 0)
			w->fds[i].revents = (short)xs_ready(e->s, want);
		n += ends_wait(w, i);
	}
	return n;
}

static bool spun(void *arg)
{
	return scan(arg) != 0;
}

/* --- waiters ---------- */
static void notify(struct xs_waiter *waiter, unsigned what)
{
	struct entry *e = (struct entry *)waiter;

	if (what & (e->want | POLLERR | POLLHUP | XS_WHAT_MOVED))
		xs_sleeper_wake(e->sleeper);
}

static void look_up(struct wait *w)
{
	for (nfds_t i = 0; i < w->n; i++) {
		struct entry *e = &w->entries[i];
		int fd = w->fds[i].fd;

		memset(e, 0, sizeof(*e));
		e->s = xs_sock_get(fd);
		if (e->s)
			continue;
		e->set = (struct xs_ep_set *)xs_fdtable_get(fd, XS_FD_EPOLL);
		if (e->set)
			xs_ep_want_wake(e->set);
	}
}

static void add_waiters(struct wait *w, struct xs_sleeper *sleeper)
{
	for (nfds_t i = 0; i < w->n; i++) {
		struct entry *e = &w->entries[i];

		if (!e->s)
			continue;
		e->waiter.notify = notify;
		e->sleeper = sleeper;
		e->want = (unsigned short)w->fds[i].events;
		xs_waiter_add(e->s, &e->waiter);
		e->waits = true;
	}
}

static void del_waiters(void *arg)
{
	struct wait *w = arg;

	for (nfds_t i = 0; i < w->n; i++) {
		if (w->entries[i].waits)
			xs_waiter_del(w->entries[i].s, &w->entries[i].waiter);
		w->entries[i].waits = false;
	}
}

static void release(void *arg)
{
	struct wait *w = arg;

	for (nfds_t i = 0; i < w->n; i++) {
		if (w->entries[i].s)
			xs_sock_put(w->entries[i].s);
		if (w->entries[i].set)
			xs_obj_put((struct xs_obj *)w->entries[i].set);
	}
}

/* --- sleeping ---------- */
/* What the sleep watches: twins by the bits that are of use, the rest as it is. */
static void build_sleep(struct wait *w)
{
	for (nfds_t i = 0; i < w->n; i++) {
		struct entry *e = &w->entries[i];

		w->kernel[i] = w->fds[i];
		if (w->fds[i].fd >= 0 && w->fds[i].revents)
			w->kernel[i].fd = -1; /* ready in a way that select doesn't ask for */
		if (!e->s || !xs_managed(e->s))
			continue;
		w->kernel[i].events = (short)xs_twin_watch(e->s, e->want);
		if (!w->kernel[i].events)
			w->kernel[i].fd = -1;
	}
}

static void twin_events(struct wait *w)
{
	for (nfds_t i = 0; i < w->n; i++)
		if (w->entries[i].s && w->kernel[i].revents && xs_managed(w->entries[i].s))
			xs_twin_event(w->entries[i].s);
}

/* One sleep. > 0: ready entries; 0: look again; negative: errno. */
static int sleep_once(struct wait *w, uint64_t deadline, const sigset_t *mask)
{
	struct xs_sleeper *sleeper = xs_sleeper_self();
	int r;

	if (!sleeper)
		return -ENOMEM;
	pthread_cleanup_push(del_waiters, w);
	xs_sleeper_begin(sleeper);
	add_waiters(w, sleeper);
	r = scan(w);
	if (!r) {
		build_sleep(w);
		r = xs_sleeper_sleep(sleeper, w->kernel, (unsigned)w->n, deadline, mask, false);
		if (r > 0) {
			twin_events(w);
			r = 0;
		}
	}
	xs_sleeper_end(sleeper);
	pthread_cleanup_pop(1);
	return r;
}

static int wait_ready(struct wait *w, bool now, uint64_t deadline, const sigset_t *mask)
{
	int r;

	xs_poll_once();
	r = scan(w);
	if (r || now)
		return r;
	if (xs_spin(spun, w))
		return scan(w);
	do {
		bool late = deadline && xs_now_ns() >= deadline;

		r = late ? 0 : sleep_once(w, deadline, mask);
		if (r == 0)
			r = scan(w);
		if (late)
			break;
	} while (!r);
	return r;
}

static int wait_with(struct wait *w, bool now, uint64_t deadline, const sigset_t *mask)
{
	int r;

	pthread_cleanup_push(release, w);
	look_up(w);
	r = wait_ready(w, now, deadline, mask);
	pthread_cleanup_pop(1);
	return r;
}

static void unmap(void *arg)
{
	struct wait *w = arg;

	xs_sys(__NR_munmap, w->entries, w->mapped);
}

static int wait_large(struct wait *w, bool now, uint64_t deadline, const sigset_t *mask)
{
	size_t len = w->n * (sizeof(struct entry) + sizeof(struct pollfd));
	long m = xs_sys(__NR_mmap, 0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	int r;

	if (m <= 0 && m > -4096)
		return -ENOMEM;
	w->entries = (struct entry *)m;
	w->kernel = (struct pollfd *)(w->entries + w->n);
	w->mapped = len;
	pthread_cleanup_push(unmap, w);
	r = wait_with(w, now, deadline, mask);
	pthread_cleanup_pop(1);
	return r;
}

int xs_pollset_wait(struct pollfd *fds, const unsigned short *count, nfds_t n, bool now,
		    uint64_t deadline, const sigset_t *mask)
{
	struct entry entries[ON_STACK];
	struct pollfd kernel[ON_STACK];
	struct wait w = {.fds = fds, .count = count, .n = n, .entries = entries, .kernel = kernel};

	return n <= ON_STACK ? wait_with(&w, now, deadline, mask)
			     : wait_large(&w, now, deadline, mask);
}

/* --- poll ---------- */
static bool any_managed(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (xs_pollset_managed(fds[i].fd))
			return true;
	return false;
}

static bool too_many(nfds_t n)
{
	struct rlimit lim;

	return xs_sys(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, &lim) == 0 && n > lim.rlim_cur;
}

struct xs_sleep *xs_poll_enter(const struct pollfd *fds, nfds_t n)
{
	struct xs_sleep *record = xs_sleep_self();

	if (!record)
		return NULL;
	xs_sleep_poll(record, fds, n);
	if (!any_managed(fds, n))
		return record;
	xs_sleep_leave(record);
	return NULL;
}

int xs_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	int keep = errno, r;
	struct xs_crit cs;
	uint64_t deadline;
	bool now;

	if (too_many(n))
		return -EINVAL;
	deadline = xs_pollset_deadline(timeout, &now);
	xs_crit_enter(&cs);
	r = xs_pollset_wait(fds, NULL, n, now, deadline, mask);
	xs_crit_leave(&cs);
	if (mask && r == -EINTR)
		xs_signals_run(mask);
	errno = keep;
	return r;
}

bool xs_poll_sleepers(struct xs_sock *s, int fd)
{
	struct xs_obj *o;

	for (int name = xs_fdtable_next(0); name >= 0; name = xs_fdtable_next(name + 1)) {
		if (name == fd)
			continue;
		o = xs_fdtable_get(name, XS_FD_SOCK);
		if (!o)
			continue;
		xs_obj_put(o);
		if (o == (struct xs_obj *)s && xs_sleeps_on_fd(name))
			return true;
	}
	return xs_sleeps_on_fd(fd);
}

/* SPDX-License-Identifier: MIT */
/*
 * epoll_ctl on a set of which nothing has ever been managed, for a socket that has been in it
 * before: the kernel's call and a note in the record, without the lock and so without a critical
 * section. Event loops that take a descriptor out and put it back for every request would else pay
 * a fifth of their rate on plain TCP.
 *
 * Who needs the records sets `locked` and then waits until `fast` is 0; a thread here counts itself
 * in and then looks at `locked`: one of the two sees the other (as with READY's counter). A record
 * is marked busy before it's looked at for good; what was taken out of the table isn't used again
 * while anybody is inside. Two threads at one record: both go the other way, and so does everybody
 * after them.
 *
 * A handler may jump out of here, so the count is undone by unwinding.
 */
#include "base/rawsys.h"
#include "base/unwind.h"
#include "sock/epollset.h"

#define PATIENCE 1000 /* yields; a thread inside may be the one that we have interrupted */

static void leave(void *arg)
{
	struct xs_ep_set *set = arg;
	uint32_t n = atomic_load(&set->fast);

	while (n && !atomic_compare_exchange_weak(&set->fast, &n, n - 1))
		; /* 0: a handler has forked, and this is its child */
	if (xs_ready_wanted())
		xs_ready_look();
}

static bool plain(const struct xs_ep_set *set, int op, const struct epoll_event *ev)
{
	if (atomic_load(&set->locked) || set->inherited)
		return false;
	if (op == EPOLL_CTL_DEL)
		return true;
	return (op == EPOLL_CTL_ADD || op == EPOLL_CTL_MOD) && ev &&
	       !(ev->events & EPOLLEXCLUSIVE) && !xs_ep_is_token(set, ev->data.u64);
}

/* Is the record, now marked busy, the one of this very socket, and in the state that op expects? */
static bool fits(const struct xs_ep_set *set, struct xs_ep_item *it, int op, int fd)
{
	return xs_ep_at(set, fd) == it && it->set == set && it->fd == fd && !it->converted &&
	       !atomic_load(&it->orphan) && !atomic_load(&it->exclusive) &&
	       it->obj->kind == XS_FD_SOCK && xs_fdtable_peek(fd) == it->obj &&
	       !xs_managed((struct xs_sock *)it->obj) && it->removed == (op == EPOLL_CTL_ADD);
}

static int change(struct xs_ep_item *it, int epfd, int op, int fd, struct epoll_event *ev)
{
	int r = (int)xs_sys(__NR_epoll_ctl, epfd, op, fd, ev);

	if (r)
		return r;
	if (op == EPOLL_CTL_DEL) {
		xs_ep_set_aside(it);
	} else {
		it->removed = false;
		xs_ep_take_events(it, ev);
	}
	return 0;
}

static bool try_change(struct xs_ep_set *set, int epfd, int op, int fd, struct epoll_event *ev,
		       int *r)
{
	struct xs_ep_item *it = xs_ep_at(set, fd);
	bool done;

	if (!it || !plain(set, op, ev))
		return false;
	if (atomic_exchange(&it->busy, true)) {
		atomic_store(&set->locked, true);
		return false;
	}
	done = fits(set, it, op, fd);
	if (done)
		*r = change(it, epfd, op, fd, ev);
	atomic_store(&it->busy, false);
	return done;
}

bool xs_ep_fast_ctl(struct xs_ep_set *set, int epfd, int op, int fd, struct epoll_event *ev, int *r)
{
	struct xs_unwind undo;
	bool done;

	if (atomic_load_explicit(&set->locked, memory_order_relaxed))
		return false;
	atomic_fetch_add(&set->fast, 1);
	xs_unwind_push(&undo, leave, set);
	done = try_change(set, epfd, op, fd, ev, r);
	xs_unwind_pop(&undo);
	leave(set);
	return done;
}

bool xs_ep_lock_down(struct xs_ep_set *set)
{
	if (!atomic_exchange(&set->locked, true) || atomic_load(&set->fast))
		for (int i = 0; i < PATIENCE && atomic_load(&set->fast); i++)
			xs_sys(__NR_sched_yield);
	return !atomic_load(&set->fast);
}

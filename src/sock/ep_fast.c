/* SPDX-License-Identifier: MIT */
/*
 * epoll_ctl on a set of which nothing has ever been managed, for a socket that has been in it
 * before: the kernel's call and a note in the record, without the lock and so without a critical
 * section. Event loops that take a descriptor out and put it back for every request would else pay
 * a fifth of their rate on plain TCP.
 *
 * Who needs the records sets `locked` and then waits until nobody is inside; a thread here comes in
 * and then looks at `locked`: one of the two sees the other (as with READY's counter). A record
 * is marked busy before it's looked at for good; what was taken out of the table isn't used again
 * while anybody is inside. Two threads at one record: both go the other way, and so does everybody
 * after them.
 *
 * A handler may jump out of here, between any two instructions, and then unwinding undoes what was
 * done. So nothing is counted: who is inside leaves an address of its own in a place of the set,
 * and in the record, and clears those where it finds it. The record may then lack what the kernel
 * did, so that nobody takes its word for what's the kernel's.
 */
#include "base/rawsys.h"
#include "base/unwind.h"
#include "sock/epollset.h"

#define PATIENCE 1000 /* yields; a thread inside may be the one that we have interrupted */

/* --- who is inside; ep_note.c's too ---------- */
bool xs_ep_come_in(struct xs_ep_set *set, const void *who)
{
	for (int i = 0; i < XS_EP_INSIDE; i++) {
		const void *none = NULL;

		if (!atomic_load_explicit(&set->inside[i], memory_order_relaxed) &&
		    atomic_compare_exchange_strong(&set->inside[i], &none, who))
			return true;
	}
	return false;
}

void xs_ep_go_out(struct xs_ep_set *set, const void *who)
{
	for (int i = 0; i < XS_EP_INSIDE; i++)
		if (atomic_load_explicit(&set->inside[i], memory_order_relaxed) == who)
			atomic_store(&set->inside[i], NULL);
}

bool xs_ep_anybody(const struct xs_ep_set *set)
{
	for (int i = 0; i < XS_EP_INSIDE; i++)
		if (atomic_load(&set->inside[i]))
			return true;
	return false;
}

bool xs_ep_alone(const struct xs_ep_set *set)
{
	for (int i = 0; i < PATIENCE && xs_ep_anybody(set); i++)
		xs_sys(__NR_sched_yield);
	return !xs_ep_anybody(set);
}

bool xs_ep_grab(struct xs_ep_item *it, const void *who)
{
	const void *none = NULL;

	return atomic_compare_exchange_strong(&it->busy, &none, who);
}

void xs_ep_let_go(struct xs_ep_item *it, const void *who)
{
	atomic_compare_exchange_strong(&it->busy, &who, NULL);
}

bool xs_ep_plain(const struct xs_ep_set *set, int op, const struct epoll_event *ev, uint32_t unfit)
{
	if (op == EPOLL_CTL_DEL)
		return true;
	return (op == EPOLL_CTL_ADD || op == EPOLL_CTL_MOD) && ev && !(ev->events & unfit) &&
	       !xs_ep_is_token(set, ev->data.u64);
}

/* --- the call ---------- */
struct fast {
	struct xs_ep_set *set;
	struct xs_ep_item *it; /* maybe grabbed */
};

static void leave(void *arg)
{
	struct fast *f = arg;

	if (f->it)
		xs_ep_let_go(f->it, f);
	xs_ep_go_out(f->set, f);
	if (xs_ready_wanted())
		xs_ready_look();
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
	if (op == EPOLL_CTL_DEL)
		xs_ep_set_aside(it);
	else
		xs_ep_take_events(it, ev);
	return 0;
}

static bool try_change(struct fast *f, int epfd, int op, int fd, struct epoll_event *ev, int *r)
{
	struct xs_ep_item *it = xs_ep_at(f->set, fd);

	if (!it || atomic_load(&f->set->locked) || f->set->inherited ||
	    !xs_ep_plain(f->set, op, ev, EPOLLEXCLUSIVE))
		return false;
	f->it = it;
	if (!xs_ep_grab(it, f)) {
		atomic_store(&f->set->locked, true);
		return false;
	}
	if (!fits(f->set, it, op, fd))
		return false;
	*r = change(it, epfd, op, fd, ev);
	return true;
}

bool xs_ep_fast_ctl(struct xs_ep_set *set, int epfd, int op, int fd, struct epoll_event *ev, int *r)
{
	struct fast f = {.set = set};
	struct xs_unwind undo;
	bool done;

	if (atomic_load_explicit(&set->locked, memory_order_relaxed))
		return false;
	xs_unwind_push(&undo, leave, &f);
	done = xs_ep_come_in(set, &f) && try_change(&f, epfd, op, fd, ev, r);
	leave(&f);
	xs_unwind_pop(&undo);
	return done;
}

bool xs_ep_lock_down(struct xs_ep_set *set)
{
	atomic_store(&set->locked, true);
	return xs_ep_alone(set);
}

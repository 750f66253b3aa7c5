/* SPDX-License-Identifier: MIT */
/*
 * epoll_ctl on an item at rest, noted for later: some event loops take a socket out of its set and
 * put it back for every message, and a critical section for each such call costs them more than the
 * message. Nothing of an item at rest is the kernel's, so a change shows only when somebody waits
 * on the set: it's written down here, without the lock, and whoever takes the set's lock next takes
 * it in first (xs_ep_lock).
 *
 * Who takes the lock closes the gate and then waits until nobody is inside; who notes comes in
 * and then looks at the gate: one of the two sees the other. A thread that noted looks for
 * sleepers on the set afterwards; a sleeper announces itself and then takes the lock: one of the
 * two takes the note in before the sleep. A record is marked busy while it's written; a second
 * thread goes the other way. A handler may jump out of here: what was begun is then finished by
 * unwinding.
 */
#include "base/crit.h"
#include "base/unwind.h"
#include "sock/epollset.h"

struct note {
	struct xs_ep_set *set;
	struct xs_ep_item *it; /* maybe grabbed */
	struct epoll_event ev;
	bool out;
	_Atomic bool begun;
};

/* What the program has asked for: is it out of the set? */
bool xs_ep_out(const struct xs_ep_item *it)
{
	return atomic_load(&it->noted) ? it->wish_out : atomic_load(&it->removed);
}

static void leave(void *arg)
{
	struct note *n = arg;

	if (atomic_load(&n->begun)) { /* again from the start: it may have been half done */
		n->it->wish = n->ev;
		n->it->wish_out = n->out;
		atomic_store(&n->it->noted, true);
		atomic_store(&n->begun, false);
	}
	if (n->it)
		xs_ep_let_go(n->it, n);
	xs_ep_go_out(n->set, n);
}

static bool may_note(const struct xs_ep_set *set)
{
	return !atomic_load(&set->gate) && !atomic_load(&set->watched) && !set->inherited;
}

/* The record, now marked busy, is of this very socket, at rest, and in the state that op expects.
 */
static bool fits(const struct xs_ep_set *set, const struct xs_ep_item *it, int op, int fd)
{
	return xs_ep_at(set, fd) == it && it->set == set && it->fd == fd &&
	       atomic_load(&it->resting) && xs_fdtable_peek(fd) == it->obj &&
	       xs_ep_out(it) == (op == EPOLL_CTL_ADD);
}

/* Its descriptor on the list, unless it's there. False: the list is full. */
static bool listed(struct xs_ep_set *set, const struct xs_ep_item *it)
{
	uint32_t n;

	if (atomic_load(&it->noted))
		return true;
	n = atomic_fetch_add(&set->notes_n, 1);
	if (n >= XS_EP_NOTES)
		return false;
	atomic_store(&set->notes[n], it->fd);
	return true;
}

static bool write_down(struct note *n, int op, int fd)
{
	struct xs_ep_item *it = xs_ep_at(n->set, fd);

	if (!it || !atomic_load_explicit(&it->resting, memory_order_relaxed))
		return false;
	n->it = it;
	if (!xs_ep_grab(it, n) || !fits(n->set, it, op, fd) || !listed(n->set, it))
		return false;
	atomic_store(&n->begun, true);
	return true;
}

/* Set's lock. */
static void take_in(struct xs_ep_set *set, int fd)
{
	struct xs_ep_item *it = fd < 0 ? NULL : xs_ep_at(set, fd);

	if (it && !atomic_load(&it->busy) && atomic_exchange(&it->noted, false))
		xs_ep_apply(set, it);
}

/* Somebody sleeps on the set; or, while we were interrupted, the last item that's ours has gone and
 * nobody takes notes in any more, or a handler has forked and this is its child. */
static bool must_tell(struct xs_ep_set *set)
{
	return atomic_load(&set->sleeping) || !atomic_load(&set->managed) || set->inherited;
}

bool xs_ep_note(struct xs_ep_set *set, int op, int fd, const struct epoll_event *ev)
{
	struct note n = {.set = set, .out = op == EPOLL_CTL_DEL};
	struct xs_unwind undo;
	struct xs_crit cs;
	bool done;

	if (!atomic_load_explicit(&set->resting, memory_order_relaxed))
		return false;
	xs_unwind_push(&undo, leave, &n);
	done = xs_ep_come_in(set, &n) && may_note(set) && xs_ep_plain(set, op, ev, XS_EP_PRIVATE);
	if (done && !n.out)
		n.ev = *ev;
	done = done && write_down(&n, op, fd);
	leave(&n);
	xs_unwind_pop(&undo);
	if (done && must_tell(set)) {
		xs_crit_enter(&cs);
		xs_ep_lock(set);
		take_in(set, fd); /* a child's list is empty */
		xs_ep_unlock(set);
		xs_crit_leave(&cs);
	}
	return done;
}

/* --- taking them in; the set's lock ---------- */
static void take_all(struct xs_ep_set *set)
{
	bool all = xs_ep_alone(set);
	uint32_t n = atomic_load(&set->notes_n);

	for (uint32_t i = 0; i < n && i < XS_EP_NOTES; i++)
		take_in(set, all ? atomic_exchange(&set->notes[i], -1) : set->notes[i]);
	if (all)
		atomic_store(&set->notes_n, 0);
}

XS_NO_TSA void xs_ep_lock(struct xs_ep_set *set)
{
	xs_lock_take(&set->lock);
	if (!atomic_load_explicit(&set->resting, memory_order_relaxed))
		return;
	atomic_store(&set->gate, true);
	if (xs_ep_anybody(set) || atomic_load(&set->notes_n))
		take_all(set);
}

XS_NO_TSA void xs_ep_unlock(struct xs_ep_set *set)
{
	atomic_store_explicit(&set->gate, false, memory_order_release);
	xs_lock_drop(&set->lock);
}

void xs_ep_rests(struct xs_ep_set *set, struct xs_ep_item *it)
{
	if (it->orphan || it->exclusive || it->events & XS_EP_PRIVATE)
		return;
	if (!atomic_load_explicit(&set->resting, memory_order_relaxed)) {
		atomic_store(&set->gate, true);
		atomic_store(&set->resting, true);
	}
	atomic_store(&it->resting, true);
}

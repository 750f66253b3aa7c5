/* SPDX-License-Identifier: MIT */
/*
 * What an epoll set has to report now: the kernel's events, with our tokens taken out, and the
 * ready list's. When slots are few the two take turns, so neither starves the other.
 */
#include <errno.h>
#include <poll.h>

#include "base/rawsys.h"
#include "sock/epollset.h"

#define TRIES 64

uint32_t xs_ep_mask(struct xs_ep_item *it, bool tell)
{
	uint32_t armed = atomic_load(&it->armed);

	if (!armed)
		return 0;
	return xs_ready((struct xs_sock *)it->obj,
			(armed & ~XS_EP_PRIVATE) | (tell ? 0 : XS_WANT_QUIET));
}

/* --- the kernel's ---------- */
#define IN_BITS ((uint32_t)(EPOLLIN | EPOLLPRI | EPOLLRDNORM | EPOLLRDBAND | EPOLLRDHUP))
#define OUT_BITS ((uint32_t)(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND))

/*
 * A converted item's kernel item has fired: look at the twin, then treat it as a wake by the bits
 * that the kernel serves. (What else the twin says is told by who looked at it.)
 */
static void raw_event(struct xs_ep_item *it, uint32_t events)
{
	uint32_t armed = atomic_load(&it->armed) & ~XS_EP_PRIVATE, served;
	struct xs_sock *s = (struct xs_sock *)it->obj;
	unsigned serve;

	if (events & (IN_BITS | EPOLLHUP | EPOLLERR))
		xs_twin_event(s);
	if (events & OUT_BITS && xs_twin_roomy(s))
		events &= ~OUT_BITS;
	if (it->removed) {
		xs_ep_drop(it->set, it);
		return;
	}
	serve = xs_twin_serves(s);
	served = EPOLLERR | (serve & (EPOLLRDHUP | EPOLLHUP)) | (serve & POLLIN ? IN_BITS : 0) |
		 (serve & POLLOUT ? OUT_BITS : 0);
	if (armed && events & served & (armed | EPOLLERR | EPOLLHUP))
		xs_ep_list(it, true);
}

static void token_event(struct xs_ep_set *set, const struct epoll_event *ev)
{
	uint32_t index = (uint32_t)ev->data.u64;
	struct xs_ep_item *it;

	if (index == XS_EP_KICK) {
		xs_ep_unkick(set);
		return;
	}
	it = index < set->items.n ? set->items.at[index] : NULL;
	if (it && it->converted)
		raw_event(it, ev->events);
}

void (*xs_ep_taken)(void);

int xs_ep_filter(struct xs_ep_set *set, struct epoll_event *ev, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++) {
		if (xs_ep_is_token(set, ev[i].data.u64))
			token_event(set, &ev[i]);
		else
			ev[kept++] = ev[i];
	}
	if (kept < n && set->inherited && xs_ep_taken)
		xs_ep_taken();
	return kept;
}

static int from_kernel(struct xs_ep_set *set, int epfd, struct epoll_event *ev, int room)
{
	int n = 0;

	/* Tokens may have eaten all slots while events of the program wait behind them. */
	for (int i = 0; i < TRIES && room > 0; i++) {
		long r = xs_sys(__NR_epoll_pwait, epfd, ev, room, 0, NULL, 8);

		if (r <= 0)
			return (int)r;
		n = xs_ep_filter(set, ev, (int)r);
		if (n || r < room)
			return n;
	}
	return n;
}

/* --- the ready list's ---------- */
/*
 * The kernel serves the socket alone again: the item is given back when the change of the kernel
 * item can neither lose nor double an edge: level-triggered ones at once, the others when they
 * aren't ready. A disarmed one-shot can't be made in the kernel: the program's MOD will do it.
 */
static void give_back(struct xs_ep_set *set, struct xs_ep_item *it, uint32_t mask)
{
	bool level = !(it->events & (EPOLLET | EPOLLONESHOT));

	if (!it->converted)
		xs_ep_uncount(set, it);
	else if (atomic_load(&it->armed) && (level || !mask))
		xs_ep_restore(set, it);
}

/* True: the item has something to report: *mask. */
static bool examine(struct xs_ep_set *set, struct xs_ep_item *it, bool edge, uint32_t *mask)
{
	bool managed = xs_managed((struct xs_sock *)it->obj);

	if (it->removed) {
		if (!xs_ep_at_rest(it))
			xs_ep_drop(set, it);
		return false;
	}
	if (managed && !it->converted) {
		xs_ep_count(set, it);
		xs_ep_convert(set, it);
		if (!it->converted && xs_ep_anybody(set))
			xs_ep_list(it, edge); /* it couldn't be yet */
	}
	*mask = it->converted ? xs_ep_mask(it, edge || !(it->events & EPOLLET)) : 0;
	if (!managed)
		give_back(set, it, *mask);
	else if (it->converted)
		xs_ep_reform(set, it);
	return *mask && (edge || !(it->events & EPOLLET));
}

/*
 * had: the kernel has reported something in this call. An item that's converted only now may be
 * among it: it is reported by the next call, never twice in one (wrk takes the second EAGAIN for an
 * error).
 */
static int from_list(struct xs_ep_set *set, struct epoll_event *ev, int room, bool had)
{
	struct xs_ep_item *it;
	uint32_t mask;
	bool edge, before;
	int n = 0;

	for (uint32_t left = xs_ep_listed(set); left && n < room; left--) {
		it = xs_ep_pop(set, &edge);
		if (!it)
			break;
		before = it->converted;
		if (!examine(set, it, edge, &mask))
			continue;
		if (had && !before) {
			xs_ep_list(it, edge);
			continue;
		}
		ev[n].events = mask;
		ev[n++].data = it->data;
		if (it->events & EPOLLONESHOT)
			atomic_store(&it->armed, 0);
		else if (!(it->events & EPOLLET) && it->converted)
			xs_ep_requeue(it);
	}
	xs_ep_sync_wake(set);
	return n;
}

int xs_ep_collect(struct xs_ep_set *set, int epfd, struct epoll_event *ev, int max)
{
	uint32_t listed = xs_ep_listed(set), half = ((uint32_t)max + 1) / 2;
	uint32_t kept = listed < half ? listed : half;
	int n = 0, reserve = set->plane_first ? (int)kept : 0;

	set->plane_first = !set->plane_first;
	if (max > reserve)
		n = from_kernel(set, epfd, ev, max - reserve);
	if (n < 0)
		return n;
	n += from_list(set, ev + n, max - n, n > 0);
	if (n || max > reserve)
		return n;
	n = from_kernel(set, epfd, ev, max);
	return n ? n : from_list(set, ev, max, false);
}

/* --- readability of the set's own descriptor ---------- */
static void refresh_own(struct xs_ep_set *set)
{
	struct xs_ep_item *it;
	uint32_t mask;
	bool edge;

	xs_ep_lock(set);
	for (uint32_t left = xs_ep_listed(set); left; left--) {
		it = xs_ep_pop(set, &edge);
		if (!it)
			break;
		if (!examine(set, it, edge, &mask))
			continue;
		xs_ep_push_back(it, edge);
		break;
	}
	xs_ep_sync_wake(set);
	xs_ep_unlock(set);
}

/* The i-th inner set with a reference, or NULL. */
static struct xs_ep_set *inner(struct xs_ep_set *set, uint32_t *i)
{
	struct xs_ep_set *found = NULL;

	xs_ep_lock(set);
	for (; !found && *i < set->items.n; ++*i) {
		struct xs_ep_item *it = set->items.at[*i];

		if (!it || it->obj->kind != XS_FD_EPOLL)
			continue;
		found = (struct xs_ep_set *)it->obj;
		atomic_fetch_add(&found->obj.refs, 1);
	}
	xs_ep_unlock(set);
	return found;
}

void xs_ep_refresh(struct xs_ep_set *set)
{
	struct xs_ep_set *in;

	if (atomic_load(&set->managed))
		refresh_own(set);
	if (!atomic_load(&set->inners))
		return;
	for (uint32_t i = 0; (in = inner(set, &i));) {
		xs_ep_refresh(in); /* the kernel allows a depth of five and no circle */
		xs_obj_put(&in->obj);
	}
}

/* SPDX-License-Identifier: MIT */
/* The ready list of an epoll set, who sleeps on the set, and its wake item's state. */
#include <stddef.h>

#include "base/rawsys.h"
#include "engine/wait.h"
#include "sock/epollset.h"

/* --- the wake item; ready lock ---------- */
static void sync_locked(struct xs_ep_set *set)
{
	bool want = set->head != NULL;
	uint64_t n = 1;

	if (set->wake_fd < 0 || set->wake_on == want)
		return;
	xs_sys(want ? __NR_write : __NR_read, set->wake_fd, &n, sizeof(n));
	set->wake_on = want;
}

void xs_ep_sync_wake(struct xs_ep_set *set)
{
	xs_lock_take(&set->ready);
	sync_locked(set);
	xs_lock_drop(&set->ready);
}

/* One that hasn't been told yet; ready lock. */
static void wake_locked(struct xs_ep_set *set)
{
	struct xs_ep_sleep *sl;

	for (sl = set->sleepers; sl && sl->told; sl = sl->next)
		;
	if (!sl)
		return;
	sl->told = true;
	xs_sleeper_wake(sl->sleeper);
}

void xs_ep_wake_one(struct xs_ep_set *set)
{
	xs_lock_take(&set->ready);
	if (set->head)
		wake_locked(set);
	xs_lock_drop(&set->ready);
}

/* --- the list ---------- */
static void append(struct xs_ep_item *it)
{
	struct xs_ep_set *set = it->set;

	if (it->listed)
		return;
	it->listed = true;
	set->listed_n++;
	it->next = NULL;
	it->prev = set->tail;
	if (set->tail)
		set->tail->next = it;
	else
		set->head = it;
	set->tail = it;
}

static void remove_item(struct xs_ep_item *it)
{
	struct xs_ep_set *set = it->set;

	if (it->prev)
		it->prev->next = it->next;
	else
		set->head = it->next;
	if (it->next)
		it->next->prev = it->prev;
	else
		set->tail = it->prev;
	it->listed = false;
	set->listed_n--;
}

static void list(struct xs_ep_item *it, bool edge, bool moved)
{
	xs_lock_take(&it->set->ready);
	it->edge |= edge;
	it->moved |= moved;
	append(it);
	sync_locked(it->set);
	wake_locked(it->set);
	xs_lock_drop(&it->set->ready);
}

void xs_ep_list(struct xs_ep_item *it, bool edge)
{
	list(it, edge, !edge);
}

/* The progress thread converts the item, which may have to get sleepers out of epoll_wait first. */
static void post(struct xs_ep_set *set)
{
	if (atomic_exchange(&set->working, true))
		return;
	if (!xs_ep_hold(set)) {
		atomic_store(&set->working, false);
		return;
	}
	xs_progress_post(&set->work);
}

void xs_ep_notify(struct xs_waiter *w, unsigned what)
{
	struct xs_ep_item *it = (struct xs_ep_item *)w;
	uint32_t armed = atomic_load(&it->armed) & ~XS_EP_PRIVATE;
	bool edge = armed && (what & (armed | EPOLLERR | EPOLLHUP) & ~XS_WHAT_MOVED);
	bool moved = what & XS_WHAT_MOVED, managed = xs_managed((struct xs_sock *)it->obj);

	/* An item that the kernel answers hears of it there, and one that's out of a set that
	 * others watch would make it readable. */
	if (it->removed && atomic_load(&it->set->watched))
		return;
	if (moved ? !managed && !atomic_load(&it->counted) : !edge || !managed)
		return;
	list(it, edge, moved);
	if (managed && !atomic_load(&it->counted))
		post(it->set);
}

static void convert_listed(struct xs_ep_set *set)
{
	struct xs_ep_item *it;
	bool edge;

	for (uint32_t left = xs_ep_listed(set); left; left--) {
		it = xs_ep_pop(set, &edge);
		if (!it)
			break;
		if (!it->removed && xs_managed((struct xs_sock *)it->obj)) {
			xs_ep_count(set, it);
			xs_ep_convert(set, it);
		}
		xs_ep_list(it, edge);
	}
}

void xs_ep_work(struct xs_work *w)
{
	struct xs_ep_set *set = (struct xs_ep_set *)((char *)w - offsetof(struct xs_ep_set, work));

	atomic_store(&set->working, false);
	xs_ep_lock(set);
	if (xs_ep_lock_down(set))
		convert_listed(set);
	else
		post(set); /* an item may be on its way in */
	xs_ep_unlock(set);
	xs_obj_put(&set->obj);
}

void xs_ep_unlist(struct xs_ep_item *it)
{
	xs_lock_take(&it->set->ready);
	if (it->listed)
		remove_item(it);
	sync_locked(it->set);
	xs_lock_drop(&it->set->ready);
}

struct xs_ep_item *xs_ep_pop(struct xs_ep_set *set, bool *edge)
{
	struct xs_ep_item *it;

	xs_lock_take(&set->ready);
	it = set->head;
	if (it) {
		remove_item(it);
		*edge = it->edge;
		it->edge = it->moved = false;
	}
	xs_lock_drop(&set->ready);
	return it;
}

void xs_ep_requeue(struct xs_ep_item *it)
{
	xs_lock_take(&it->set->ready);
	it->edge = true;
	append(it);
	xs_lock_drop(&it->set->ready);
}

void xs_ep_push_back(struct xs_ep_item *it, bool edge)
{
	struct xs_ep_set *set = it->set;

	xs_lock_take(&set->ready);
	it->edge |= edge;
	if (!it->listed) {
		it->listed = true;
		set->listed_n++;
		it->prev = NULL;
		it->next = set->head;
		if (set->head)
			set->head->prev = it;
		else
			set->tail = it;
		set->head = it;
	}
	xs_lock_drop(&set->ready);
}

uint32_t xs_ep_listed(struct xs_ep_set *set)
{
	uint32_t n;

	xs_lock_take(&set->ready);
	n = set->listed_n;
	xs_lock_drop(&set->ready);
	return n;
}

/* --- sleepers ---------- */
void xs_ep_sleep_add(struct xs_ep_set *set, struct xs_ep_sleep *sl)
{
	xs_lock_take(&set->ready);
	sl->told = false;
	sl->prev = NULL;
	sl->next = set->sleepers;
	if (sl->next)
		sl->next->prev = sl;
	set->sleepers = sl;
	atomic_fetch_add(&set->sleeping, 1);
	xs_lock_drop(&set->ready);
}

void xs_ep_sleep_del(struct xs_ep_set *set, struct xs_ep_sleep *sl)
{
	xs_lock_take(&set->ready);
	if (sl->prev)
		sl->prev->next = sl->next;
	else
		set->sleepers = sl->next;
	if (sl->next)
		sl->next->prev = sl->prev;
	atomic_fetch_sub(&set->sleeping, 1);
	xs_lock_drop(&set->ready);
}

/* SPDX-License-Identifier: MIT */
/* The life of a set's object: made, closed, forked, and the restoring of all items before exec. */
#include "sock/epollset.h"

#include <errno.h>

#include "base/config.h"
#include "base/crit.h"
#include "base/highfd.h"
#include "base/rand.h"
#include "base/rawsys.h"
#include "sock/sleeps.h"
#include "sock/sock.h"

#include <sys/mman.h>

#define CHUNK 16384

static struct xs_lock spare_lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct xs_ep_set *spare; /* spare lock; linked by next; never given back */

/* spare lock */
static void more_sets(void)
{
	long m = xs_sys(__NR_mmap, 0, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	struct xs_ep_set *set = (struct xs_ep_set *)m;

	if (m < 0 && m > -4096)
		return;
	for (size_t i = 0; i < CHUNK / sizeof(*set); i++) {
		xs_lock_init(&set[i].lock, XS_RANK_SET);
		xs_lock_init(&set[i].ready, XS_RANK_LEAF);
		set[i].next = spare;
		spare = &set[i];
	}
}

static struct xs_ep_set *take_spare(void)
{
	struct xs_ep_set *set;

	xs_lock_take(&spare_lock);
	if (!spare)
		more_sets();
	set = spare;
	if (set)
		spare = set->next;
	xs_lock_drop(&spare_lock);
	return set;
}

static void give_spare(struct xs_ep_set *set)
{
	xs_lock_take(&spare_lock);
	set->next = spare;
	spare = set;
	xs_lock_drop(&spare_lock);
}

static struct xs_obj *forget_at(struct xs_ep_set *set, uint32_t i)
{
	struct xs_obj *left = NULL;

	xs_ep_lock(set);
	if (set->items.at[i])
		left = xs_ep_forget(set, set->items.at[i]);
	xs_ep_unlock(set);
	return left;
}

/* The last reference is gone: nobody waits on it. */
static void set_free(struct xs_obj *obj)
{
	struct xs_ep_set *set = (struct xs_ep_set *)obj;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_ep_sets_del(set);
	for (uint32_t i = 0; i < set->items.n; i++) {
		struct xs_obj *left = forget_at(set, i);

		if (left)
			xs_obj_put(left);
	}
	set->items.n = set->holes.n = 0;
	xs_highfd_close(&set->wake_fd);
	xs_highfd_close(&set->kick_fd);
	give_spare(set);
	xs_crit_leave(&cs);
}

static void begin(struct xs_ep_set *set, int fd)
{
	xs_lock_take(&set->lock);
	atomic_store(&set->fd, fd);
	atomic_store(&set->managed, 0);
	atomic_store(&set->locked, false);
	atomic_store(&set->resting, false);
	for (int i = 0; i < XS_EP_INSIDE; i++)
		atomic_store(&set->inside[i], NULL);
	atomic_store(&set->notes_n, 0);
	for (unsigned i = 0; i < XS_EP_NOTES; i++)
		atomic_store(&set->notes[i], -1);
	atomic_store(&set->inners, 0);
	atomic_store(&set->watched, false);
	set->inherited = set->plane_first = false;
	set->wake_fd = set->kick_fd = -1;
	set->work.fn = xs_ep_work;
	xs_random(&set->random, sizeof(set->random));
	xs_lock_drop(&set->lock);
	xs_obj_init(&set->obj, XS_FD_EPOLL, set_free);
	xs_ep_sets_add(set);
}

void xs_ep_created(int fd)
{
	int keep = errno, err = 0;
	struct xs_obj *old;
	struct xs_ep_set *set;
	struct xs_crit cs;

	if (xs_conf.mode != XS_MODE_ON || xs_fdtable_other_process())
		return;
	xs_crit_enter(&cs);
	set = take_spare();
	if (set) {
		begin(set, fd);
		old = xs_fdtable_set(fd, &set->obj, &err);
		if (old)
			xs_obj_put(old);
		xs_obj_put(&set->obj); /* the table has its own */
	}
	xs_crit_leave(&cs);
	errno = keep;
}

/* --- closing ---------- */
struct closed {
	int fd;
	struct xs_ep_set *last; /* has no name left; held */
};

static void rename_set(struct xs_ep_set *set, void *arg)
{
	struct closed *c = arg;
	int other = -1;

	if (atomic_load(&set->fd) != c->fd)
		return;
	for (int fd = xs_fdtable_next(0); fd >= 0 && other < 0; fd = xs_fdtable_next(fd + 1)) {
		struct xs_obj *o = fd == c->fd ? NULL : xs_fdtable_get(fd, XS_FD_EPOLL);

		if (o == &set->obj)
			other = fd;
		if (o)
			xs_obj_put(o);
	}
	atomic_store(&set->fd, other);
	if (other >= 0 || c->last)
		return;
	atomic_fetch_add(&set->obj.refs, 1);
	c->last = set;
}

void xs_ep_set_closed(int epfd)
{
	struct closed c = {.fd = epfd};
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_ep_sets_each(rename_set, &c);
	xs_crit_leave(&cs);
	if (!c.last)
		return;
	xs_ep_obj_closed(&c.last->obj, epfd, true); /* as a member of other sets */
	xs_obj_put(&c.last->obj);
}

/* --- processes ---------- */
static void restore_all(struct xs_ep_set *set, void *unused)
{
	(void)unused;
	xs_ep_lock(set);
	for (uint32_t i = 0; i < set->items.n; i++)
		if (set->items.at[i])
			xs_ep_restore(set, set->items.at[i]);
	xs_ep_unlock(set);
}

void xs_ep_exec(void)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_ep_sets_each(restore_all, NULL);
	xs_crit_leave(&cs);
}

void xs_ep_fork_child(void)
{
	xs_lock_init(&spare_lock, XS_RANK_LEAF);
	xs_ep_index_fork_child();
	xs_sleeps_fork_child();
}

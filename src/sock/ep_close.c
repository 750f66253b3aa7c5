/* SPDX-License-Identifier: MIT */
/* What happens to the items of a socket whose names are closed, or that becomes managed. */
#include "base/crit.h"
#include "base/rawsys.h"
#include "sock/epollset.h"
#include "sock/sock.h"

#define REFS 32

/* --- descriptors close ---------- */
static struct xs_ep_item *at_ref(const struct xs_ep_ref *ref, const struct xs_obj *obj)
{
	struct xs_ep_set *set = ref->set;
	struct xs_ep_item *it = ref->index < set->items.n ? set->items.at[ref->index] : NULL;

	return it && it->obj == obj ? it : NULL;
}

/* The kernel's item would go on reporting what the program has closed. */
static bool stays(struct xs_obj *obj)
{
	return obj->kind == XS_FD_SOCK && xs_outlives((struct xs_sock *)obj);
}

static void close_item(const struct xs_ep_ref *ref, struct xs_obj *obj, int fd, bool last)
{
	struct xs_ep_set *set = ref->set;
	struct epoll_event ev = {0};
	struct xs_obj *left = NULL;
	struct xs_ep_item *it;

	xs_ep_lock(set);
	it = at_ref(ref, obj);
	if (it && last) {
		if (!it->orphan && (it->converted || stays(obj)))
			xs_sys(__NR_epoll_ctl, atomic_load(&set->fd), EPOLL_CTL_DEL, it->fd, &ev);
		left = xs_ep_forget(set, it);
	} else if (it && it->removed && it->fd == fd) {
		xs_ep_drop(set, it);
		left = xs_ep_forget(set, it);
	} else if (it && it->fd == fd) {
		xs_ep_restore(set, it);
		atomic_store(&it->orphan, true);
	}
	xs_ep_unlock(set);
	if (left)
		xs_obj_put(left);
	xs_obj_put(&set->obj);
}

void xs_ep_obj_closed(struct xs_obj *obj, int fd, bool last)
{
	struct xs_ep_ref ref[REFS];
	struct xs_crit cs;
	unsigned n, skip = 0;

	xs_crit_enter(&cs);
	do {
		n = xs_ep_index_items(obj, ref, REFS, skip);
		for (unsigned i = 0; i < n; i++)
			close_item(&ref[i], obj, fd, last);
		skip += last ? 0 : n;
	} while (n == REFS);
	xs_crit_leave(&cs);
}

struct closing {
	int fd;
	bool item;
};

static void has_item(struct xs_ep_item *it, void *arg)
{
	struct closing *c = arg;

	c->item |= it->fd == c->fd && !xs_ep_out(it);
}

void xs_ep_fd_closed(struct xs_sock *s, int fd, bool last)
{
	struct closing c = {.fd = fd};
	struct xs_crit cs;

	if (!last && xs_managed(s)) { /* the item could never be changed again */
		xs_crit_enter(&cs);
		xs_ep_index_each((struct xs_obj *)s, has_item, &c);
		xs_crit_leave(&cs);
		if (c.item)
			xs_fd_pin(fd, XS_R_ORPHAN);
	}
	xs_ep_obj_closed((struct xs_obj *)s, fd, last);
}

/* --- sockets become managed ---------- */
static bool sleeps_in(const struct xs_ep_ref *ref, struct xs_obj *obj)
{
	struct xs_ep_set *set = ref->set;
	struct xs_ep_item *it;
	bool sleeps = false;

	xs_ep_lock(set);
	it = at_ref(ref, obj);
	if (it) /* also one that's out: it may be on its way in, or come back later */
		sleeps = !xs_ep_lock_down(set);
	if (it && !sleeps && !it->removed) {
		sleeps = xs_ep_count(set, it);
		xs_ep_convert(set, it);
	}
	xs_ep_unlock(set);
	xs_obj_put(&set->obj);
	return sleeps;
}

bool xs_ep_sleepers(struct xs_sock *s)
{
	struct xs_obj *obj = (struct xs_obj *)s;
	struct xs_ep_ref ref[REFS];
	unsigned n, skip = 0;
	bool sleeps = false;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	do {
		n = xs_ep_index_items(obj, ref, REFS, skip);
		for (unsigned i = 0; i < n; i++)
			sleeps |= sleeps_in(&ref[i], obj);
		skip += n;
	} while (n == REFS);
	xs_crit_leave(&cs);
	return sleeps;
}

static void obstacle(struct xs_ep_item *it, void *arg)
{
	int *why = arg;

	if (xs_ep_out(it))
		return;
	if (atomic_load(&it->exclusive) || it->set->inherited)
		*why = XS_R_EPOLL_SET;
	else if (atomic_load(&it->orphan))
		*why = XS_R_ORPHAN;
}

int xs_ep_obstacle(struct xs_sock *s)
{
	struct xs_crit cs;
	int why = 0;

	xs_crit_enter(&cs);
	xs_ep_index_each((struct xs_obj *)s, obstacle, &why);
	xs_crit_leave(&cs);
	return why;
}

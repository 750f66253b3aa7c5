/* SPDX-License-Identifier: MIT */
/* epoll_ctl with the lock. The kernel's call comes first and its errors are the result; our record
 * follows. */
#include <errno.h>

#include "base/crit.h"
#include "base/log.h"
#include "base/rawsys.h"
#include "sock/epollset.h"
#include "sock/sock.h"

/* --- items ---------- */
/* The item that the program knows of. */
static struct xs_ep_item *find(struct xs_ep_set *set, int fd)
{
	struct xs_ep_item *it = xs_ep_at(set, fd);

	return it && !it->removed ? it : NULL;
}

/* A record for fd, not yet in anything; its object's reference is taken over. */
static struct xs_ep_item *prepare(struct xs_ep_set *set, int fd, struct xs_obj *obj)
{
	struct xs_ep_item *it = xs_ep_item_new();
	uint32_t i = set->items.n;

	if (!it)
		return NULL;
	if (set->holes.n)
		i = (uint32_t)(uintptr_t)set->holes.at[--set->holes.n];
	if (xs_ep_grow(&set->items, i + 1) || xs_ep_table_grow(&set->by_fd, (uint32_t)fd + 1)) {
		xs_ep_item_free(it);
		return NULL;
	}
	it->waiter.notify = xs_ep_notify;
	it->set = set;
	it->obj = obj;
	it->fd = fd;
	it->index = i;
	return it;
}

void xs_ep_take_events(struct xs_ep_item *it, const struct epoll_event *ev)
{
	it->removed = false;
	it->events = ev->events | EPOLLERR | EPOLLHUP;
	it->data = ev->data;
	atomic_store(&it->exclusive, (ev->events & EPOLLEXCLUSIVE) != 0);
	atomic_store(&it->armed, it->events);
}

static void publish(struct xs_ep_set *set, struct xs_ep_item *it)
{
	set->items.at[it->index] = it;
	if (it->index >= set->items.n)
		set->items.n = it->index + 1;
	atomic_store(&set->by_fd.at[it->fd], it);
	xs_ep_index_add(it);
	if (it->obj->kind == XS_FD_EPOLL) {
		atomic_fetch_add(&set->inners, 1);
		return;
	}
	xs_waiter_add((struct xs_sock *)it->obj, &it->waiter);
}

/* A thread in an epoll_ctl without the lock may have found it before it left the table: its memory
 * is used again once there's none. */
static void retire(struct xs_ep_set *set, struct xs_ep_item *it)
{
	it->hash_next = set->limbo;
	set->limbo = it;
	if (xs_ep_anybody(set))
		return;
	while ((it = set->limbo)) {
		set->limbo = it->hash_next;
		xs_ep_item_free(it);
	}
}

struct xs_obj *xs_ep_forget(struct xs_ep_set *set, struct xs_ep_item *it)
{
	struct xs_obj *obj = it->obj;

	atomic_store(&it->resting, false);
	atomic_store(&it->noted, false);
	if (obj->kind == XS_FD_EPOLL)
		atomic_fetch_sub(&set->inners, 1);
	else
		xs_waiter_del((struct xs_sock *)obj, &it->waiter);
	xs_ep_unlist(it);
	xs_ep_uncount(set, it);
	xs_ep_index_del(it);
	if (xs_ep_at(set, it->fd) == it)
		atomic_store(&set->by_fd.at[it->fd], NULL);
	set->items.at[it->index] = NULL;
	if (!xs_ep_grow(&set->holes, set->holes.n + 1))
		set->holes.at[set->holes.n++] = (struct xs_ep_item *)(uintptr_t)it->index;
	retire(set, it);
	return obj;
}

/* --- epoll_ctl ---------- */
static int control(int epfd, int op, int fd, struct epoll_event *ev)
{
	return (int)xs_sys(__NR_epoll_ctl, epfd, op, fd, ev);
}

static void manage(struct xs_ep_set *set, struct xs_ep_item *it)
{
	if (it->obj->kind != XS_FD_SOCK || !xs_managed((struct xs_sock *)it->obj))
		return;
	xs_ep_count(set, it);
	xs_ep_convert(set, it);
	xs_ep_list(it, true); /* reported if it's ready now */
}

/* Back in what the program took out. 1: it had been another socket, nothing of it is left. */
static int add_again(struct xs_ep_set *set, struct xs_ep_item *it, const struct xs_obj *obj,
		     int epfd, struct epoll_event *ev, struct xs_obj **left)
{
	bool rests;
	int r = 0;

	if (it->obj != obj) {
		xs_ep_drop(set, it);
		*left = xs_ep_forget(set, it);
		return 1;
	}
	rests = xs_ep_at_rest(it) && !(ev->events & EPOLLEXCLUSIVE);
	if (!rests) {
		xs_ep_drop(set, it);
		r = control(epfd, EPOLL_CTL_ADD, it->fd, ev);
		if (r == -EEXIST && set->inherited) /* the owner's, at rest */
			r = control(epfd, EPOLL_CTL_MOD, it->fd, ev);
	}
	if (r)
		return r;
	xs_ep_take_events(it, ev);
	if (rests)
		xs_ep_rests(set, it);
	if (it->converted)
		xs_ep_list(it, true); /* reported if it's ready now */
	else
		manage(set, it);
	return 0;
}

/* left: objects whose references are to be put once the lock is dropped. */
static int add(struct xs_ep_set *set, int epfd, int fd, struct epoll_event *ev,
	       struct xs_obj *left[2])
{
	struct xs_obj *obj = xs_fdtable_get(fd, xs_fdtable_kind(fd));
	struct xs_ep_item *it, *old = xs_ep_at(set, fd);
	int r;

	left[0] = obj;
	r = old && old->removed ? add_again(set, old, obj, epfd, ev, &left[1]) : 1;
	if (r <= 0)
		return r;
	r = control(epfd, EPOLL_CTL_ADD, fd, ev);
	if (r < 0 || !obj || obj == &set->obj)
		return r;
	old = find(set, fd);
	if (old) /* the kernel had dropped it, or it's an orphan */
		atomic_store(&old->orphan, true);
	it = prepare(set, fd, obj);
	if (!it) {
		XS_LOG(WARN, "epoll fd=%d: no memory for an item", epfd);
		return r;
	}
	left[0] = NULL;
	xs_ep_take_events(it, ev);
	publish(set, it);
	if (obj->kind == XS_FD_SOCK)
		manage(set, it);
	return r;
}

/* Bits that the kernel's item hasn't got: where a return had to add them to an edge-triggered one,
 * the kernel would report an edge. */
static bool widens(const struct xs_ep_item *it)
{
	return it->events & EPOLLET && it->events & ~XS_EP_PRIVATE & ~it->form;
}

static int modify(struct xs_ep_set *set, int epfd, int fd, struct epoll_event *ev)
{
	struct xs_ep_item *it = xs_ep_at(set, fd);
	bool rests;
	uint32_t had;
	int r = 0;

	if (it && it->removed && it->converted) /* else the kernel knows: see ep_fast.c */
		return ev->events & EPOLLEXCLUSIVE ? -EINVAL : -ENOENT;
	if (!it || !it->converted || ev->events & EPOLLEXCLUSIVE) {
		r = control(epfd, EPOLL_CTL_MOD, fd, ev);
		if (r == 0 && it)
			xs_ep_take_events(it, ev);
		return r;
	}
	had = it->events;
	it->events = ev->events | EPOLLERR | EPOLLHUP;
	rests = xs_ep_at_rest(it) && !widens(it);
	if (!rests)
		r = xs_ep_form(set, it, EPOLL_CTL_MOD);
	if (r < 0) {
		it->events = had;
		return r;
	}
	xs_ep_take_events(it, ev);
	if (rests)
		xs_ep_rests(set, it);
	xs_ep_list(it, true); /* reported if it's ready now */
	return 0;
}

void xs_ep_set_aside(struct xs_ep_item *it)
{
	it->removed = true;
	it->events = 0;
	atomic_store(&it->armed, 0);
	atomic_store(&it->exclusive, false);
}

/* Of a socket's item. -ENOENT: the kernel doesn't know it. */
static int take_out(struct xs_ep_set *set, struct xs_ep_item *it, int epfd)
{
	struct epoll_event ev = {0};
	bool rests = xs_ep_at_rest(it) && !atomic_load(&set->watched);
	int r = rests ? 0 : control(epfd, EPOLL_CTL_DEL, it->fd, &ev);

	if (r)
		return r;
	if (!rests) {
		it->converted = false;
		xs_ep_uncount(set, it);
	}
	xs_ep_set_aside(it);
	if (rests)
		xs_ep_rests(set, it);
	xs_ep_unlist(it);
	return 0;
}

static int remove_item(struct xs_ep_set *set, int epfd, int fd, struct epoll_event *ev,
		       struct xs_obj **left)
{
	struct xs_ep_item *it = xs_ep_at(set, fd);
	int r;

	if (it && it->removed && it->converted)
		return -ENOENT;
	if (it && it->obj->kind == XS_FD_SOCK && !it->orphan)
		r = take_out(set, it, epfd);
	else
		r = control(epfd, EPOLL_CTL_DEL, fd, ev);
	if (it && !it->removed && (!r || r == -ENOENT) && !it->orphan)
		*left = xs_ep_forget(set, it);
	return r;
}

void xs_ep_apply(struct xs_ep_set *set, struct xs_ep_item *it)
{
	int epfd = atomic_load(&set->fd);
	struct epoll_event ev = it->wish;
	struct xs_obj *left = NULL;

	atomic_store(&it->resting, false);
	if (it->wish_out && !it->removed)
		take_out(set, it, epfd);
	else if (!it->wish_out && it->removed)
		add_again(set, it, it->obj, epfd, &ev, &left);
	else if (!it->wish_out)
		modify(set, epfd, it->fd, &ev);
}

static int locked_ctl(struct xs_ep_set *set, int epfd, int op, int fd, struct epoll_event *ev,
		      struct xs_obj *left[2])
{
	struct xs_ep_item *it = xs_ep_at(set, fd);

	if (it)
		atomic_store(&it->resting, false);
	if (it && atomic_load(&it->busy))
		xs_ep_lock_down(set); /* another thread is at it without the lock */
	if (op == EPOLL_CTL_DEL)
		return remove_item(set, epfd, fd, ev, &left[0]);
	if (!ev || (op != EPOLL_CTL_ADD && op != EPOLL_CTL_MOD))
		return control(epfd, op, fd, ev);
	if (xs_ep_is_token(set, ev->data.u64))
		xs_ep_redraw(set);
	return op == EPOLL_CTL_ADD ? add(set, epfd, fd, ev, left) : modify(set, epfd, fd, ev);
}

/* An inner set must show its members' readiness by its own descriptor from now on. */
static void show_inner(int op, int fd)
{
	struct xs_obj *obj = op == EPOLL_CTL_ADD ? xs_fdtable_get(fd, XS_FD_EPOLL) : NULL;

	if (!obj)
		return;
	xs_ep_want_wake((struct xs_ep_set *)obj);
	xs_obj_put(obj);
}

/* A set that was made where we didn't see it: what's in it isn't known. */
static int foreign_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	int r = control(epfd, op, fd, ev);

	if (!r && op == EPOLL_CTL_ADD)
		xs_fd_pin(fd, XS_R_EPOLL_SET);
	return r;
}

/* A stream that has moved, into a set that another process waits on too. */
static bool moved_into(const struct xs_ep_set *set, int fd)
{
	struct xs_obj *obj = set->inherited ? xs_fdtable_get(fd, XS_FD_SOCK) : NULL;
	bool moved = obj && xs_managed((struct xs_sock *)obj);

	if (obj)
		xs_obj_put(obj);
	return moved;
}

int xs_ep_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	struct xs_obj *obj = xs_fdtable_get(epfd, XS_FD_EPOLL), *left[2] = {NULL, NULL};
	struct xs_ep_set *set = (struct xs_ep_set *)obj;
	int keep = errno, r = 0;
	struct xs_crit cs;

	if (!set)
		return foreign_ctl(epfd, op, fd, ev);
	if (op == EPOLL_CTL_ADD && ev && (ev->events & EPOLLEXCLUSIVE || moved_into(set, fd)))
		xs_fd_pin(fd, XS_R_EPOLL_SET); /* the kernel chooses whom to wake */
	if (xs_ep_note(set, op, fd, ev) || xs_ep_fast_ctl(set, epfd, op, fd, ev, &r)) {
		xs_obj_put(obj);
		errno = keep;
		return r;
	}
	xs_crit_enter(&cs);
	xs_ep_lock(set);
	r = locked_ctl(set, epfd, op, fd, ev, left);
	xs_ep_unlock(set);
	if (!r)
		show_inner(op, fd);
	for (int i = 0; i < 2; i++)
		if (left[i])
			xs_obj_put(left[i]);
	xs_obj_put(obj);
	xs_crit_leave(&cs);
	errno = keep;
	return r;
}

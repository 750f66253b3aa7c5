/* SPDX-License-Identifier: MIT */
/*
 * The kernel's side of an epoll item: converting it to our watch form and back, the kick and wake
 * items, tokens. All with the set's lock held.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/highfd.h"
#include "base/rand.h"
#include "base/rawsys.h"
#include "sock/epollset.h"
#include "sock/sleeps.h"

#define LINE 256
#define MOVED (POLLIN | POLLOUT) /* the twin serves neither: both directions are on a plane */
#define BUFFER 4096

static _Atomic bool ever_managed;

bool xs_ep_managed(struct xs_ep_set *set)
{
	return atomic_load(&set->managed) ||
	       (atomic_load(&set->inners) && atomic_load(&ever_managed));
}

static long control(struct xs_ep_set *set, int op, int fd, struct epoll_event *ev)
{
	int epfd = atomic_load(&set->fd);

	return epfd < 0 ? -EBADF : xs_sys(__NR_epoll_ctl, epfd, op, fd, ev);
}

/* --- kick and wake items ---------- */
static int add_eventfd(struct xs_ep_set *set, uint32_t index, unsigned count)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = xs_ep_token(set, index)};
	int fd = xs_highfd((int)xs_sys(__NR_eventfd2, count, EFD_CLOEXEC | EFD_NONBLOCK));

	if (fd >= 0 && control(set, EPOLL_CTL_ADD, fd, &ev) < 0)
		xs_highfd_close(&fd);
	return fd < 0 ? -1 : fd;
}

static void make_wake(struct xs_ep_set *set)
{
	if (set->wake_fd >= 0 || !atomic_load(&set->managed))
		return;
	xs_lock_take(&set->ready);
	set->wake_on = false;
	set->wake_fd = add_eventfd(set, XS_EP_WAKE, 0);
	xs_lock_drop(&set->ready);
	xs_ep_sync_wake(set);
}

/* The set has just become one that others watch. */
static void drop_removed(struct xs_ep_set *set)
{
	for (uint32_t i = 0; i < set->items.n; i++) {
		struct xs_ep_item *it = set->items.at[i];

		if (!it || !it->removed)
			continue;
		xs_ep_drop(set, it);
		xs_ep_unlist(it);
	}
}

void xs_ep_want_wake(struct xs_ep_set *set)
{
	bool first = !atomic_exchange(&set->watched, true);

	if (!first && set->wake_fd >= 0)
		return;
	xs_ep_lock(set);
	if (first)
		drop_removed(set);
	make_wake(set);
	xs_ep_unlock(set);
}

void xs_ep_unkick(struct xs_ep_set *set)
{
	struct epoll_event ev = {0};

	if (set->kick_fd < 0 || xs_sleeps_on_set(set))
		return;
	control(set, EPOLL_CTL_DEL, set->kick_fd, &ev);
	xs_highfd_close(&set->kick_fd);
}

bool xs_ep_count(struct xs_ep_set *set, struct xs_ep_item *it)
{
	int fd = atomic_load(&set->fd);

	bool busy = !xs_ep_lock_down(set);

	atomic_store(&ever_managed, true);
	if (!atomic_exchange(&it->counted, true))
		atomic_fetch_add(&set->managed, 1);
	if (!atomic_load(&set->watched) && fd >= 0 && xs_sleeps_on_fd(fd) &&
	    !atomic_exchange(&set->watched, true))
		drop_removed(set);
	if (atomic_load(&set->watched))
		make_wake(set);
	xs_ep_unkick(set);
	if (!xs_sleeps_on_set(set))
		return busy;
	if (set->kick_fd < 0)
		set->kick_fd = add_eventfd(set, XS_EP_KICK, 1);
	return true;
}

void xs_ep_uncount(struct xs_ep_set *set, struct xs_ep_item *it)
{
	if (atomic_exchange(&it->counted, false))
		atomic_fetch_sub(&set->managed, 1);
}

/* --- one-shot: has the kernel disarmed it? ---------- */
/* Its line in fdinfo shows the events that the item has now. */
static bool parse(const char *line, int fd, uint32_t *events)
{
	int tfd;

	return sscanf(line, "tfd: %d events: %x", &tfd, events) == 2 && tfd == fd;
}

static bool scan_lines(int info, int fd, uint32_t *events)
{
	char buf[BUFFER + 1];
	size_t have = 0;
	char *nl;
	long n;

	while ((n = xs_sys(__NR_read, info, buf + have, BUFFER - have)) > 0) {
		have += (size_t)n;
		buf[have] = 0;
		for (char *line = buf; (nl = strchr(line, '\n')); line = nl + 1) {
			if (parse(line, fd, events))
				return true;
			if (nl + 1 == buf + have)
				have = 0;
		}
		nl = have ? strrchr(buf, '\n') : NULL;
		if (nl) {
			have -= (size_t)(nl + 1 - buf);
			memmove(buf, nl + 1, have);
		}
		if (have == BUFFER)
			have = 0; /* no line is that long */
	}
	return false;
}

static bool disarmed(struct xs_ep_set *set, int fd)
{
	uint32_t events = 0;
	char path[64];
	bool found;
	long info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", atomic_load(&set->fd));
	info = xs_sys(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	if (info < 0)
		return false;
	found = scan_lines((int)info, fd, &events);
	xs_sys(__NR_close, info);
	return found && !(events & ~XS_EP_PRIVATE);
}

/* --- conversion ---------- */
/*
 * The bits that the kernel item needs now. The program's are among them on a plane too: where they
 * had to be added at a return, the kernel would report an edge for them.
 */
static uint32_t needed(const struct xs_ep_item *it)
{
	unsigned serve = xs_twin_serves((struct xs_sock *)it->obj);
	uint32_t bits = it->events & ~XS_EP_PRIVATE;

	if (!(serve & MOVED))
		return bits | EPOLLIN | EPOLLRDHUP;
	return bits | (serve & POLLIN ? 0u : EPOLLIN);
}

static int put_form(struct xs_ep_set *set, struct xs_ep_item *it, int op, uint32_t bits)
{
	struct epoll_event ev = {.events = bits | EPOLLET, .data.u64 = xs_ep_token(set, it->index)};
	int r = (int)control(set, op, it->fd, &ev);

	if (!r)
		it->form = bits;
	return r;
}

int xs_ep_form(struct xs_ep_set *set, struct xs_ep_item *it, int op)
{
	return put_form(set, it, op, needed(it));
}

bool xs_ep_at_rest(const struct xs_ep_item *it)
{
	const uint32_t watch = EPOLLIN | EPOLLRDHUP;

	return it->converted && (it->form & watch) == watch &&
	       !(xs_twin_serves((struct xs_sock *)it->obj) & MOVED);
}

void xs_ep_reform(struct xs_ep_set *set, struct xs_ep_item *it)
{
	uint32_t bits = needed(it);

	if (bits & ~it->form)
		put_form(set, it, EPOLL_CTL_MOD, bits);
}

void xs_ep_drop(struct xs_ep_set *set, struct xs_ep_item *it)
{
	struct epoll_event ev = {0};

	atomic_store(&it->resting, false);
	xs_ep_uncount(set, it);
	if (it->converted && !(set->inherited && it->removed)) /* the owner may put it back */
		control(set, EPOLL_CTL_DEL, it->fd, &ev);
	it->converted = false;
}

void xs_ep_convert(struct xs_ep_set *set, struct xs_ep_item *it)
{
	if (it->converted || it->orphan || it->removed || !xs_ep_lock_down(set))
		return;
	if (it->events & EPOLLONESHOT && disarmed(set, it->fd))
		atomic_store(&it->armed, 0);
	if (xs_ep_form(set, it, EPOLL_CTL_MOD) < 0)
		return;
	it->converted = true;
	/* Level-triggered: it may be ready. Edge-triggered: if it is, the change has queued it
	 * again. */
	if (!(it->events & EPOLLET))
		xs_ep_list(it, true);
}

void xs_ep_restore(struct xs_ep_set *set, struct xs_ep_item *it)
{
	struct epoll_event ev = {.events = it->events, .data = it->data};

	atomic_store(&it->resting, false);
	if (it->removed) {
		xs_ep_drop(set, it);
		return;
	}
	xs_ep_uncount(set, it);
	if (!it->converted)
		return;
	it->converted = false;
	if (!atomic_load(&it->armed))
		ev.events &= XS_EP_PRIVATE;
	control(set, EPOLL_CTL_MOD, it->fd, &ev);
}

static void retoken(struct xs_ep_set *set, int fd, uint32_t index)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = xs_ep_token(set, index)};

	if (fd >= 0)
		control(set, EPOLL_CTL_MOD, fd, &ev);
}

void xs_ep_redraw(struct xs_ep_set *set)
{
	xs_random(&set->random, sizeof(set->random));
	for (uint32_t i = 0; i < set->items.n; i++) {
		struct xs_ep_item *it = set->items.at[i];

		if (it && it->converted)
			put_form(set, it, EPOLL_CTL_MOD, it->form);
	}
	retoken(set, set->kick_fd, XS_EP_KICK);
	retoken(set, set->wake_fd, XS_EP_WAKE);
}

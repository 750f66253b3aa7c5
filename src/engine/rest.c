/* SPDX-License-Identifier: MIT */
/*
 * A thread that sleeps on the same things again sleeps in an epoll set of its own: one descriptor
 * to look at and one wait queue to join for each sleep, instead of four. Only who leads sleeps so,
 * and only with one descriptor of the caller's, the same as the last time; all others sleep in
 * ppoll (wait.c). Both ways take off what they find, so they may alternate.
 *
 * A place stays as it is while it's for the same thing. A number alone doesn't say so: the program
 * may have closed it and got it again. So each thing has a name: an object's serial, the leader's
 * descriptor's, a signal mask. What was closed under one number and lives on, in a child say, can't
 * be taken out; its events tell, and then the whole set is made anew.
 */
#include "base/highfd.h"
#include "base/rawsys.h"
#include "base/real.h"
#include "engine/engine.h"

#include <errno.h>
#include <sys/epoll.h>

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
		       EPOLLHUP == POLLHUP && EPOLLPRI == POLLPRI && EPOLLRDHUP == 0x2000,
	       "poll's bits are epoll's");

static void forget(struct xs_rest *r)
{
	r->fd = -1;
	for (int i = 0; i < XS_REST_PLACES; i++)
		r->in[i].fd = -1;
}

void xs_rest_init(struct xs_sleeper *s)
{
	forget(&s->rest);
}

void xs_rest_drop(struct xs_sleeper *s)
{
	xs_highfd_close(&s->rest.fd);
	forget(&s->rest);
}

/* The set's number isn't ours any more. */
static void lost(struct xs_rest *r)
{
	xs_highfd_gone(r->fd);
	forget(r);
}

static long control(struct xs_rest *r, int op, int i, struct epoll_event *ev)
{
	return xs_sys(__NR_epoll_ctl, r->fd, op, r->in[i].fd, ev);
}

static bool place(struct xs_rest *r, int i, int fd, uint32_t bits, uint64_t name)
{
	struct xs_rest_place *p = &r->in[i];
	bool same = p->fd == fd && p->name == name;
	struct epoll_event ev = {.events = bits};

	if (same && p->bits == bits)
		return true;
	if (!same) {
		if (p->fd >= 0)
			control(r, EPOLL_CTL_DEL, i, &ev);
		p->serial = ++r->serials;
	}
	ev.data.u64 = (uint64_t)p->serial << 2 | (unsigned)i;
	p->fd = fd;
	p->bits = bits;
	p->name = name;
	if (control(r, same ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, i, &ev) >= 0)
		return true;
	p->fd = -1;
	return false;
}

bool xs_rest_again(struct xs_sleeper *s)
{
	bool again = s->about && s->about == s->rest.last;

	s->rest.last = s->about;
	return again;
}

bool xs_rest_make(struct xs_sleeper *s, const struct pollfd *set, uint64_t lead, uint64_t signals)
{
	struct xs_rest *r = &s->rest;
	uint32_t edge = lead & XS_LEAD_EDGE ? EPOLLET : 0;

	if (set[XS_REST_SIGNALS].fd < 0 || set[XS_REST_OWN].fd < 0)
		return false;
	if (r->fd < 0)
		r->fd = xs_highfd((int)xs_sys(__NR_epoll_create1, EPOLL_CLOEXEC));
	_Static_assert(XS_REST_PLACES == 4, "a place's number is two bits");
	if (r->fd >= 0 && place(r, XS_REST_WAKE, set[XS_REST_WAKE].fd, EPOLLIN | EPOLLET, 0) &&
	    place(r, XS_REST_SIGNALS, set[XS_REST_SIGNALS].fd, EPOLLIN, signals) &&
	    place(r, XS_REST_CHANNELS, set[XS_REST_CHANNELS].fd, EPOLLIN | edge, lead) &&
	    place(r, XS_REST_OWN, set[XS_REST_OWN].fd, (unsigned short)set[XS_REST_OWN].events,
		  s->about))
		return true;
	xs_rest_drop(s);
	return false;
}

/* libc's, since the sleep is a cancellation point. */
static int wait(struct xs_rest *r, struct epoll_event *ev, const struct timespec *ts)
{
	struct pollfd p = {.fd = r->fd, .events = POLLIN};
	int n;

	if (!ts)
		return xs_real.epoll_wait(r->fd, ev, XS_REST_PLACES, -1);
	n = xs_real.ppoll(&p, 1, ts, NULL); /* the other one knows milliseconds */
	if (n > 0 && p.revents & POLLNVAL) {
		errno = EBADF;
		return -1;
	}
	return n > 0 ? xs_real.epoll_wait(r->fd, ev, XS_REST_PLACES, 0) : n;
}

int xs_rest_sleep(struct xs_sleeper *s, struct pollfd *set, const struct timespec *ts)
{
	struct epoll_event ev[XS_REST_PLACES];
	struct xs_rest *r = &s->rest;
	bool stale = false;
	int n;

	for (int i = 0; i < XS_REST_PLACES; i++)
		set[i].revents = 0;
	n = wait(r, ev, ts);
	if (n < 0 && (errno == EBADF || errno == EINVAL)) {
		lost(r); /* the program has closed it: look at everything, and another round */
		return 1;
	}
	for (int i = 0; i < n; i++) {
		unsigned at = ev[i].data.u64 & 3;

		if (ev[i].data.u64 >> 2 == r->in[at].serial)
			set[at].revents = (short)ev[i].events;
		else
			stale = true;
	}
	if (stale)
		xs_rest_drop(s);
	return n;
}

/* SPDX-License-Identifier: MIT */
/*
 * What is left at exit: a grandchild with only the twins open writes it and goes. Raw system calls
 * only: it is a forked child of a process with threads. No exit signal, so the program's SIGCHLD
 * handlers and wait() calls see nothing.
 */
#include "sock/exit_rest.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/rawsys.h"

static long clone_quietly(void)
{
	return xs_sys(__NR_clone, 0, 0, 0, 0, 0);
}

static void close_others(const struct xs_rest *r, unsigned n)
{
	unsigned from = 0, next;

	for (;;) {
		next = ~0u;
		for (unsigned i = 0; i < n; i++)
			if ((unsigned)r[i].fd >= from && (unsigned)r[i].fd < next)
				next = (unsigned)r[i].fd;
		if (next > from)
			xs_sys(__NR_close_range, from, next - 1, 0);
		if (next == ~0u)
			return;
		from = next + 1;
	}
}

/* False: it is finished, one way or the other. */
static bool push(struct xs_rest *r)
{
	long put;

	while (r->at < r->len) {
		put = xs_sys(__NR_sendto, r->fd, r->data + r->at, r->len - r->at,
			     MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0);
		if (put == -EAGAIN || put == -EINTR)
			return true;
		if (put < 0)
			return false;
		r->at += (size_t)put;
	}
	return false;
}

static void finish(struct xs_rest *r, unsigned n)
{
	struct pollfd p = {.events = POLLOUT};

	close_others(r, n);
	for (unsigned left = n; left;) {
		left = 0;
		for (unsigned i = 0; i < n; i++) {
			if (r[i].fd < 0)
				continue;
			if (push(&r[i])) {
				left++;
				p.fd = r[i].fd;
			} else {
				xs_sys(__NR_close, r[i].fd);
				r[i].fd = -1;
			}
		}
		if (left) {
			struct timespec ts = {.tv_nsec = 50000000};

			xs_sys(__NR_ppoll, &p, 1, &ts, 0, 8);
		}
	}
}

int xs_rest_detach(struct xs_rest *r, unsigned n)
{
	long child = clone_quietly();

	if (child < 0)
		return (int)child;
	if (child == 0) {
		if (clone_quietly() == 0)
			finish(r, n);
		xs_sys(__NR_exit_group, 0);
	}
	while (xs_sys(__NR_wait4, child, 0, __WCLONE, 0) == -EINTR)
		;
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * Doors: poll and select. A call without a descriptor of ours is libc's; so is one with
 * arguments that the kernel refuses, and, counted, one whose descriptors the kernel serves.
 */
#include "hook/door.h"

#include <poll.h>
#include <sys/select.h>

static bool polls_ours(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; fds && i < n; i++)
		if (xs_fd_tracked(fds[i].fd))
			return true;
	return false;
}

static bool time_is_good(const struct timespec *t)
{
	return !t || (t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000);
}

XS_DOOR int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec t = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L};
	struct xs_sleep *sleep;

	if (!polls_ours(fds, n))
		return xs_real.poll(fds, n, timeout);
	sleep = xs_poll_enter(fds, n);
	if (sleep)
		return xs_wait_leave(sleep, xs_real.poll(fds, n, timeout));
	return (int)xs_door(xs_poll(fds, n, timeout < 0 ? NULL : &t, NULL));
}

XS_ALIAS(poll) int __poll(struct pollfd *fds, nfds_t n, int timeout);

XS_DOOR int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
	struct timespec t = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L};
	struct xs_sleep *sleep;

	if (room / sizeof(*fds) < n || !polls_ours(fds, n))
		return xs_real.__poll_chk(fds, n, timeout, room);
	sleep = xs_poll_enter(fds, n);
	if (sleep)
		return xs_wait_leave(sleep, xs_real.__poll_chk(fds, n, timeout, room));
	return (int)xs_door(xs_poll(fds, n, timeout < 0 ? NULL : &t, NULL));
}

XS_DOOR int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		  const sigset_t *mask)
{
	struct xs_sleep *sleep;

	if (!time_is_good(timeout) || !polls_ours(fds, n))
		return xs_real.ppoll(fds, n, timeout, mask);
	sleep = xs_poll_enter(fds, n);
	if (sleep)
		return xs_wait_leave(sleep, xs_real.ppoll(fds, n, timeout, mask));
	return (int)xs_door(xs_poll(fds, n, timeout, mask));
}

XS_DOOR int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			const sigset_t *mask, size_t room)
{
	struct xs_sleep *sleep;

	if (room / sizeof(*fds) < n || !time_is_good(timeout) || !polls_ours(fds, n))
		return xs_real.__ppoll_chk(fds, n, timeout, mask, room);
	sleep = xs_poll_enter(fds, n);
	if (sleep)
		return xs_wait_leave(sleep, xs_real.__ppoll_chk(fds, n, timeout, mask, room));
	return (int)xs_door(xs_poll(fds, n, timeout, mask));
}

/* The words of the sets, as far as n goes; programs use sets larger than fd_set. */
static unsigned long word_of(const fd_set *rd, const fd_set *wr, const fd_set *ex, int i)
{
	unsigned long word = 0;

	word |= rd ? ((const unsigned long *)rd)[i] : 0;
	word |= wr ? ((const unsigned long *)wr)[i] : 0;
	word |= ex ? ((const unsigned long *)ex)[i] : 0;
	return word;
}

static bool selects_ours(int n, const fd_set *rd, const fd_set *wr, const fd_set *ex)
{
	const int bits = 8 * (int)sizeof(unsigned long);

	for (int i = 0; i * bits < n; i++) {
		unsigned long word = word_of(rd, wr, ex, i);

		for (; word; word &= word - 1) {
			int fd = i * bits + __builtin_ctzl(word);

			if (fd < n && xs_fd_tracked(fd))
				return true;
		}
	}
	return false;
}

XS_DOOR int select(int n, fd_set *restrict rd, fd_set *restrict wr, fd_set *restrict ex,
		   struct timeval *restrict timeout)
{
	struct xs_sleep *sleep;
	struct timespec t, left;
	int r;

	if ((timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)) ||
	    !selects_ours(n, rd, wr, ex))
		return xs_real.select(n, rd, wr, ex, timeout);
	sleep = xs_select_enter(n, rd, wr, ex);
	if (sleep)
		return xs_wait_leave(sleep, xs_real.select(n, rd, wr, ex, timeout));
	if (!timeout)
		return (int)xs_door(xs_select(n, rd, wr, ex, NULL, NULL, NULL));
	t.tv_sec = timeout->tv_sec + timeout->tv_usec / 1000000;
	t.tv_nsec = timeout->tv_usec % 1000000 * 1000;
	left = t;
	r = xs_select(n, rd, wr, ex, &t, &left, NULL);
	timeout->tv_sec = left.tv_sec;
	timeout->tv_usec = left.tv_nsec / 1000;
	return (int)xs_door(r);
}

XS_ALIAS(select) int __select(int n, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout);

XS_DOOR int pselect(int n, fd_set *restrict rd, fd_set *restrict wr, fd_set *restrict ex,
		    const struct timespec *restrict timeout, const sigset_t *restrict mask)
{
	struct xs_sleep *sleep;

	if (!time_is_good(timeout) || !selects_ours(n, rd, wr, ex))
		return xs_real.pselect(n, rd, wr, ex, timeout, mask);
	sleep = xs_select_enter(n, rd, wr, ex);
	if (sleep)
		return xs_wait_leave(sleep, xs_real.pselect(n, rd, wr, ex, timeout, mask));
	return (int)xs_door(xs_select(n, rd, wr, ex, timeout, NULL, mask));
}

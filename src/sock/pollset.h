/* SPDX-License-Identifier: MIT */
/* The wait that poll and select share once something in the list isn't the kernel's alone. */
#ifndef XS_SOCK_POLLSET_H
#define XS_SOCK_POLLSET_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Does the list need us: a managed socket, or an epoll set with managed members? */
bool xs_pollset_managed(int fd);

/*
 * Waits until an entry of fds is ready; revents as poll's. count[i]: the bits that end the wait for
 * entry i (select: a hang-up is no exceptional condition); NULL: all. Returns the number of entries
 * with such bits, 0 at the deadline (xs_now_ns, 0: none; `now`: don't wait at all), -EINTR with
 * pending handlers not yet run (xs_signals_run(mask) outside the critical section), or another
 * negative errno.
 */
int xs_pollset_wait(struct pollfd *fds, const unsigned short *count, nfds_t n, bool now,
		    uint64_t deadline, const sigset_t *mask);
/* timeout -> deadline; *now: it's zero. 0: for ever. */
uint64_t xs_pollset_deadline(const struct timespec *timeout, bool *now);

#endif

/* SPDX-License-Identifier: MIT */
/* Doors: poll and select. */
#include "base/real.h"
#include "hook/door.h"

#include <poll.h>
#include <sys/select.h>

XS_DOOR int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	return xs_real.poll(fds, n, timeout);
}

XS_DOOR int __poll(struct pollfd *fds, nfds_t n, int timeout)
{
	return xs_real.__poll(fds, n, timeout);
}

XS_DOOR int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
	return xs_real.__poll_chk(fds, n, timeout, room);
}

XS_DOOR int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		  const sigset_t *mask)
{
	return xs_real.ppoll(fds, n, timeout, mask);
}

XS_DOOR int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			const sigset_t *mask, size_t room)
{
	return xs_real.__ppoll_chk(fds, n, timeout, mask, room);
}

XS_DOOR int select(int n, fd_set *restrict rd, fd_set *restrict wr, fd_set *restrict ex,
		   struct timeval *restrict timeout)
{
	return xs_real.select(n, rd, wr, ex, timeout);
}

XS_DOOR int __select(int n, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout)
{
	return xs_real.__select(n, rd, wr, ex, timeout);
}

XS_DOOR int pselect(int n, fd_set *restrict rd, fd_set *restrict wr, fd_set *restrict ex,
		    const struct timespec *restrict timeout, const sigset_t *restrict mask)
{
	return xs_real.pselect(n, rd, wr, ex, timeout, mask);
}

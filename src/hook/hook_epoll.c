/* SPDX-License-Identifier: MIT */
/* Doors: epoll. */
#include "base/real.h"
#include "hook/door.h"

#include <sys/epoll.h>

XS_DOOR int epoll_create(int size)
{
	return xs_real.epoll_create(size);
}

XS_DOOR int epoll_create1(int flags)
{
	return xs_real.epoll_create1(flags);
}

XS_DOOR int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	return xs_real.epoll_ctl(epfd, op, fd, event);
}

XS_DOOR int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	return xs_real.epoll_wait(epfd, events, max, timeout);
}

XS_DOOR int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout,
			const sigset_t *mask)
{
	return xs_real.epoll_pwait(epfd, events, max, timeout, mask);
}

XS_DOOR int epoll_pwait2(int epfd, struct epoll_event *events, int max,
			 const struct timespec *timeout, const sigset_t *mask)
{
	return xs_real.epoll_pwait2(epfd, events, max, timeout, mask);
}

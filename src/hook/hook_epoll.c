/* SPDX-License-Identifier: MIT */
/* Doors: epoll. */
#include "hook/door.h"

#include <sys/epoll.h>

static int created(int epfd)
{
	if (xs_fresh(epfd) >= 0)
		xs_ep_created(epfd);
	return epfd;
}

XS_DOOR int epoll_create(int size)
{
	return created(xs_real.epoll_create(size));
}

XS_DOOR int epoll_create1(int flags)
{
	return created(xs_real.epoll_create1(flags));
}

XS_DOOR int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	if (!xs_fd_tracked(epfd) && !xs_fd_tracked(fd))
		return xs_real.epoll_ctl(epfd, op, fd, event);
	return (int)xs_door(xs_ep_ctl(epfd, op, fd, event));
}

XS_DOOR int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout,
			const sigset_t *mask)
{
	struct timespec t = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L};
	struct xs_ep_wait w = {.epfd = epfd, .ev = events, .max = max, .mask = mask};

	if (max <= 0 || !xs_fd_tracked(epfd))
		return xs_real.epoll_pwait(epfd, events, max, timeout, mask);
	if (xs_ep_enter(&w, timeout < 0 ? NULL : &t))
		return xs_ep_leave(&w, xs_real.epoll_pwait(epfd, events, max, timeout, mask));
	return (int)xs_door(xs_ep_wait(&w));
}

XS_DOOR int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	struct timespec t = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1000000L};
	struct xs_ep_wait w = {.epfd = epfd, .ev = events, .max = max};

	if (max <= 0 || !xs_fd_tracked(epfd))
		return xs_real.epoll_wait(epfd, events, max, timeout);
	if (xs_ep_enter(&w, timeout < 0 ? NULL : &t))
		return xs_ep_leave(&w, xs_real.epoll_wait(epfd, events, max, timeout));
	return (int)xs_door(xs_ep_wait(&w));
}

XS_DOOR int epoll_pwait2(int epfd, struct epoll_event *events, int max,
			 const struct timespec *timeout, const sigset_t *mask)
{
	bool odd = timeout &&
		   (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1000000000);
	struct xs_ep_wait w = {.epfd = epfd, .ev = events, .max = max, .mask = mask};

	if (odd || max <= 0 || !xs_fd_tracked(epfd))
		return xs_real.epoll_pwait2(epfd, events, max, timeout, mask);
	if (xs_ep_enter(&w, timeout))
		return xs_ep_leave(&w, xs_real.epoll_pwait2(epfd, events, max, timeout, mask));
	return (int)xs_door(xs_ep_wait(&w));
}

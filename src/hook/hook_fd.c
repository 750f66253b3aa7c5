/* SPDX-License-Identifier: MIT */
/* Doors: descriptors. The range calls spare the library's own. */
#include "hook/door.h"

#include <unistd.h>

/* Programs that close "all" numbers one by one: bare, there would be nothing at ours. */
XS_DOOR int close(int fd)
{
	if (xs_fd_tracked(fd))
		return (int)xs_door(xs_fd_close(fd));
	if (!xs_fd_private(fd))
		return xs_real.close(fd);
	errno = EBADF;
	return -1;
}

XS_ALIAS(close) int __close(int fd);

XS_DOOR int close_range(unsigned int first, unsigned int last, int flags)
{
	return (int)xs_door(xs_fd_close_range(first, last, (unsigned int)flags));
}

XS_DOOR void closefrom(int low)
{
	if (xs_fd_close_range(low < 0 ? 0 : (unsigned int)low, ~0U, 0) < 0)
		xs_real.closefrom(low);
}

XS_DOOR int dup(int fd)
{
	if (!xs_fd_tracked(fd))
		return xs_fresh(xs_real.dup(fd));
	return (int)xs_door(xs_fd_dup(fd));
}

XS_DOOR int dup2(int fd, int newfd)
{
	if (!xs_fd_tracked(fd) && !xs_fd_tracked(newfd))
		return xs_fresh(xs_real.dup2(fd, newfd));
	return (int)xs_door(xs_fd_dup2(fd, newfd));
}

XS_ALIAS(dup2) int __dup2(int from, int to);

XS_DOOR int dup3(int fd, int newfd, int flags)
{
	if (!xs_fd_tracked(fd) && !xs_fd_tracked(newfd))
		return xs_fresh(xs_real.dup3(fd, newfd, flags));
	return (int)xs_door(xs_fd_dup3(fd, newfd, flags));
}

/* SPDX-License-Identifier: MIT */
/* Doors: descriptors. */
#include "base/real.h"
#include "hook/door.h"

#include <unistd.h>

XS_DOOR int close(int fd)
{
	return xs_real.close(fd);
}

XS_DOOR int __close(int fd)
{
	return xs_real.__close(fd);
}

XS_DOOR int close_range(unsigned int first, unsigned int last, int flags)
{
	return xs_real.close_range(first, last, flags);
}

XS_DOOR void closefrom(int low)
{
	xs_real.closefrom(low);
}

XS_DOOR int dup(int fd)
{
	return xs_real.dup(fd);
}

XS_DOOR int dup2(int fd, int newfd)
{
	return xs_real.dup2(fd, newfd);
}

XS_DOOR int __dup2(int fd, int newfd)
{
	return xs_real.__dup2(fd, newfd);
}

XS_DOOR int dup3(int fd, int newfd, int flags)
{
	return xs_real.dup3(fd, newfd, flags);
}

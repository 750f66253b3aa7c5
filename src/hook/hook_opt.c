/* SPDX-License-Identifier: MIT */
/*
 * Doors: options. fcntl and ioctl take one argument of a type that depends on the request;
 * it is fetched as a long and handed on as one, which every ABI we run on allows.
 */
#include "base/real.h"
#include "hook/door.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

XS_DOOR int getsockopt(int fd, int level, int name, void *restrict val, socklen_t *restrict len)
{
	return xs_real.getsockopt(fd, level, name, val, len);
}

XS_DOOR int setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	return xs_real.setsockopt(fd, level, name, val, len);
}

XS_DOOR int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	return xs_real.ioctl(fd, request, arg);
}

XS_DOOR int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return xs_real.fcntl(fd, cmd, arg);
}

XS_DOOR int __fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return xs_real.__fcntl(fd, cmd, arg);
}

XS_DOOR int fcntl64(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return xs_real.fcntl64(fd, cmd, arg);
}

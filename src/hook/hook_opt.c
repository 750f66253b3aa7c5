/* SPDX-License-Identifier: MIT */
/*
 * Doors: options. fcntl and ioctl take one argument of a type that depends on the request;
 * it is fetched as a long and handed on as one, which every ABI we run on allows.
 */
#include "hook/door.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

XS_DOOR int getsockopt(int fd, int level, int name, void *restrict val, socklen_t *restrict len)
{
	struct xs_sock *s = xs_sock_get(fd);
	int r;

	if (!s)
		return xs_real.getsockopt(fd, level, name, val, len);
	r = xs_opt_get(s, fd, level, name, val, len);
	xs_sock_put(s);
	return (int)xs_door(r);
}

XS_DOOR int setsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct xs_sock *s = xs_sock_get(fd);
	int r;

	if (!s)
		return xs_real.setsockopt(fd, level, name, val, len);
	r = xs_opt_set(s, fd, level, name, val, len);
	xs_sock_put(s);
	return (int)xs_door(r);
}

XS_DOOR int ioctl(int fd, unsigned long request, ...)
{
	struct xs_sock *s = xs_sock_get(fd);
	bool done = false;
	va_list ap;
	void *arg;
	int r = 0;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (s) {
		r = xs_opt_ioctl(s, fd, request, arg, &done);
		xs_sock_put(s);
	}
	return done ? (int)xs_door(r) : xs_real.ioctl(fd, request, arg);
}

XS_DOOR int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	if (cmd != F_DUPFD && cmd != F_DUPFD_CLOEXEC)
		return xs_real.fcntl(fd, cmd, arg);
	if (!xs_fd_tracked(fd))
		return xs_fresh(xs_real.fcntl(fd, cmd, arg));
	return (int)xs_door(xs_fd_dupfd(fd, cmd, (int)arg));
}

XS_ALIAS(fcntl) int __fcntl(int fd, int cmd, ...);
XS_ALIAS(fcntl) int fcntl64(int fd, int cmd, ...);

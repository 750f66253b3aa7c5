/* SPDX-License-Identifier: MIT */
/* Doors: the life of a socket. Names and listeners are the kernel's alone. */
#include "hook/door.h"

#include <sys/socket.h>

XS_DOOR int socket(int domain, int type, int protocol)
{
	int fd = xs_fresh(xs_real.socket(domain, type, protocol));

	if (fd >= 0)
		xs_sock_created(fd, domain, type, protocol);
	return fd;
}

XS_DOOR int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	return xs_real.bind(fd, addr, len);
}

XS_DOOR int listen(int fd, int backlog)
{
	return xs_real.listen(fd, backlog);
}

XS_DOOR int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	if (!xs_fd_tracked(fd))
		return xs_real.connect(fd, addr, len);
	return (int)xs_door(xs_sock_connect(fd, addr, len));
}

XS_ALIAS(connect) int __connect(int fd, const struct sockaddr *addr, socklen_t len);

/* A listener may have been made by another process: it becomes known by its first connection. */
static int accepted(int listener, int fd)
{
	if (fd >= 0)
		xs_sock_accepted(listener, fd);
	return fd;
}

XS_DOOR int accept(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	return accepted(fd, xs_real.accept(fd, addr, len));
}

XS_DOOR int accept4(int fd, struct sockaddr *restrict addr, socklen_t *restrict len, int flags)
{
	return accepted(fd, xs_real.accept4(fd, addr, len, flags));
}

XS_DOOR int shutdown(int fd, int how)
{
	struct xs_sock *s = xs_sock_get(fd);
	int r;

	if (!s)
		return xs_real.shutdown(fd, how);
	r = xs_sock_shutdown(s, fd, how);
	xs_sock_put(s);
	return (int)xs_door(r);
}

XS_DOOR int getsockname(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	return xs_real.getsockname(fd, addr, len);
}

XS_DOOR int getpeername(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	return xs_real.getpeername(fd, addr, len);
}

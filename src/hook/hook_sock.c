/* SPDX-License-Identifier: MIT */
/* Doors: the life of a socket. */
#include "base/real.h"
#include "hook/door.h"

#include <sys/socket.h>

XS_DOOR int socket(int domain, int type, int protocol)
{
	return xs_real.socket(domain, type, protocol);
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
	return xs_real.connect(fd, addr, len);
}

XS_DOOR int __connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return xs_real.__connect(fd, addr, len);
}

XS_DOOR int accept(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	return xs_real.accept(fd, addr, len);
}

XS_DOOR int accept4(int fd, struct sockaddr *restrict addr, socklen_t *restrict len, int flags)
{
	return xs_real.accept4(fd, addr, len, flags);
}

XS_DOOR int shutdown(int fd, int how)
{
	return xs_real.shutdown(fd, how);
}

XS_DOOR int getsockname(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	return xs_real.getsockname(fd, addr, len);
}

XS_DOOR int getpeername(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	return xs_real.getpeername(fd, addr, len);
}

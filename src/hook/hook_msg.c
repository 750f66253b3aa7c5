/* SPDX-License-Identifier: MIT */
/* Doors: bytes by the send and receive families. */
#include "base/real.h"
#include "hook/door.h"

#include <sys/socket.h>

XS_DOOR ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	return xs_real.recv(fd, buf, n, flags);
}

XS_DOOR ssize_t __recv(int fd, void *buf, size_t n, int flags)
{
	return xs_real.__recv(fd, buf, n, flags);
}

XS_DOOR ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags)
{
	return xs_real.__recv_chk(fd, buf, n, room, flags);
}

XS_DOOR ssize_t recvfrom(int fd, void *restrict buf, size_t n, int flags,
			 struct sockaddr *restrict from, socklen_t *restrict len)
{
	return xs_real.recvfrom(fd, buf, n, flags, from, len);
}

XS_DOOR ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags,
			       struct sockaddr *from, socklen_t *len)
{
	return xs_real.__recvfrom_chk(fd, buf, n, room, flags, from, len);
}

XS_DOOR ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	return xs_real.recvmsg(fd, msg, flags);
}

XS_DOOR int recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		     struct timespec *timeout)
{
	return xs_real.recvmmsg(fd, msgs, n, flags, timeout);
}

XS_DOOR ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	return xs_real.send(fd, buf, n, flags);
}

XS_DOOR ssize_t __send(int fd, const void *buf, size_t n, int flags)
{
	return xs_real.__send(fd, buf, n, flags);
}

XS_DOOR ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
		       socklen_t len)
{
	return xs_real.sendto(fd, buf, n, flags, to, len);
}

XS_DOOR ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return xs_real.sendmsg(fd, msg, flags);
}

XS_DOOR int sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	return xs_real.sendmmsg(fd, msgs, n, flags);
}

XS_DOOR int __sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	return xs_real.__sendmmsg(fd, msgs, n, flags);
}

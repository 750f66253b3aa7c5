/* SPDX-License-Identifier: MIT */
/* Doors: bytes by descriptor. */
#include "base/real.h"
#include "hook/door.h"

#include <sys/uio.h>
#include <unistd.h>

XS_DOOR ssize_t read(int fd, void *buf, size_t n)
{
	return xs_real.read(fd, buf, n);
}

XS_DOOR ssize_t __read(int fd, void *buf, size_t n)
{
	return xs_real.__read(fd, buf, n);
}

XS_DOOR ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
	return xs_real.__read_chk(fd, buf, n, room);
}

XS_DOOR ssize_t write(int fd, const void *buf, size_t n)
{
	return xs_real.write(fd, buf, n);
}

XS_DOOR ssize_t __write(int fd, const void *buf, size_t n)
{
	return xs_real.__write(fd, buf, n);
}

XS_DOOR ssize_t readv(int fd, const struct iovec *iov, int iovcnt)
{
	return xs_real.readv(fd, iov, iovcnt);
}

XS_DOOR ssize_t writev(int fd, const struct iovec *iov, int iovcnt)
{
	return xs_real.writev(fd, iov, iovcnt);
}

XS_DOOR ssize_t preadv2(int fd, const struct iovec *iov, int iovcnt, off_t at, int flags)
{
	return xs_real.preadv2(fd, iov, iovcnt, at, flags);
}

XS_DOOR ssize_t preadv64v2(int fd, const struct iovec *iov, int iovcnt, off64_t at, int flags)
{
	return xs_real.preadv64v2(fd, iov, iovcnt, at, flags);
}

XS_DOOR ssize_t pwritev2(int fd, const struct iovec *iov, int iovcnt, off_t at, int flags)
{
	return xs_real.pwritev2(fd, iov, iovcnt, at, flags);
}

XS_DOOR ssize_t pwritev64v2(int fd, const struct iovec *iov, int iovcnt, off64_t at, int flags)
{
	return xs_real.pwritev64v2(fd, iov, iovcnt, at, flags);
}

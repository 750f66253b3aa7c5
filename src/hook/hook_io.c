/* SPDX-License-Identifier: MIT */
/* Doors: bytes by descriptor. */
#include "hook/door.h"

#include <sys/uio.h>
#include <unistd.h>

XS_DOOR ssize_t read(int fd, void *buf, size_t n)
{
	XS_FAST_RX(fd, buf, n, 0);
	XS_RX(call, fd, 0);
	struct iovec iov;

	if (xs_call_kernel(&call))
		return xs_rx_done(&call, xs_real.read(fd, buf, n));
	iov = xs_one(buf, n);
	return xs_rx_plane(&call, &(struct msghdr){.msg_iov = &iov, .msg_iovlen = 1});
}

XS_ALIAS(read) ssize_t __read(int fd, void *buf, size_t n);

XS_DOOR ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
	XS_RX(call, fd, 0);
	struct iovec iov;

	if (n > room || xs_call_kernel(&call))
		return xs_rx_done(&call, xs_real.__read_chk(fd, buf, n, room));
	iov = xs_one(buf, n);
	return xs_rx_plane(&call, &(struct msghdr){.msg_iov = &iov, .msg_iovlen = 1});
}

XS_DOOR ssize_t write(int fd, const void *buf, size_t n)
{
	XS_FAST_TX(fd, buf, n, 0);
	XS_TX(call, fd, 0);
	struct iovec iov;

	if (xs_call_kernel(&call))
		return xs_tx_done(&call, xs_real.write(fd, buf, n));
	iov = xs_one(buf, n);
	return xs_tx_plane(&call, &(struct msghdr){.msg_iov = &iov, .msg_iovlen = 1});
}

XS_ALIAS(write) ssize_t __write(int fd, const void *buf, size_t n);

/* On the planes only: an odd vector is refused by the kernel without a look at the bytes. */
static ssize_t plane_readv(struct xs_call *call, const struct iovec *iov, int iovcnt)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov,
			     .msg_iovlen = (size_t)iovcnt};

	if (xs_iov_odd(iov, (size_t)iovcnt))
		return xs_real.readv(call->fd, iov, iovcnt);
	return xs_rx_plane(call, &msg);
}

static ssize_t plane_writev(struct xs_call *call, const struct iovec *iov, int iovcnt)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov,
			     .msg_iovlen = (size_t)iovcnt};

	if (xs_iov_odd(iov, (size_t)iovcnt))
		return xs_real.writev(call->fd, iov, iovcnt);
	if (!xs_iov_total(&msg))
		return 0; /* the kernel never gets as far as the socket */
	return xs_tx_plane(call, &msg);
}

XS_DOOR ssize_t readv(int fd, const struct iovec *iov, int iovcnt)
{
	XS_RX(call, fd, 0);

	if (xs_call_kernel(&call))
		return xs_rx_done(&call, xs_real.readv(fd, iov, iovcnt));
	return plane_readv(&call, iov, iovcnt);
}

XS_DOOR ssize_t writev(int fd, const struct iovec *iov, int iovcnt)
{
	XS_TX(call, fd, 0);

	if (xs_call_kernel(&call))
		return xs_tx_done(&call, xs_real.writev(fd, iov, iovcnt));
	return plane_writev(&call, iov, iovcnt);
}

/* Offset -1 is the stream; any other is ESPIPE on a socket, and the kernel says so itself. */
static int rwf_to_msg(int flags)
{
	return flags & RWF_NOWAIT ? MSG_DONTWAIT : 0;
}

static bool rwf_odd(int flags)
{
	return flags & ~(RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND);
}

XS_DOOR ssize_t preadv2(int fd, const struct iovec *iov, int iovcnt, off_t at, int flags)
{
	XS_RX(call, fd, rwf_to_msg(flags));

	if (at != -1 || rwf_odd(flags) || xs_call_kernel(&call))
		return xs_rx_done(&call, xs_real.preadv2(fd, iov, iovcnt, at, flags));
	return plane_readv(&call, iov, iovcnt);
}

XS_ALIAS(preadv2)
ssize_t preadv64v2(int fd, const struct iovec *iov, int iovcnt, off64_t at, int flags);

XS_DOOR ssize_t pwritev2(int fd, const struct iovec *iov, int iovcnt, off_t at, int flags)
{
	XS_TX(call, fd, rwf_to_msg(flags));

	if (at != -1 || rwf_odd(flags) || xs_call_kernel(&call))
		return xs_tx_done(&call, xs_real.pwritev2(fd, iov, iovcnt, at, flags));
	return plane_writev(&call, iov, iovcnt);
}

XS_ALIAS(pwritev2)
ssize_t pwritev64v2(int fd, const struct iovec *iov, int iovcnt, off64_t at, int flags);

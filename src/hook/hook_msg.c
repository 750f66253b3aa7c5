/* SPDX-License-Identifier: MIT */
/*
 * Doors: bytes by the send and receive families. The doors for many messages make one call
 * per message where the kernel doesn't serve the stream, so each may be served by another plane.
 */
#include "base/clock.h"
#include "hook/door.h"

#include <sys/socket.h>

XS_DOOR ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	XS_FAST_RX(fd, buf, n, flags);
	XS_RX(call, fd, flags);
	struct iovec iov;

	if (xs_call_kernel(&call))
		return xs_rx_done(&call, xs_real.recv(fd, buf, n, flags));
	iov = xs_one(buf, n);
	return xs_rx_plane(&call, &(struct msghdr){.msg_iov = &iov, .msg_iovlen = 1});
}

XS_ALIAS(recv) ssize_t __recv(int fd, void *buf, size_t n, int flags);

XS_DOOR ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags)
{
	XS_RX(call, fd, flags);
	struct iovec iov;

	if (n > room || xs_call_kernel(&call))
		return xs_rx_done(&call, xs_real.__recv_chk(fd, buf, n, room, flags));
	iov = xs_one(buf, n);
	return xs_rx_plane(&call, &(struct msghdr){.msg_iov = &iov, .msg_iovlen = 1});
}

/* TCP gives no name: the length becomes 0, as the kernel does. */
static ssize_t plane_recvfrom(struct xs_call *call, void *buf, size_t n, struct sockaddr *from,
			      socklen_t *len)
{
	struct iovec iov = xs_one(buf, n);
	ssize_t r = xs_rx_plane(call, &(struct msghdr){.msg_iov = &iov, .msg_iovlen = 1});

	if (r >= 0 && from && len)
		*len = 0;
	return r;
}

XS_DOOR ssize_t recvfrom(int fd, void *restrict buf, size_t n, int flags,
			 struct sockaddr *restrict from, socklen_t *restrict len)
{
	if (!from)
		XS_FAST_RX(fd, buf, n, flags);
	XS_RX(call, fd, flags);

	if (xs_call_kernel(&call))
		return xs_rx_done(&call, xs_real.recvfrom(fd, buf, n, flags, from, len));
	return plane_recvfrom(&call, buf, n, from, len);
}

XS_DOOR ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags,
			       struct sockaddr *from, socklen_t *len)
{
	XS_RX(call, fd, flags);

	if (n > room || xs_call_kernel(&call))
		return xs_rx_done(&call,
				  xs_real.__recvfrom_chk(fd, buf, n, room, flags, from, len));
	return plane_recvfrom(&call, buf, n, from, len);
}

static ssize_t one_recvmsg(int fd, struct msghdr *msg, int flags)
{
	XS_RX(call, fd, flags);

	if (xs_call_kernel(&call) || xs_nowhere(msg) || xs_iov_odd(msg->msg_iov, msg->msg_iovlen))
		return xs_rx_done(&call, xs_real.recvmsg(fd, msg, flags));
	return xs_rx_plane(&call, msg);
}

XS_DOOR ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	return one_recvmsg(fd, msg, flags);
}

/* The kernel looks at the time only when a message has come; *left is what remains. */
static bool time_is_up(struct timespec *left, uint64_t deadline)
{
	uint64_t now = xs_now_ns(), rest = deadline > now ? deadline - now : 0;

	if (!left)
		return false;
	left->tv_sec = (time_t)(rest / XS_NS_PER_S);
	left->tv_nsec = (long)(rest % XS_NS_PER_S);
	return rest == 0;
}

static uint64_t deadline_of(const struct timespec *timeout)
{
	if (!timeout)
		return 0;
	return xs_now_ns() + (uint64_t)timeout->tv_sec * XS_NS_PER_S + (uint64_t)timeout->tv_nsec;
}

static bool time_is_odd(const struct timespec *t)
{
	return t && (t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec >= (long)XS_NS_PER_S);
}

/* Bytes of the first r messages, or r itself where it's none or an error. */
static ssize_t bytes_of(const struct mmsghdr *msgs, int r)
{
	ssize_t total = r < 0 ? r : 0;

	for (int i = 0; i < r; i++)
		total += msgs[i].msg_len;
	return total;
}

/* The kernel's whole call. False: it doesn't serve the stream. */
static bool kernel_recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
			    struct timespec *timeout, int *r)
{
	XS_RX(call, fd, flags);

	if (!xs_call_kernel(&call) && !time_is_odd(timeout))
		return false;
	*r = xs_real.recvmmsg(fd, msgs, n, flags, timeout);
	xs_rx_done(&call, bytes_of(msgs, *r));
	return true;
}

XS_DOOR int recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		     struct timespec *timeout)
{
	uint64_t deadline;
	unsigned int i;
	ssize_t r = 0;
	int all;

	if (kernel_recvmmsg(fd, msgs, n, flags, timeout, &all))
		return all;
	deadline = deadline_of(timeout);
	for (i = 0; i < n && i < XS_IOV_MAX; i++) {
		r = one_recvmsg(fd, &msgs[i].msg_hdr, flags & ~MSG_WAITFORONE);
		if (r < 0)
			break;
		msgs[i].msg_len = (unsigned int)r;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (time_is_up(timeout, deadline) || msgs[i].msg_hdr.msg_flags & MSG_OOB)
			return (int)i + 1;
	}
	return i || r >= 0 ? (int)i : -1;
}

XS_DOOR ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	XS_FAST_TX(fd, buf, n, flags);
	XS_TX(call, fd, flags);
	struct iovec iov;

	if (xs_call_kernel(&call))
		return xs_tx_done(&call, xs_real.send(fd, buf, n, flags));
	iov = xs_one(buf, n);
	return xs_tx_plane(&call, &(struct msghdr){.msg_iov = &iov, .msg_iovlen = 1});
}

XS_ALIAS(send) ssize_t __send(int fd, const void *buf, size_t n, int flags);

/* A name on a connected stream is ignored, as the kernel does. */
XS_DOOR ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
		       socklen_t len)
{
	if (!to)
		XS_FAST_TX(fd, buf, n, flags);
	XS_TX(call, fd, flags);
	struct iovec iov;

	if (xs_call_kernel(&call))
		return xs_tx_done(&call, xs_real.sendto(fd, buf, n, flags, to, len));
	iov = xs_one(buf, n);
	return xs_tx_plane(&call, &(struct msghdr){.msg_iov = &iov, .msg_iovlen = 1});
}

static ssize_t one_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	XS_TX(call, fd, flags);

	if (!call.s && !xs_nowhere(msg) && msg->msg_controllen)
		xs_pin_rights(msg);
	if (xs_call_kernel(&call) || xs_nowhere(msg) || xs_iov_odd(msg->msg_iov, msg->msg_iovlen))
		return xs_tx_done(&call, xs_real.sendmsg(fd, msg, flags));
	return xs_tx_plane(&call, msg);
}

XS_DOOR ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return one_sendmsg(fd, msg, flags);
}

static bool kernel_sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags, int *r)
{
	XS_TX(call, fd, flags);

	if (!xs_call_kernel(&call))
		return false;
	*r = xs_real.sendmmsg(fd, msgs, n, flags);
	xs_tx_done(&call, bytes_of(msgs, *r));
	return true;
}

XS_DOOR int sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	unsigned int i;
	ssize_t r = 0;
	int all;

	if (!xs_fd_tracked(fd)) {
		for (i = 0; msgs && i < n && i < XS_IOV_MAX; i++)
			xs_pin_rights(&msgs[i].msg_hdr);
		return xs_real.sendmmsg(fd, msgs, n, flags);
	}
	if (kernel_sendmmsg(fd, msgs, n, flags, &all))
		return all;
	for (i = 0; i < n && i < XS_IOV_MAX; i++) {
		r = one_sendmsg(fd, &msgs[i].msg_hdr, flags);
		if (r < 0)
			break;
		msgs[i].msg_len = (unsigned int)r;
	}
	return i || r >= 0 ? (int)i : -1;
}

XS_ALIAS(sendmmsg) int __sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags);

/* SPDX-License-Identifier: MIT */
/*
 * What the doors have in common. A door that moves bytes opens a call on its descriptor:
 *
 *	XS_RX(call, fd, flags);
 *
 *	if (xs_call_kernel(&call))
 *		return xs_rx_done(&call, xs_real.recv(fd, buf, n, flags));
 *	return xs_rx_plane(&call, &msg);
 *
 * The call ends by itself when it leaves the scope. A call that isn't the kernel's must not
 * be given to libc, but to be refused.
 */
#ifndef XS_HOOK_DOOR_H
#define XS_HOOK_DOOR_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/real.h"
#include "base/unwind.h"
#include "sock/sock.h"

#define XS_DOOR __attribute__((visibility("default")))

/* A second name for a door of the same object. */
#define XS_ALIAS(name) XS_DOOR __attribute__((alias(#name)))

/* The kernel moves no more than this by one call. */
#define XS_RW_MAX ((size_t)0x7ffff000)
#define XS_IOV_MAX 1024

struct xs_call {
	struct xs_sock *s; /* NULL: not ours */
	int fd, flags;
	bool kernel; /* counted as inside a kernel-only call */
	struct xs_unwind unwind;
};

/* Most calls of a stream in shared memory end here. */
#define XS_FAST_RX(fd, buf, n, flags)                                   \
	do {                                                            \
		size_t fast_ = xs_fast_recv((fd), (buf), (n), (flags)); \
		if (fast_)                                              \
			return (ssize_t)fast_;                          \
	} while (0)
#define XS_FAST_TX(fd, buf, n, flags)                                   \
	do {                                                            \
		size_t fast_ = xs_fast_send((fd), (buf), (n), (flags)); \
		if (fast_)                                              \
			return (ssize_t)fast_;                          \
	} while (0)

#define XS_RX(call, fd, flags)                                     \
	struct xs_call call __attribute__((cleanup(xs_call_end))); \
	xs_rx_begin(&call, fd, flags)
#define XS_TX(call, fd, flags)                                     \
	struct xs_call call __attribute__((cleanup(xs_call_end))); \
	xs_tx_begin(&call, fd, flags)

/* The thread is being cancelled, or a handler jumps away: in libc's function, or in our sleep. */
static inline void xs_rx_undo(void *arg)
{
	struct xs_call *call = arg;

	if (call->kernel)
		xs_rx_leave(call->s, -1, call->flags);
	xs_sock_put(call->s);
}

static inline void xs_tx_undo(void *arg)
{
	struct xs_call *call = arg;

	if (call->kernel)
		xs_tx_leave(call->s, -1);
	xs_sock_put(call->s);
}

static inline void xs_rx_begin(struct xs_call *call, int fd, int flags)
{
	call->s = xs_sock_get(fd);
	call->fd = fd;
	call->flags = flags;
	call->kernel = false;
	if (!call->s)
		return;
	xs_unwind_push(&call->unwind, xs_rx_undo, call);
	call->kernel = xs_rx_enter(call->s, fd, flags);
}

static inline void xs_tx_begin(struct xs_call *call, int fd, int flags)
{
	call->s = xs_sock_get(fd);
	call->fd = fd;
	call->flags = flags;
	call->kernel = false;
	if (!call->s)
		return;
	xs_unwind_push(&call->unwind, xs_tx_undo, call);
	call->kernel = xs_tx_enter(call->s, fd, flags);
}

/* Does libc's function serve this call? */
static inline bool xs_call_kernel(const struct xs_call *call)
{
	return !call->s || call->kernel;
}

/* Libc's function has moved r bytes. */
static inline ssize_t xs_rx_done(struct xs_call *call, ssize_t r)
{
	if (!call->kernel)
		return r;
	call->kernel = false;
	return xs_rx_leave(call->s, r, call->flags);
}

static inline ssize_t xs_tx_done(struct xs_call *call, ssize_t r)
{
	if (!call->kernel)
		return r;
	call->kernel = false;
	return xs_tx_leave(call->s, r);
}

static inline ssize_t xs_rx_plane(struct xs_call *call, struct msghdr *msg)
{
	return xs_door(xs_rx_recv(call->s, call->fd, msg, call->flags));
}

static inline ssize_t xs_tx_plane(struct xs_call *call, const struct msghdr *msg)
{
	return xs_door(xs_tx_send(call->s, call->fd, msg, call->flags));
}

static inline void xs_call_end(struct xs_call *call)
{
	int saved = errno;

	if (!call->s)
		return;
	xs_unwind_pop(&call->unwind);
	xs_sock_put(call->s);
	errno = saved;
}

/* One buffer, cut as the kernel cuts it. */
static inline struct iovec xs_one(const void *buf, size_t n)
{
	return (struct iovec){.iov_base = (void *)(uintptr_t)buf,
			      .iov_len = n < XS_RW_MAX ? n : XS_RW_MAX};
}

/* Where no program has memory: the kernel's own call says EFAULT. */
static inline bool xs_nowhere(const void *p)
{
	return (uintptr_t)p < 4096;
}

/* Vectors that the kernel refuses before it looks at any byte: it says how. */
static inline bool xs_iov_odd(const struct iovec *iov, size_t n)
{
	size_t total = 0;

	if (n > XS_IOV_MAX || (n && xs_nowhere(iov)))
		return true;
	for (size_t i = 0; i < n; i++) {
		if (iov[i].iov_len > (size_t)PTRDIFF_MAX - total)
			return true;
		total += iov[i].iov_len;
	}
	return false;
}

/* A result that is a new descriptor. */
static inline int xs_fresh(int fd)
{
	if (fd >= 0)
		xs_fd_fresh(fd);
	return fd;
}

#endif

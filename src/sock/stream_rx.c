/* SPDX-License-Identifier: MIT */
/*
 * Reading a stream that the kernel doesn't serve alone.
 *
 * The next byte for the application, at offset C, lies in one of three places: in the copies that
 * the plane had placed before a return (C < rx.copies), in the twin (KERN and OPEN, up to X), or on
 * the plane (PLANE). One pass under the lock takes from them in turn until the buffer is full or
 * nothing is there; drops repeats below C out of the twin; and, in PLANE with nothing on the plane,
 * looks at what the twin says at X: a frame, plain bytes or FIN mean that S has returned. A read
 * that got less than it asked for therefore means "empty", which edge-triggered programs rely on.
 *
 * Blocking is outside the lock: pass, poll the plane, pass, spin, sleep until readable, and again.
 * The twin in PLANE costs a system call, so a call that may block leaves it to the sleep, which
 * watches it, and only one that must answer "empty" looks itself.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "base/real.h"
#include "engine/wait.h"
#include "sock/conn.h"
#include "sock/heirs.h"
#include "sock/sock.h"

#define PEEK_PIECES 16

struct pass {
	struct xs_sock *s;
	int fd;
	struct msghdr *msg;
	int flags;
	bool look;  /* at the twin in PLANE, before "empty" is said */
	bool tried; /* a spin's pass has got something: `r` */
	size_t want, done;
	ssize_t r;
};

bool xs_rx_enter(struct xs_sock *s, int fd, int flags)
{
	if (flags & MSG_OOB)
		xs_fd_pin(fd, XS_R_OOB);
	if (!(flags & MSG_ERRQUEUE) && xs_is_managed(s, XS_MANAGED_RX))
		return false; /* needn't count itself in to see that */
	atomic_fetch_add_explicit(&s->rx_kernel, 1, memory_order_seq_cst);
	if (flags & MSG_ERRQUEUE) /* never sleeps; the twin's error queue is the only one */
		return true;
	if (!(atomic_load_explicit(&s->managed, memory_order_seq_cst) & XS_MANAGED_RX) &&
	    !s->foreign)
		return true;
	atomic_fetch_sub_explicit(&s->rx_kernel, 1, memory_order_seq_cst);
	xs_ready_nudge(s);
	return false;
}

ssize_t xs_rx_leave(struct xs_sock *s, ssize_t r, int flags)
{
	int saved = errno;

	if (r > 0 && !(flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE)))
		xs_rx_left_twin(s, (size_t)r, (size_t)r);
	atomic_fetch_sub_explicit(&s->rx_kernel, 1, memory_order_seq_cst);
	xs_ready_nudge(s);
	if (r > 0 && atomic_load_explicit(&s->watching, memory_order_relaxed))
		xs_policy_look(s, false);
	errno = saved;
	return r;
}

/* --- sources, each under the lock ---------- */

static void copy_out(const struct pass *p, size_t skip, const struct iovec *from, int pieces,
		     size_t n)
{
	const struct iovec *only = p->msg->msg_iov;
	size_t at = 0;

	if (p->flags & MSG_TRUNC)
		return; /* TCP: take the bytes, don't store them */
	if (pieces == 1 && p->msg->msg_iovlen == 1) {
		memcpy((char *)only->iov_base + skip, from->iov_base, n);
		return;
	}
	for (int i = 0; i < pieces && at < n; i++) {
		size_t len = from[i].iov_len < n - at ? from[i].iov_len : n - at;
		const char *src = from[i].iov_base;

		for (size_t put = 0; put < len;) {
			struct iovec to[16];
			size_t some;
			int k = xs_iov_slice(p->msg, skip + at + put, len - put, to, 16, &some);

			for (int j = 0; j < k; j++) {
				memcpy(to[j].iov_base, src + put, to[j].iov_len);
				put += to[j].iov_len;
			}
			if (!some)
				return;
		}
		at += len;
	}
}

/* What the channel has at C, up to `limit`. */
static size_t take_plane(struct pass *p, uint64_t limit)
{
	struct xs_sock *s = p->s;
	const struct xs_chan_ops *ops = xs_chan_ops(s->chan);
	size_t total = 0;

	while (p->done + total < p->want && total < limit) {
		size_t room = p->want - p->done - total, len;
		struct iovec iov[PEEK_PIECES];
		int pieces =
			ops->rx_peek(s->chan, iov, p->flags & MSG_PEEK ? PEEK_PIECES : 1, &len);

		if (len > room)
			len = room;
		if (len > limit - total)
			len = limit - total;
		if (!len)
			break;
		copy_out(p, p->done + total, iov, pieces, len);
		total += len;
		if (p->flags & MSG_PEEK)
			break; /* one look: so many pieces hold more than any peek needs */
		ops->rx_advance(s->chan, len);
		xs_r_consumed(&s->rx, len);
		if (s->row)
			xs_stats_count(&s->row->rx.bytes[ops->plane], len);
	}
	p->done += total;
	return total;
}

/* The twin up to X. Bytes, 0 (FIN), -EAGAIN, an error. */
static ssize_t take_twin(struct pass *p)
{
	struct xs_sock *s = p->s;
	uint64_t limit = xs_r_twin_limit(&s->rx);
	struct iovec iov[64];
	struct msghdr mh = {.msg_iov = iov};
	size_t len;
	ssize_t r;

	if (!limit)
		return -EAGAIN;
	if (limit > p->want - p->done)
		limit = p->want - p->done;
	mh.msg_iovlen = (size_t)xs_iov_slice(p->msg, p->done, limit, iov, 64, &len);
	if (!p->done && !s->inq) { /* what is left is told at the end, for the whole stream */
		mh.msg_control = p->msg->msg_control;
		mh.msg_controllen = p->msg->msg_controllen;
	}
	r = xs_real.recvmsg(p->fd, &mh, (p->flags & (MSG_PEEK | MSG_TRUNC)) | MSG_DONTWAIT);
	if (r < 0)
		return xs_rx_hard(s, errno) ? -EAGAIN : -errno;
	if (!p->done && !s->inq)
		p->msg->msg_controllen = mh.msg_controllen;
	p->done += (size_t)r;
	if (r > 0 && !(p->flags & MSG_PEEK)) {
		xs_rx_left_twin(s, (size_t)r, (size_t)r);
		xs_r_twin_took(&s->rx, (uint64_t)r);
		xs_r_consumed(&s->rx, (uint64_t)r);
	}
	return r;
}

size_t xs_rx_held(struct xs_sock *s)
{
	if (!s->chan || (s->rx.state != XS_R_PLANE && s->rx.c >= s->rx.copies))
		return 0;
	return xs_chan_ops(s->chan)->rx_avail(s->chan);
}

void xs_rx_ack(struct xs_sock *s, bool now)
{
	const struct xs_chan_ops *ops;
	uint64_t ack = s->rx.c + (s->eof ? 1 : 0);
	struct xs_msg m = {.kind = XS_K_ACK, .epoch = s->rx.epoch, .offset = ack};

	if (!s->chan || s->rx.state != XS_R_PLANE || ack == s->ack_said)
		return;
	if (s->want_ack && ack >= s->want_ack) {
		s->want_ack = ack < s->want_most ? s->want_most : 0;
		now = true;
	}
	ops = xs_chan_ops(s->chan);
	if (ops->rx_ack(s->chan, s->rx.epoch, ack) >= ack) { /* went along with our own bytes */
		s->ack_said = ack;
		return;
	}
	if (now || s->eof || ack - s->ack_said >= xs_conf.window_max / 8) {
		s->ack_said = ack;
		ops->send(s->chan, &m);
	} else {
		xs_rest_soon(s);
	}
}

/* --- a pass ---------- */

static ssize_t ended(struct pass *p)
{
	struct xs_sock *s = p->s;
	int e = s->error;

	if (!e)
		return -EAGAIN;
	if (p->done)
		return 0; /* the bytes first; the error is the next call's */
	s->error = 0;	  /* told once, then end-of-file, as sk_err */
	s->eof = true;
	return -e;
}

static ssize_t twin_fin(struct pass *p)
{
	struct xs_sock *s = p->s;

	switch (xs_r_twin_fin(&s->rx)) {
	case XS_FIN_EOF:
		return 0;
	case XS_FIN_RESET:
		xs_conn_reset(s, XS_R_FLUSH_UNKNOWN);
		return ended(p);
	default:
		return -EAGAIN;
	}
}

/* One source. > 0 bytes, 0 end of file, or what stands in the way. */
static ssize_t take(struct pass *p)
{
	struct xs_sock *s = p->s;
	ssize_t r;

	if (s->gone)
		return 0;
	if (s->rx.state == XS_R_PLANE) {
		r = (ssize_t)take_plane(p, UINT64_MAX);
		if (r)
			return r;
		if (s->eof)
			return 0;
		if (xs_r_at_fin(&s->rx)) {
			s->eof = true;
			return 0;
		}
		if (s->error)
			return ended(p);
		if (p->done)
			return -EAGAIN; /* the twin is asked only by a read that has got nothing */
		if (p->look && xs_rx_look(s))
			return s->error ? ended(p) : take(p);
		return s->rd_shut ? 0 : -EAGAIN;
	}
	if (s->chan && s->rx.c < s->rx.copies) {
		r = (ssize_t)take_plane(p, s->rx.copies - s->rx.c);
		if (r)
			return r;
	}
	r = xs_rx_drop(s, p->fd);
	if (r == 1)
		r = take_twin(p);
	if (r == -EAGAIN && s->error)
		return ended(p);
	if (r == 0)
		r = twin_fin(p); /* never in doubt before the first READY */
	return r == -EAGAIN && (s->rd_shut || s->eof || xs_r_at_final(&s->rx, 0)) ? 0 : r;
}

static ssize_t pass(struct pass *p)
{
	ssize_t r;

	if (p->s->rx.frozen)
		return -EAGAIN;
	do {
		r = take(p);
		if (r > 0 && xs_r_may_switch(&p->s->rx))
			xs_drive(p->s); /* and on from the plane */
	} while (r > 0 && p->done < p->want && !(p->flags & MSG_PEEK));
	if (r > 0 || p->done)
		xs_rx_ack(p->s, false);
	return r;
}

static bool enough(const struct pass *p)
{
	int lowat = 1;
	socklen_t len = sizeof(lowat);

	if (p->done == p->want)
		return true;
	if (!p->done || p->flags & MSG_WAITALL)
		return false;
	if (p->s->lowat)
		xs_real.getsockopt(p->fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, &len);
	return p->done >= (size_t)lowat;
}

static ssize_t locked_pass(struct pass *p)
{
	ssize_t r;

	xs_conn_enter(p->s);
	r = pass(p);
	if (r > 0)
		xs_fast_grant_rx(p->s);
	if (p->look || p->s->eof || p->s->error)
		xs_conn_leave(p->s);
	else
		xs_conn_leave_quiet(p->s);
	return r;
}

/* A spin asks whether it's over by taking what has come. */
static bool spun(void *arg)
{
	struct pass *p = arg;
	size_t before = p->done;

	p->r = locked_pass(p);
	p->tried = p->r != -EAGAIN || p->done != before;
	return p->tried;
}

static ssize_t attempt(struct pass *p)
{
	ssize_t r;

	if (p->tried) {
		p->tried = false;
		return p->r;
	}
	if (p->flags & MSG_PEEK)
		p->done = 0; /* from the start again */
	r = locked_pass(p);
	if (r == -EAGAIN && !p->done && !p->look && xs_poll_once())
		r = locked_pass(p);
	return r;
}

static ssize_t receive(struct pass *p)
{
	const bool peek = p->flags & MSG_PEEK;
	struct xs_block b = {.want = POLLIN, .done = spun, .arg = p};
	ssize_t r;

	for (;;) {
		r = attempt(p);
		if (r == 0 || enough(p) || (r < 0 && r != -EAGAIN) || p->look)
			break;
		r = xs_may_block(p->s, p->fd, p->flags, &b, !(peek && p->done));
		if (r == -EAGAIN && p->done)
			break;
		p->look = r == -EAGAIN;
		if (r)
			continue;
		if (peek && p->done) {
			if (xs_ready(p->s, POLLRDHUP))
				break;
			xs_real.poll(NULL, 0, 1); /* readable already: look again in a while */
		}
		r = xs_conn_wait(p->s, p->fd, POLLIN, b.deadline, !b.timed, 0);
		p->look = r == -EAGAIN; /* no time is left: a spin may have eaten all of it */
		if (r < 0 && !p->look)
			break;
	}
	return p->done ? (ssize_t)p->done : r;
}

ssize_t xs_rx_recv(struct xs_sock *s, int fd, struct msghdr *msg, int flags)
{
	struct pass p = {.s = s, .fd = fd, .msg = msg, .flags = flags};
	size_t control = msg->msg_controllen;
	struct xs_crit cs;
	ssize_t r;

	if (s->foreign)
		return xs_heirs_recv(s, fd, msg, flags);
	if (!(flags & MSG_TRUNC) && xs_iov_bad(msg))
		return -EFAULT;
	p.want = xs_iov_total(msg);
	if (!p.want)
		return 0;
	xs_crit_enter(&cs);
	r = receive(&p);
	xs_crit_leave(&cs);
	if (r >= 0) { /* outputs are the kernel's on success only */
		msg->msg_namelen = 0;
		msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
		if (msg->msg_controllen == control)
			msg->msg_controllen = 0;
		if (s->inq)
			xs_inq_put(s, msg, control);
	}
	if (atomic_load_explicit(&s->watching, memory_order_relaxed) && r > 0)
		xs_policy_look(s, false);
	return r;
}

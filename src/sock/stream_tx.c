/* SPDX-License-Identifier: MIT */
/*
 * Writing a stream that the kernel doesn't serve alone.
 *
 * KERN, PREP: the twin. READY: a write may take X and go out as FIRST, unless another thread is
 * inside a kernel send; what TCP_CORK or MSG_MORE holds back in the twin is let go (lend.c). PLANE,
 * SWD: the plane, within the window. RET: kept bytes go to the twin first; what the program writes
 * meanwhile waits (or would block).
 *
 * A writer that has found the window full and nothing consumed for 20 ms returns to TCP: the kernel
 * absorbs megabytes that a window doesn't, and programs rely on it.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>

#include "base/log.h"
#include "base/real.h"
#include "engine/wait.h"
#include "sock/conn.h"
#include "sock/heirs.h"
#include "sock/sock.h"

#define LAZY_MS 100
#define SLICE (64u << 10) /* of a large write under one hold of the lock */

struct out {
	struct xs_sock *s;
	int fd;
	const struct msghdr *msg;
	int flags;
	size_t want, done;
};

bool xs_tx_enter(struct xs_sock *s, int fd, int flags)
{
	if (flags & MSG_OOB)
		xs_fd_pin(fd, XS_R_OOB);
	else if (flags & MSG_ZEROCOPY)
		xs_fd_pin(fd, XS_R_ZEROCOPY);
	if (xs_is_managed(s, XS_MANAGED_TX))
		return false; /* needn't count itself in to see that */
	atomic_fetch_add_explicit(&s->tx_kernel, 1, memory_order_seq_cst);
	if (!(atomic_load_explicit(&s->managed, memory_order_seq_cst) & XS_MANAGED_TX) &&
	    !s->foreign)
		return true;
	atomic_fetch_sub_explicit(&s->tx_kernel, 1, memory_order_seq_cst);
	return false;
}

/* The twin has taken n bytes; `data` of them are the program's, the rest is a frame's. */
static void into_twin(struct xs_sock *s, size_t n, size_t data)
{
	atomic_fetch_add_explicit(&s->tx_twin, n, memory_order_relaxed);
	if (s->row)
		atomic_fetch_add_explicit(&s->row->tx.bytes[XSHIM_KERNEL], data,
					  memory_order_relaxed);
}

ssize_t xs_tx_leave(struct xs_sock *s, ssize_t r)
{
	int saved = errno;

	if (r > 0) {
		into_twin(s, (size_t)r, (size_t)r);
	} else {
		xs_room_unknown(s);
	}
	atomic_fetch_sub_explicit(&s->tx_kernel, 1, memory_order_seq_cst);
	if (r > 0 && atomic_load_explicit(&s->watching, memory_order_relaxed))
		xs_policy_look(s, true);
	errno = saved;
	return r;
}

/* --- the twin ---------- */

static ssize_t put_twin(struct out *o)
{
	struct xs_sock *s = o->s;
	struct iovec iov[64];
	struct msghdr mh = {.msg_iov = iov};
	size_t len;
	ssize_t r;

	mh.msg_iovlen = (size_t)xs_iov_slice(o->msg, o->done, o->want - o->done, iov, 64, &len);
	if (!o->done) {
		mh.msg_control = o->msg->msg_control;
		mh.msg_controllen = o->msg->msg_controllen;
	}
	r = xs_real.sendmsg(o->fd, &mh, o->flags | MSG_DONTWAIT | MSG_NOSIGNAL);
	if (r < 0) {
		xs_room_unknown(s);
		return -errno;
	}
	into_twin(s, (size_t)r, (size_t)r);
	o->done += (size_t)r;
	return r;
}

/* --- FIRST ---------- */

/* May this write take X? The kernel's count decides, and has to be our own count: else there is a
 * writer that we don't see. */
static bool may_first(struct xs_sock *s, uint64_t *x)
{
	uint64_t written, acked, own = atomic_load(&s->tx_twin);
	enum xs_reason why;

	if (atomic_load_explicit(&s->tx_kernel, memory_order_seq_cst) || s->wr_shut || s->pin)
		return false;
	why = xs_twin_written(s->fd, s->role == XS_ROLE_CONNECTED, &written, &acked);
	if (!why && written != own)
		why = XS_R_UNSEEN_WRITER;
	*x = (uint64_t)((int64_t)written - s->tx.base);
	if (!why && s->ready_acks > *x)
		why = XS_R_PROOF;
	if (!why)
		return true;
	if (why != XS_R_RETRY)
		xs_return_tx(s, why);
	return false;
}

static ssize_t put_plane(struct out *o, unsigned flags)
{
	struct xs_sock *s = o->s;
	const struct xs_chan_ops *ops = xs_chan_ops(s->chan);
	size_t len, left = o->want - o->done;
	struct iovec iov[32];
	int k = xs_iov_slice(o->msg, o->done, left < SLICE ? left : SLICE, iov, 32, &len);
	ssize_t r = ops->tx_put(s->chan, iov, k, 0, flags);

	if (r <= 0)
		return r == 0 || r == -ENOTCONN ? -EAGAIN : r; /* dead: the return is on its way */
	xs_s_took(&s->tx, (uint64_t)r);
	if (s->row)
		xs_stats_count(&s->row->tx.bytes[ops->plane], (uint64_t)r);
	o->done += (size_t)r;
	return r;
}

static ssize_t put_first(struct out *o)
{
	struct xs_sock *s = o->s;
	const struct xs_chan_ops *ops = xs_chan_ops(s->chan);
	uint64_t x;
	ssize_t r;

	if (!may_first(s, &x))
		return put_twin(o);
	ops->tx_open(s->chan, s->tx.epoch, x);
	xs_s_first(&s->tx, x);
	xs_lend(s);
	XS_LOG(INFO, "fd=%d tx kernel->plane at %llu epoch %u", s->fd, (unsigned long long)x,
	       s->tx.epoch);
	s->tx_why = XS_R_NONE;
	if (s->row)
		atomic_fetch_add_explicit(&s->row->tx.upgrades, 1, memory_order_relaxed);
	r = put_plane(o, XS_F_FIRST);
	xs_wake(s, XS_WHAT_MOVED);
	return r;
}

/* --- a pass ---------- */

static ssize_t failed(struct xs_sock *s, bool first)
{
	int e = s->error;

	if (s->exiting && !s->wr_shut)
		return -EAGAIN;
	if (e && first && !s->gone) { /* a pending error comes before EPIPE */
		s->error = 0;
		s->eof = true;
		return -e;
	}
	/* What was taken is returned; an error is the next call's. */
	return s->gone || s->wr_shut || s->peer_rst || e ? -EPIPE : 0;
}

static ssize_t put(struct out *o)
{
	struct xs_sock *s = o->s;
	ssize_t r = failed(s, !o->done);

	if (r)
		return r;
	if (s->tx.state == XS_S_RET) {
		s->writing = true;
		r = xs_tx_flush(s) ? failed(s, !o->done) : -EAGAIN; /* it may have met an error */
		s->writing = false;
	}
	if (r)
		return r;
	switch (s->tx.state) {
	case XS_S_READY:
		r = put_first(o);
		break;
	case XS_S_PLANE:
	case XS_S_SWD:
		r = put_plane(o, s->tx.state == XS_S_SWD ? XS_F_CONFIRMED : 0);
		break;
	default:
		return put_twin(o);
	}
	if (r != -ENOMEM)
		return r;
	xs_return_tx(s, XS_R_NO_MEMORY); /* the kernel may find room where we don't */
	return put(o);
}

static ssize_t locked_pass(struct out *o)
{
	ssize_t r;

	xs_conn_enter(o->s);
	do {
		r = put(o);
	} while (r > 0 && o->done < o->want && (o->flags & MSG_DONTWAIT || o->done % (4 * SLICE)));
	if (r == -EAGAIN && (xs_s_on_plane(&o->s->tx) || o->s->tx.state == XS_S_RET))
		o->s->nospace = true; /* else the kernel tells */
	if (r > 0) {
		xs_fast_grant_tx(o->s);
		xs_conn_leave_quiet(o->s);
	} else
		xs_conn_leave(o->s);
	return r;
}

/* The window is full: since when has nothing been consumed? Returns the stream when it's too long.
 */
static bool stalled(struct xs_sock *s)
{
	uint64_t now = xs_now_ns();
	bool yes;

	xs_conn_enter(s);
	if (!xs_s_on_plane(&s->tx) || s->stall_acked != s->tx.acked || !s->stall_since) {
		s->stall_since = now;
		s->stall_acked = s->tx.acked;
	}
	yes = xs_s_on_plane(&s->tx) && now - s->stall_since >= XS_STALL_MS * XS_NS_PER_MS;
	if (yes)
		xs_return_tx(s, XS_R_STALLED);
	else if (xs_s_on_plane(&s->tx))
		xs_drive_in(s, XS_STALL_MS + 1); /* for a writer that doesn't block */
	xs_conn_leave(s);
	return yes;
}

static ssize_t transmit(struct out *o)
{
	struct xs_block b = {.want = POLLOUT};
	ssize_t r;

	for (;;) {
		r = locked_pass(o);
		if (r == -EAGAIN && xs_poll_once())
			r = locked_pass(o);
		if (o->done == o->want || (r < 0 && r != -EAGAIN))
			break;
		if (r > 0 || stalled(o->s))
			continue;
		r = xs_may_block(o->s, o->fd, o->flags, &b, true);
		if (r < 0)
			break;
		if (r)
			continue;
		r = xs_conn_wait(o->s, o->fd, POLLOUT, b.deadline, !b.timed, XS_STALL_MS);
		if (r < 0)
			break;
	}
	return o->done ? (ssize_t)o->done : r;
}

ssize_t xs_tx_send(struct xs_sock *s, int fd, const struct msghdr *msg, int flags)
{
	struct out o = {.s = s, .fd = fd, .msg = msg, .flags = flags};
	struct xs_crit cs;
	ssize_t r;

	if (s->foreign)
		return xs_heirs_send(s, fd, msg, flags);
	if (xs_iov_bad(msg))
		return -EFAULT;
	o.want = xs_iov_total(msg);
	xs_crit_enter(&cs);
	if (o.want) {
		r = transmit(&o);
	} else {
		xs_conn_enter(s);
		r = failed(s, true);
		xs_conn_leave(s);
	}
	xs_crit_leave(&cs);
	if (r == -EPIPE && !(flags & MSG_NOSIGNAL))
		raise(SIGPIPE);
	if (r > 0 && atomic_load_explicit(&s->watching, memory_order_relaxed))
		xs_policy_look(s, true);
	return r;
}

/* sendfile to a stream: the file's pages are read into a buffer and written. */
ssize_t xs_tx_sendfile(struct xs_sock *s, int fd, int in, off_t *off, size_t count)
{
	char buf[16384];
	size_t done = 0;
	ssize_t got, put_;

	while (done < count) {
		size_t n = count - done < sizeof(buf) ? count - done : sizeof(buf);
		struct iovec iov = {.iov_base = buf};
		struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};

		got = off ? pread(in, buf, n, *off) : xs_real.read(in, buf, n);
		if (got <= 0)
			return done ? (ssize_t)done : got < 0 ? -errno : 0;
		iov.iov_len = (size_t)got;
		put_ = xs_tx_send(s, fd, &mh, 0);
		if (put_ < got && !off)
			lseek(in, (put_ < 0 ? 0 : put_) - got, SEEK_CUR);
		if (put_ <= 0)
			return done ? (ssize_t)done : put_;
		if (off)
			*off += put_;
		done += (size_t)put_;
		if (put_ < got)
			break;
	}
	return (ssize_t)done;
}

/* --- the return ---------- */

size_t xs_tx_frame(struct xs_sock *s, struct xs_return_frame *f, struct iovec *iov)
{
	size_t left = s->tx.frame_left;

	if (!left)
		return 0;
	memcpy(f->secret, s->secret, sizeof(f->secret));
	f->sequence = s->tx.frames;
	f->epoch = s->tx.epoch;
	f->kept = (uint32_t)(s->tx.end - s->tx.a);
	f->a = s->tx.a;
	iov->iov_base = (char *)f + sizeof(*f) - left;
	iov->iov_len = left;
	return 1;
}

/*
 * A frame with nothing behind it, after the link's death, isn't urgent, and a peer that has just
 * ended would answer it by RST, where its FIN was clean: it waits for the program's next write or
 * close, or for the time in which such a peer's FIN would have come.
 */
static bool lazy(struct xs_sock *s)
{
	s->lazy_frame = !s->tx.linked && s->tx.frame_left == XS_FRAME_SIZE &&
			s->tx.flush >= s->tx.end && !s->writing && !s->wr_shut && !s->exiting &&
			!s->tx.giving &&
			(xs_now_ns() - s->ret_since < LAZY_MS * XS_NS_PER_MS ||
			 xs_twin_state(s->fd) == TCP_CLOSE_WAIT);
	return s->lazy_frame;
}

bool xs_tx_flush(struct xs_sock *s)
{
	struct xs_return_frame f;
	struct iovec iov[3];
	struct msghdr mh = {.msg_iov = iov};
	ssize_t r;

	if (s->tx.state != XS_S_RET)
		return true;
	if (!xs_conn_fresh(s))
		return false; /* the descriptor was closed behind our back: nothing is ours to write
				 to */
	if (lazy(s))
		return false;
	while (s->tx.state == XS_S_RET) {
		uint32_t frame = s->tx.frame_left;

		mh.msg_iovlen = xs_tx_frame(s, &f, iov);
		mh.msg_iovlen +=
			xs_chan_ops(s->chan)->tx_kept(s->chan, s->tx.flush, iov + mh.msg_iovlen);
		r = xs_real.sendmsg(s->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (r < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS))
			return false;
		if (r < 0) { /* the twin is gone: so are the bytes, as with TCP */
			int e = errno;

			if (!s->peer_rst) {
				xs_conn_reset(s, XS_R_TWIN_DEAD);
				s->error = xs_rx_error(s, e);
			}
			r = (ssize_t)(s->tx.end - s->tx.flush + s->tx.frame_left);
		}
		into_twin(s, (size_t)r, (size_t)r > frame ? (size_t)r - frame : 0);
		xs_s_flushed_bytes(&s->tx, (uint64_t)r);
	}
	XS_LOG(INFO, "fd=%d tx plane->kernel all in, epoch %u: %s", s->fd, s->tx.epoch,
	       xs_reason_name(s->tx_why));
	xs_chan_ops(s->chan)->tx_close(s->chan);
	s->stall_since = 0;
	xs_unmanage_tx(s);
	xs_tx_moved(s);
	return true;
}

/* As the kernel: a third is free. */
bool xs_tx_writable(struct xs_sock *s)
{
	size_t room = xs_chan_ops(s->chan)->tx_room(s->chan);
	uint64_t kept = s->tx.end > s->tx.acked ? s->tx.end - s->tx.acked : 0;

	return room && room >= kept / 2;
}

/* SPDX-License-Identifier: MIT */
/*
 * Ends (design 2.4): shutdown, close, and what goes on after the program has closed.
 *
 * A close that the plane still has business with leaves an orphan: the program's descriptor goes, a
 * private duplicate of the twin stays until our FIN is consumed (or kept bytes are in the twin),
 * FLUSHED is told, the twin has our FIN, and the peer's own FIN has come in band, so that the
 * peer's clean close after ours isn't answered by RST. Data for an orphan is answered by RST, as
 * TCP would. One that an heir may hold too is `leaving`: it only returns.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>

#include "base/config.h"
#include "base/highfd.h"
#include "base/log.h"
#include "base/real.h"
#include "engine/wait.h"
#include "sock/heirs.h"
#include "sock/pairing.h"
#include "sock/sock.h"

#define ORPHAN_MS 20
#define LEAVING_MS 2
#define FIN_WAIT2_MS 60000 /* tcp_fin_timeout's default */

static bool plain(const struct xs_sock *s)
{
	if (!s->chan || (!s->tx.epoch && !s->rx.epoch && !s->rx.prepared))
		return true;
	/* ... or all has been returned and told, and nothing foreign is left in the twin. */
	return (s->tx.state == XS_S_KERN || s->tx.state == XS_S_DONE) && xs_s_told(&s->tx) &&
	       s->rx.state == XS_R_KERN && s->rx.t == s->rx.c && s->rx.c >= s->rx.copies &&
	       !xs_r_in_doubt(&s->rx);
}

int xs_sock_shutdown(struct xs_sock *s, int fd, int how)
{
	struct xs_crit cs;
	int r = 0;

	if (s->foreign)
		xs_fd_pin(fd, XS_R_FORKED);
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (how < SHUT_RD || how > SHUT_RDWR) {
		r = -EINVAL;
	} else if (s->peer_rst) {
		r = -ENOTCONN;
	} else if (plain(s)) {
		r = xs_real.shutdown(fd, how) < 0 ? -errno : 0;
		if (!r && how != SHUT_RD)
			s->wr_shut = s->fin_on_twin = true;
	} else {
		if (how != SHUT_WR) {
			s->rd_shut =
				true; /* nothing goes over the wire; the twin's follows (drive.c) */
		}
		if (how != SHUT_RD) {
			s->wr_shut = true;
			xs_manage(s, XS_MANAGED_TX, true); /* the twin's FIN may have to wait */
		}
	}
	if (!r)
		xs_wake(s, POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	return r;
}

/* All is over: the private duplicate closes. Locked. */
static void bury(struct xs_sock *s, const char *end)
{
	bool ours = xs_conn_fresh(s); /* else the number is somebody else's by now */
	int fd = s->fd;

	xs_heirs_release(s); /* it looks at the twin */
	s->fd = -1;
	s->orphan = s->leaving = false;
	xs_conn_finish(s, end);
	xs_drive_soon(s); /* to report: the caller may hold other locks */
	xs_highfd_gone(fd);
	if (ours)
		xs_real.close(fd);
	xs_obj_put(&s->obj); /* the orphan's reference: the caller has one of its own */
}

/*
 * Nothing more may come that the kernel couldn't answer by itself, once it has the twin alone: data
 * by RST, a FIN by an ACK.
 */
static bool input_over(struct xs_sock *s)
{
	switch (s->rx.state) {
	case XS_R_PLANE:
		/* S's FIN on the twin shows that it knows that we have its end. Before, it may
		 * still return, if the link dies: its frame would be answered by RST, and what our
		 * kernel hasn't sent yet would be lost. */
		return s->eof && xs_twin_ended(s->fd);
	case XS_R_OPEN: /* S may still use READY: it's asked not to */
		xs_return_rx(s, XS_R_POLICY);
		return false;
	default: /* repeats are still to be read out: else the kernel turns the end into RST */
		return s->rx.t >= s->rx.c;
	}
}

/* Our part is done: the twin has our FIN behind all bytes. */
static bool output_over(const struct xs_sock *s)
{
	return s->fin_on_twin && s->tx.state != XS_S_RET && !s->lingers;
}

/* The peer's part: its FIN, its RST, bytes for a program that has closed. */
static void look_in(struct xs_sock *s)
{
	if (s->peer_rst)
		return;
	xs_rx_look(s);
	if (xs_r_at_fin(&s->rx) && !s->eof) {
		s->eof = true;
		xs_rx_ack(s, true);
	}
	if (xs_r_on_twin(&s->rx) && s->rx.t >= s->rx.c && xs_twin_unread(s->fd))
		xs_conn_abort(s);
}

/* Never a FIN of ours: the heirs' kernel has it once all is back. */
static void leaving_look(struct xs_sock *s)
{
	if (!s->peer_rst && !xs_returned(s, true)) {
		if (xs_now_ns() - s->orphan_since < xs_conf.return_ms * XS_NS_PER_MS) {
			xs_drive_in(s, LEAVING_MS);
			return;
		}
		xs_conn_reset(s, XS_R_RETURN_TIMEOUT);
	}
	s->rx.frozen = false;
	bury(s, s->peer_rst ? "reset" : "closed");
}

void xs_orphan_look(struct xs_sock *s)
{
	bool over;

	if (!xs_conn_fresh(s)) {
		xs_conn_abort(s);
		bury(s, "reset");
		return;
	}
	if (s->leaving) {
		leaving_look(s);
		return;
	}
	look_in(s);
	if (s->ringed && s->rx.state == XS_R_PLANE && xs_rx_held(s))
		xs_conn_abort(s);		  /* came while it was closed */
	over = xs_twin_state(s->fd) == TCP_CLOSE; /* by RST, or because both FINs are through */
	if (s->peer_rst || (over && !output_over(s))) {
		s->peer_rst = true;
		bury(s, "reset");
		return;
	}
	if (output_over(s)) {
		if (!s->orphan_since)
			s->orphan_since = xs_now_ns();
		if (over || input_over(s) ||
		    xs_now_ns() - s->orphan_since >= FIN_WAIT2_MS * XS_NS_PER_MS) {
			bury(s, "closed");
			return;
		}
	}
	xs_drive_in(s, ORPHAN_MS);
}

/* The kernel would answer this close by RST: bytes that nobody has read, or linger 0. */
static bool wants_reset(struct xs_sock *s)
{
	struct linger l = {0};
	socklen_t len = sizeof(l);

	if (s->rx.state == XS_R_OPEN && s->rx.x_known && !(s->rx.fin_known && s->rx.fin == s->rx.x))
		return true; /* what lies behind X is on its way at least */
	if (xs_rx_readable(s))
		return true;
	return xs_real.getsockopt(s->fd, SOL_SOCKET, SO_LINGER, &l, &len) == 0 && l.l_onoff &&
	       !l.l_linger;
}

/* SO_LINGER with a time: close waits for the bytes, O_NONBLOCK or not. */
static uint64_t linger_until(int fd)
{
	struct linger l = {0};
	socklen_t len = sizeof(l);

	if (xs_real.getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len) < 0 || !l.l_onoff)
		return 0;
	return xs_now_ns() + (uint64_t)l.l_linger * XS_NS_PER_S;
}

/* The peer's kernel has all, or we'll never know. What the peer's program doesn't read is soon
 * given to the kernels, which take it from us and let us go. */
static bool lingered(struct xs_sock *s)
{
	int state;

	if (s->fd < 0 || s->gone || s->peer_rst)
		return true;
	if (!s->fin_on_twin) {
		if (xs_now_ns() - s->lingers >= XS_STALL_MS * XS_NS_PER_MS)
			xs_return_tx(s, XS_R_STALLED);
		return false;
	}
	state = xs_twin_state(s->fd);
	return state != TCP_FIN_WAIT1 && state != TCP_CLOSING && state != TCP_LAST_ACK;
}

static void linger(struct xs_sock *s, uint64_t until)
{
	struct xs_crit cs;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	xs_conn_await(s, lingered, until, true);
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	s->lingers = 0;
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	pthread_setcancelstate(cancel, NULL);
}

/* Another descriptor is s's name now, as statistics show it; -1: none. */
static void renumber(struct xs_sock *s, int fd)
{
	s->fd = fd;
	if (s->row)
		atomic_store_explicit(&s->row->fd, fd, memory_order_relaxed);
}

/* The private duplicate of an orphan. */
static bool adopt(struct xs_sock *s, int fd)
{
	int own = xs_highfd(xs_real.fcntl(fd, F_DUPFD_CLOEXEC, 3));

	if (own < 0)
		return false;
	s->fd = own;
	s->orphan = true;
	if (s->ringed)
		xs_chan_ops(s->chan)->rx_listen(s->chan, true);
	xs_conn_hold(s);
	if (s->row)
		atomic_store_explicit(&s->row->fd, -1, memory_order_relaxed);
	return true;
}

/* True if an orphan stays that brings the stream to its end. */
static bool close_own(struct xs_sock *s, int fd)
{
	struct linger none = {0};

	if (!plain(s) && !s->peer_rst && !s->foreign) {
		s->fd = fd;
		if (!wants_reset(s) && adopt(s, fd)) {
			/* The duplicate's own close waits for nobody. */
			xs_real.setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
			s->wr_shut = true;
			return true;
		}
		xs_conn_abort(s);
	}
	s->fd = -1;
	xs_conn_finish(s, s->peer_rst ? "reset" : "closed");
	return false;
}

/* An heir may hold it too: back to the kernel behind this close, and no FIN of ours. */
static void close_shared(struct xs_sock *s, int fd)
{
	s->fd = fd;
	if (!plain(s) && !s->peer_rst && adopt(s, fd)) {
		s->leaving = true;
		s->orphan_since = xs_now_ns();
		xs_return_begin(s, XS_R_FORKED, true);
		return;
	}
	s->fd = -1;
	xs_conn_finish(s, "closed");
}

/* The last name of s goes: true if an orphan brings it to its end. Locked. */
static bool close_last(struct xs_sock *s, int fd)
{
	if (s->in_tuples)
		xs_tuple_del(s);
	if (s->pairing == XS_PAIR_ASKING)
		xs_pair_forget(s);
	if (s->foreign || !xs_heirs_maybe(s))
		return close_own(s, fd);
	close_shared(s, fd);
	return false;
}

void xs_sock_unname(struct xs_sock *s, int fd, bool last)
{
	uint64_t until = 0;
	struct xs_crit cs;
	bool orphan = false;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (last) {
		until = !plain(s) ? linger_until(fd) : 0;
		s->lingers = until ? xs_now_ns() : 0;
		orphan = close_last(s, fd);
	} else if (s->fd == fd) {
		renumber(s, xs_fd_other_name(s, fd));
	}
	xs_conn_leave(s);
	xs_conn_report(s);
	xs_crit_leave(&cs);
	if (orphan && until)
		linger(s, until);
}

void xs_fd_stale(struct xs_obj *o, int fd)
{
	struct xs_sock *s = xs_sock_of(o);
	bool last = !atomic_load(&o->names);
	struct xs_crit cs;

	if (o->kind == XS_FD_EPOLL) {
		xs_ep_set_closed(fd);
		xs_obj_put(o);
		return;
	}
	XS_LOG(INFO, "fd=%d was closed behind our back", fd);
	xs_ep_fd_closed(s, fd, last);
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (last) {
		if (s->in_tuples)
			xs_tuple_del(s);
		if (s->pairing == XS_PAIR_ASKING)
			xs_pair_forget(s);
		s->fd = -1;
		if (s->chan)
			xs_conn_abort(s);
		xs_conn_finish(s, "closed");
	} else if (s->fd == fd) {
		renumber(s, xs_fd_other_name(s, fd));
	}
	xs_conn_leave(s);
	xs_conn_report(s);
	xs_crit_leave(&cs);
	xs_obj_put(o);
}

/* SPDX-License-Identifier: MIT */
/* What the plane tells about a connection: each event changes the state machines, then wakes. */
#include <errno.h>
#include <poll.h>

#include "base/log.h"
#include "sock/conn.h"

XS_NO_TSA static void lock(void *user)
{
	xs_conn_enter(user);
}

XS_NO_TSA static void unlock(void *user)
{
	xs_conn_leave_quiet(user);
}

static void hold(void *user)
{
	xs_conn_hold(user);
}

static void release(void *user)
{
	xs_obj_put(&((struct xs_sock *)user)->obj);
}

void xs_tx_acked(struct xs_sock *s)
{
	xs_chan_ops(s->chan)->tx_acked(s->chan, s->tx.acked);
	s->stall_since = 0;
	xs_rest_soon(s);
	if (s->nospace && xs_tx_writable(s)) {
		s->nospace = false;
		xs_wake(s, POLLOUT);
	}
}

/* The peer has closed this connection with bytes unread, or reset it: applied as TCP's RST. */
static void peer_gone(struct xs_sock *s)
{
	if (s->peer_rst)
		return;
	s->peer_rst = true;
	s->error = s->rx.final_known ? EPIPE : ECONNRESET; /* as the kernel in CLOSE_WAIT */
	xs_wake(s, ~0u);
}

static void message(void *user, const struct xs_msg *m)
{
	struct xs_sock *s = user;

	if (s->pairing != XS_PAIR_DONE)
		return;
	if (m->kind != XS_K_ACK)
		s->settled = false;
	switch (m->kind) {
	case XS_K_PREPARE:
		if (xs_r_prepare(&s->rx, m->epoch))
			s->peer_acked = m->offset;
		break;
	case XS_K_READY:
		s->ready_acks = m->offset;
		if (xs_s_ready(&s->tx, m->epoch))
			xs_manage(s, XS_MANAGED_TX, true);
		break;
	case XS_K_SWITCHED:
		xs_s_switched(&s->tx, m->epoch);
		break;
	case XS_K_ACK:
		if (xs_s_ack(&s->tx, m->epoch, m->offset))
			xs_tx_acked(s);
		break;
	case XS_K_RETURN_ME:
		xs_return_me(s, m->epoch, m->offset, (m->flags & XS_F_SWITCHED) != 0);
		break;
	case XS_K_RETURNED:
		if (!xs_r_returned(&s->rx, m->epoch))
			break;
		xs_chan_ops(s->chan)->rx_close(s->chan, 0);
		xs_wake(s, XS_WHAT_MOVED | POLLIN); /* the twin is read beyond X again */
		break;
	case XS_K_FLUSHED:
		xs_r_flushed(&s->rx, m->epoch);
		if (s->rx.frozen)
			xs_wake(s, XS_WHAT_MOVED);
		else if (!s->eof && xs_r_on_twin(&s->rx) && xs_twin_ended(s->fd)) /* in doubt */
			xs_wake(s, XS_WHAT_END);
		break;
	case XS_K_PEER_GONE:
		peer_gone(s);
		break;
	default:
		break;
	}
}

/*
 * Consumption up to here is what S asks for. Told at the next byte that is read, it would be next
 * to nothing where the reader is behind, and S would stand until the lazy acknowledgement.
 */
static void want_ack(struct xs_sock *s, uint64_t end)
{
	if (!s->want_ack || end < s->want_ack)
		s->want_ack = end;
	if (end > s->want_most)
		s->want_most = end;
}

static bool segment(void *user, const struct xs_arrival *a)
{
	struct xs_sock *s = user;

	if (s->pairing != XS_PAIR_DONE)
		return false;
	if (!xs_r_segment(&s->rx, a->epoch, a->flags, a->fin, a->offset))
		return false;
	if (s->orphan && !a->fin && a->offset + a->length > s->rx.c) {
		xs_conn_abort(s); /* the program has closed it: as TCP's RST for late data */
		return false;
	}
	if (a->flags & XS_F_WANT_ACK)
		want_ack(s, a->offset + a->length);
	if (a->fin || a->flags & XS_F_FIRST)
		s->settled = false;
	return true;
}

static void arrived(void *user)
{
	struct xs_sock *s = user;

	xs_wake(s, s->rx.fin_known ? XS_WHAT_END : POLLIN | POLLRDNORM);
}

static void room(void *user)
{
	struct xs_sock *s = user;

	if (!s->nospace || !xs_tx_writable(s))
		return;
	s->nospace = false;
	xs_wake(s, POLLOUT);
}

static void dead(void *user, enum xs_reason why)
{
	struct xs_sock *s = user;
	bool open = s->rx.state == XS_R_OPEN;

	XS_LOG(INFO, "fd=%d link dead: %s", s->fd, xs_reason_name(why));
	s->complete = why == XS_R_PEER_KILLED;
	if (s->complete)
		why = XS_R_LINK_LOST;
	s->settled = false;
	s->ret_since = xs_now_ns();
	s->tx_doubt = s->tx.told < s->tx.epoch && s->tx.state != XS_S_SWD;
	s->tx.linked = false;
	xs_return_tx(s, why);
	s->tx.linked = true;
	xs_s_link_dead(&s->tx);
	if (xs_r_link_dead(&s->rx) && open)
		xs_chan_ops(s->chan)->rx_close(s->chan, 0);
	s->rx_why = why;
	s->link_gone = true;
	/* What may have been hidden: bytes behind X, an end in doubt. */
	xs_wake(s, XS_WHAT_MOVED | (!s->eof && (open || xs_r_in_doubt(&s->rx)) ? POLLIN : 0));
}

const struct xs_chan_events xs_conn_events = {
	.lock = lock,
	.unlock = unlock,
	.hold = hold,
	.release = release,
	.message = message,
	.segment = segment,
	.arrived = arrived,
	.room = room,
	.dead = dead,
};

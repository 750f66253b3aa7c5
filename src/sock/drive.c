/* SPDX-License-Identifier: MIT */
/*
 * What is due. Events (messages, bytes, the program's calls, time) only change the two state
 * machines; xs_drive(), at the end of every locked section, then does whatever the states make due,
 * in an order that the protocol needs: kept bytes before FLUSHED, FLUSHED before FIN or a new
 * PREPARE, and on the receiving side READY only after the progress thread has seen the kernel-only
 * calls empty. Nothing here blocks; what has to wait is tried again by a timer or by the event it
 * waits for.
 */
#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "base/real.h"
#include "engine/wait.h"
#include "sock/heirs.h"
#include "sock/sock.h"

#define RETRY_MS 2

static _Atomic uint32_t ready_waiting; /* sockets with ready_wanted */

static void say(struct xs_sock *s, uint8_t kind, uint16_t epoch, uint64_t offset, uint8_t flags)
{
	struct xs_msg m = {.kind = kind, .flags = flags, .epoch = epoch, .offset = offset};

	xs_chan_ops(s->chan)->send(s->chan, &m);
}

void xs_manage(struct xs_sock *s, unsigned bits, bool on)
{
	uint8_t had = atomic_load_explicit(&s->managed, memory_order_relaxed), now;

	if (s->exiting && !on)
		bits &= ~XS_MANAGED_TX; /* other threads' writes wait for the end */
	now = (uint8_t)(on ? had | bits : had & ~bits);

	if (had == now)
		return;
	atomic_store_explicit(&s->managed, now, memory_order_seq_cst);
	xs_wake(s, XS_WHAT_MOVED);
}

void xs_unmanage_tx(struct xs_sock *s)
{
	if ((!s->wr_shut || s->fin_on_twin) && !s->error && !s->peer_rst)
		xs_manage(s, XS_MANAGED_TX, false);
}

/* --- stats ---------- */

static unsigned plane_of(const struct xs_sock *s)
{
	return s->chan ? xs_chan_ops(s->chan)->plane : XSHIM_KERNEL;
}

/* The row, if there is one, says what is. */
static bool published(const struct xs_sock *s)
{
	const struct xshim_conn *row = s->row;

	if (!row)
		return true;
	return atomic_load_explicit(&row->tx.state, memory_order_relaxed) == s->tx.state &&
	       atomic_load_explicit(&row->rx.state, memory_order_relaxed) == s->rx.state &&
	       atomic_load_explicit(&row->tx.epoch, memory_order_relaxed) == s->tx.epoch &&
	       atomic_load_explicit(&row->rx.epoch, memory_order_relaxed) == s->rx.epoch &&
	       atomic_load_explicit(&row->tx.reason, memory_order_relaxed) == s->tx_why &&
	       atomic_load_explicit(&row->rx.reason, memory_order_relaxed) == s->rx_why;
}

void xs_conn_publish(struct xs_sock *s)
{
	struct xshim_conn *row = s->row;
	bool tx = xs_s_on_plane(&s->tx), rx = s->rx.state == XS_R_PLANE;

	if (published(s))
		return;
	atomic_store_explicit(&row->tx.plane, tx ? plane_of(s) : XSHIM_KERNEL,
			      memory_order_relaxed);
	atomic_store_explicit(&row->rx.plane, rx ? plane_of(s) : XSHIM_KERNEL,
			      memory_order_relaxed);
	atomic_store_explicit(&row->tx.state, s->tx.state, memory_order_relaxed);
	atomic_store_explicit(&row->rx.state, s->rx.state, memory_order_relaxed);
	atomic_store_explicit(&row->tx.epoch, s->tx.epoch, memory_order_relaxed);
	atomic_store_explicit(&row->rx.epoch, s->rx.epoch, memory_order_relaxed);
	atomic_store_explicit(&row->tx.reason, s->tx_why, memory_order_relaxed);
	atomic_store_explicit(&row->rx.reason, s->rx_why, memory_order_relaxed);
}

/* --- returns ---------- */

static void back_off(struct xs_sock *s, enum xs_reason why)
{
	if (xs_reason_class(why) != XS_CLASS_TRANSIENT) {
		if (!s->pin)
			s->pin = why;
		return;
	}
	s->backoff_ms = !s->backoff_ms ? 1000 : s->backoff_ms < 30000 ? s->backoff_ms * 2 : 60000;
	s->retry_at = xs_now_ns() + s->backoff_ms * XS_NS_PER_MS;
	xs_drive_in(s, s->backoff_ms);
}

/* On the kernel already: a reason that lasts isn't hidden by one that comes later. */
static bool says_more(enum xs_reason old, enum xs_reason why)
{
	if (xs_reason_class(why) == XS_CLASS_FINAL)
		return xs_reason_class(old) != XS_CLASS_FINAL;
	return xs_reason_class(old) <= XS_CLASS_WAITING;
}

/* The epoch is over for S; `plane`: it had been on the plane. */
static void tx_left(struct xs_sock *s, bool plane, enum xs_reason why)
{
	if (plane || says_more(s->tx_why, why))
		s->tx_why = why;
	back_off(s, why);
	if (!plane) { /* READY is void: the kernel alone again */
		xs_unmanage_tx(s);
		return;
	}
	if (s->row)
		atomic_fetch_add_explicit(&s->row->tx.returns, 1, memory_order_relaxed);
	XS_LOG(INFO, "fd=%d tx plane->kernel at %llu epoch %u: %s", s->fd,
	       (unsigned long long)s->tx.flush, s->tx.epoch, xs_reason_name(why));
	xs_chan_ops(s->chan)->tx_stop(s->chan);
	xs_lend_back(s);
	if (s->tx.state == XS_S_KERN) { /* nothing was kept */
		xs_chan_ops(s->chan)->tx_close(s->chan);
		xs_unmanage_tx(s);
	} else {
		xs_tx_flush(s);
	}
	xs_tx_moved(s);
}

void xs_return_tx(struct xs_sock *s, enum xs_reason why)
{
	bool plane = xs_s_on_plane(&s->tx);

	if (s->tx.state >= XS_S_RET || (plane && xs_s_fin_acked(&s->tx)))
		return; /* it is returning, or only the twin's FIN is missing */
	xs_s_return(&s->tx);
	tx_left(s, plane, why);
}

void xs_return_me(struct xs_sock *s, uint16_t epoch, uint64_t c, bool switched)
{
	bool plane = xs_s_on_plane(&s->tx);

	if (xs_s_return_me(&s->tx, epoch, c, switched) && (!plane || !xs_s_on_plane(&s->tx)))
		tx_left(s, plane, XS_R_PEER_ASKED);
}

void xs_return_rx(struct xs_sock *s, enum xs_reason why)
{
	bool switched = s->rx.state == XS_R_PLANE;

	s->rx_why = why;
	if (xs_reason_class(why) != XS_CLASS_TRANSIENT)
		s->rx.pinned = true;
	if ((s->rx.state != XS_R_OPEN && !switched) || !s->rx.linked || s->rx.asked)
		return;
	s->rx.asked = true;
	say(s, XS_K_RETURN_ME, s->rx.epoch, s->rx.c, switched ? XS_F_SWITCHED : 0);
}

void xs_conn_abort(struct xs_sock *s)
{
	s->peer_rst = true;
	if (s->chan && s->tx.linked)
		say(s, XS_K_PEER_GONE, s->rx.epoch, 0, 0);
	if (xs_conn_fresh(s))
		xs_twin_abort(s->fd);
	xs_wake(s, ~0u);
}

void xs_conn_reset(struct xs_sock *s, enum xs_reason why)
{
	if (s->peer_rst)
		return;
	XS_LOG(WARN, "fd=%d reset: %s", s->fd, xs_reason_name(why));
	s->error = ECONNRESET;
	s->tx_why = s->rx_why = why;
	xs_conn_abort(s);
}

/* --- receiving ---------- */

bool xs_ready_wanted(void)
{
	return atomic_load_explicit(&ready_waiting, memory_order_seq_cst) != 0;
}

static void look_again(struct xs_sock *s, void *arg)
{
	(void)arg;
	if (s->ready_wanted)
		xs_drive_soon(s);
}

static void look_all(struct xs_work *w)
{
	(void)w;
	xs_conn_each(look_again, NULL);
}

static struct xs_work all_work = {.fn = look_all};

void xs_ready_look(void)
{
	xs_progress_post(&all_work);
}

static void want_ready(struct xs_sock *s, bool on)
{
	if (s->ready_wanted == on)
		return;
	s->ready_wanted = on;
	if (on) {
		xs_manage(s, XS_MANAGED_RX, true);
		atomic_fetch_add_explicit(&ready_waiting, 1, memory_order_seq_cst);
		xs_drive_soon(s);
	} else {
		atomic_fetch_sub_explicit(&ready_waiting, 1, memory_order_seq_cst);
	}
}

/* The threads that a READY waits for are not here, nor is the work. */
void xs_drive_fork_child(void)
{
	atomic_store(&ready_waiting, 0);
	atomic_store(&all_work.posted, false);
}

void xs_ready_unwant(struct xs_sock *s)
{
	want_ready(s, false);
}

static enum xs_reason may_open(struct xs_sock *s)
{
	uint64_t received, consumed;
	enum xs_reason why;

	if (s->pin)
		return s->pin;
	if (s->rd_shut || s->orphan)
		return XS_R_POLICY;
	why = xs_twin_received(s->fd, s->role == XS_ROLE_CONNECTED, &received, &consumed);
	if (why)
		return why;
	if (consumed != atomic_load(&s->rx_twin))
		return XS_R_UNSEEN_READER;
	if ((int64_t)received - s->rx.base < (int64_t)s->peer_acked)
		return XS_R_PROOF;
	s->rx.t = (uint64_t)((int64_t)consumed - s->rx.base);
	if (s->rx.c < s->rx.t)
		s->rx.c = s->rx.t; /* what the kernel path has read uncounted here */
	say(s, XS_K_READY, xs_r_ready(&s->rx), (uint64_t)((int64_t)received - s->rx.base), 0);
	return XS_R_NONE;
}

void xs_ready_try(struct xs_sock *s)
{
	bool clear = !atomic_load_explicit(&s->rx_kernel, memory_order_seq_cst) &&
		     !xs_poll_sleepers(s, s->fd) && !xs_ep_sleepers(s);
	int obstacle = xs_ep_obstacle(s);
	enum xs_reason why;

	xs_conn_enter(s);
	if (s->ready_wanted && xs_r_may_ready(&s->rx) && (clear || obstacle)) {
		why = obstacle ? (enum xs_reason)obstacle : may_open(s);
		if (why)
			s->rx_why = why;
		if (why == XS_R_RETRY)
			xs_drive_in(s, RETRY_MS);
		else
			want_ready(s, false);
		if (!why) {
			XS_LOG(DEBUG, "fd=%d rx READY epoch %u", s->fd, s->rx.epoch);
			xs_chan_ops(s->chan)->rx_open(s->chan, s->rx.epoch, s->rx.c);
			s->twin_fin_at = s->partial_since = 0;
		} else if (why != XS_R_RETRY) {
			s->rx.prepared = 0;
			if (xs_reason_class(why) == XS_CLASS_FINAL)
				s->rx.pinned = true;
		}
	}
	xs_conn_leave(s);
}

static void drive_rx(struct xs_sock *s)
{
	const struct xs_chan_ops *ops = xs_chan_ops(s->chan);

	if (s->rx.prepared && xs_r_may_ready(&s->rx))
		want_ready(s, true);
	else if (s->ready_wanted)
		want_ready(s, false);
	if (xs_r_may_switch(&s->rx)) {
		xs_r_switched(&s->rx);
		ops->rx_seek(s->chan, s->rx.c);
		ops->rx_ack(s->chan, s->rx.epoch, s->rx.c);
		s->ack_said = s->rx.c;
		say(s, XS_K_SWITCHED, s->rx.epoch, s->rx.c, 0);
		s->rx_why = XS_R_NONE;
		if (s->row)
			atomic_fetch_add_explicit(&s->row->rx.upgrades, 1, memory_order_relaxed);
		XS_LOG(INFO, "fd=%d rx kernel->plane at %llu epoch %u", s->fd,
		       (unsigned long long)s->rx.c, s->rx.epoch);
		xs_wake(s, XS_WHAT_MOVED | POLLIN);
	}
	if (s->rx.state == XS_R_PLANE) {
		if (s->twin_fin_at || s->partial_since || !s->rx.linked || s->rx.asked)
			xs_rx_look(s);
		xs_rx_ack(s, s->timed);
	}
	if (s->rx.state == XS_R_KERN && !s->ready_wanted && s->rx.t == s->rx.c &&
	    s->rx.c >= s->rx.copies && !s->rx.frozen && !s->error && !s->peer_rst && !s->eof &&
	    !xs_r_in_doubt(&s->rx)) {
		if (s->rd_shut && xs_managed(s))
			xs_real.shutdown(s->fd, SHUT_RD);
		xs_manage(s, XS_MANAGED_RX, false);
	}
}

/* --- sending ---------- */

static void drive_messages(struct xs_sock *s)
{
	const struct xs_chan_ops *ops = xs_chan_ops(s->chan);

	if (!s->tx.linked)
		return;
	if (s->tx.reply) {
		say(s, XS_K_RETURNED, s->tx.reply, 0, 0);
		s->tx.reply = 0;
	}
	if (xs_s_flushed_due(&s->tx)) {
		s->tx.flushed = xs_s_over(&s->tx);
		say(s, XS_K_FLUSHED, s->tx.flushed, 0, 0);
	}
	if (s->tx.told < s->tx.flushed) {
		if (ops->sent(s->chan, XS_K_FLUSHED))
			s->tx.told = s->tx.flushed;
		else
			xs_drive_in(s, RETRY_MS);
	}
}

void xs_drive_end(struct xs_sock *s)
{
	s->tx.closed = true;
	if (!xs_s_on_plane(&s->tx) || s->tx.fin_sent)
		return;
	xs_chan_ops(s->chan)->tx_fin(s->chan, s->tx.state == XS_S_SWD ? XS_F_CONFIRMED : 0);
	s->tx.fin_sent = true;
}

static void drive_fin(struct xs_sock *s)
{
	if (!s->wr_shut || s->fin_on_twin)
		return;
	xs_drive_end(s);
	drive_messages(s);
	if (!xs_s_all_in(&s->tx) || !xs_s_told(&s->tx))
		return;
	if (s->exiting && !s->orphan)
		return; /* the kernel's close is the FIN */
	if (xs_conn_fresh(s))
		xs_real.shutdown(s->fd, SHUT_WR);
	xs_lend_back(s);
	xs_s_fin_on_twin(&s->tx);
	s->fin_on_twin = true;
	xs_wake(s, XS_WHAT_MOVED); /* not news: shutdown() has told it */
}

static void drive_prepare(struct xs_sock *s)
{
	uint64_t written, acked;
	enum xs_reason why;

	if (s->pin || s->tx.state != XS_S_KERN || !s->tx.linked || s->wr_shut || s->foreign ||
	    s->error || s->peer_rst || s->tx.giving)
		return;
	if (s->retry_at) {
		uint64_t now = xs_now_ns();

		if (now < s->retry_at) { /* nearer deadlines have taken the timer meanwhile */
			xs_drive_in(s, (unsigned)((s->retry_at - now) / XS_NS_PER_MS) + 1);
			return;
		}
		s->retry_at = 0;
	}
	why = xs_twin_written(s->fd, s->role == XS_ROLE_CONNECTED, &written, &acked);
	if (why) {
		s->tx_why = why;
		if (why == XS_R_RETRY)
			xs_drive_in(s, RETRY_MS);
		return;
	}
	if (xs_s_prepare(&s->tx))
		say(s, XS_K_PREPARE, s->tx.epoch, (uint64_t)((int64_t)acked - s->tx.base), 0);
}

/*
 * The link is dead and both directions are plainly on the kernel: free for another pairing [12].
 * One that has left an end in doubt [9] asks soon, although it mustn't upgrade yet: FLUSHED, told
 * over the new link, makes a clean end out of what would be ECONNRESET.
 */
static void drive_unlink(struct xs_sock *s)
{
	if (!s->link_gone || s->tx.state != XS_S_KERN || s->rx.state != XS_R_KERN ||
	    s->rx.t != s->rx.c || s->rx.c < s->rx.copies || s->orphan || s->child_asks ||
	    s->wr_shut || s->error)
		return;
	xs_fast_end(s);
	xs_chan_ops(s->chan)->close(s->chan, false);
	s->chan = NULL;
	s->link_gone = false;
	if (s->retry_at) /* else it wasn't upgraded */
		s->pair_at = s->tx_doubt || xs_r_in_doubt(&s->rx)
				     ? xs_now_ns() + s->backoff_ms * XS_NS_PER_MS / 100
				     : s->retry_at;
	s->pairing = s->pin ? XS_PAIR_NEVER : XS_PAIR_NONE;
	if (!s->pin && s->role == XS_ROLE_CONNECTED)
		atomic_store_explicit(&s->watching, 1, memory_order_relaxed);
}

/*
 * Nothing is due: both directions run on the plane, and no event has left anything to do. That's
 * how nearly every locked section ends; what xs_drive() would find, in one look.
 */
bool xs_drive_steady(const struct xs_sock *s)
{
	if (s->rx.state != XS_R_PLANE || s->tx.state != XS_S_SWD || !s->chan)
		return false;
	if (s->rx.prepared | s->ready_wanted | s->rx.asked | s->timed | s->eof | s->wr_shut |
	    s->link_gone | s->child_asks | s->orphan | s->peer_rst | !s->rx.linked | !s->tx.linked)
		return false;
	if (s->twin_fin_at | s->partial_since | s->stall_since | s->tx.reply)
		return false;
	return s->tx.told == s->tx.flushed && !xs_s_flushed_due(&s->tx) && published(s);
}

void xs_drive(struct xs_sock *s)
{
	if (s->timed)
		s->resting = false;
	if (!s->chan) {
		if (s->wr_shut && s->orphan)
			drive_fin(s);
		if (s->child_asks)
			xs_heirs_look(s);
		return;
	}
	drive_rx(s);
	if (s->tx.state == XS_S_RET && !xs_tx_flush(s))
		xs_drive_in(s, s->lazy_frame ? 50 * RETRY_MS : RETRY_MS);
	if (s->stall_since && xs_s_on_plane(&s->tx)) {
		if (s->stall_acked != s->tx.acked)
			s->stall_since = 0;
		else if (xs_now_ns() - s->stall_since >= XS_STALL_MS * XS_NS_PER_MS)
			xs_return_tx(s, XS_R_STALLED);
		else
			xs_drive_in(s, RETRY_MS * 5);
	}
	xs_lend_drive(s);
	drive_messages(s);
	drive_fin(s);
	drive_prepare(s);
	xs_conn_publish(s);
	if (s->timed)
		xs_chan_ops(s->chan)->idle(s->chan);
	s->timed = false;
	drive_unlink(s);
	if (s->child_asks)
		xs_heirs_look(s);
	if (s->orphan)
		xs_orphan_look(s);
}

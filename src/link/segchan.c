/* SPDX-License-Identifier: MIT */
/*
 * Channels over a carrier: xs_chan_ops by segments. This file: life, messages, the operations'
 * table; segchan_tx.c: what is sent, segchan_rx.c: what comes.
 *
 * All of a channel is guarded by its connection's lock, which the owner holds in each operation and
 * which is taken here before each event. The owner may close the channel inside an event: the
 * memory then stays until the event's end (in_event).
 *
 * The latest message of each kind waits in the channel until there's a credit of the small lane.
 * Kinds are independent of each other and may be late or out of order (plane.h), so a newer one
 * replaces what waits.
 */
#include "link/linkage.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

#define SERVED_SEGMENTS 8 /* in one turn of a channel that has waited */

static const uint8_t order[] = {
	XS_K_RETURNED, XS_K_READY,   XS_K_SWITCHED, XS_K_RETURN_ME,
	XS_K_ACK,      XS_K_PREPARE, XS_K_FLUSHED,  XS_K_PEER_GONE,
};

/* --- life ------------------------------------------------------------------------------------ */
static void list(struct xs_link *l, struct xs_chan *c)
{
	xs_lock_take(&l->lock);
	c->next = l->chans;
	c->prev = NULL;
	if (c->next)
		c->next->prev = c;
	l->chans = c;
	l->chans_n++;
	l->idle_since = 0;
	xs_lock_drop(&l->lock);
}

static void unlist(struct xs_link *l, struct xs_chan *c)
{
	bool last;

	xs_credit_forget(l, c);
	xs_lock_take(&l->lock);
	if (c->prev)
		c->prev->next = c->next;
	else
		l->chans = c->next;
	if (c->next)
		c->next->prev = c->prev;
	last = !--l->chans_n;
	l->idle_since = last ? xs_now_ns() : 0;
	xs_lock_drop(&l->lock);
	if (last)
		xs_link_idle(l);
}

struct xs_chan *xs_segchan_new(struct xs_link *l, struct xs_id_key key, struct xs_id_key peer,
			       const struct xs_chan_events *events, void *user, bool corked)
{
	struct xs_chan *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->base = (struct xs_chan_base){&xs_segchan_ops[l->ops->plane], events, user, l->id};
	c->link = l;
	c->key = key;
	c->peer = peer;
	c->corked = corked;
	c->rx.data.give_back = xs_segrx_give_back;
	c->rx.data.arg = c;
	xs_reasm_reset(&c->rx.data, 0);
	xs_segtx_limit(c, xs_config()->window_max);
	xs_link_hold(l);
	list(l, c);
	xs_id_attach(key, c);
	return c;
}

void xs_segchan_die(struct xs_chan *c, enum xs_reason why)
{
	bool outer = !c->in_event;

	if (c->dead)
		return;
	c->dead = true;
	c->pending = 0;
	unlist(c->link, c);
	c->in_event = true;
	c->base.events->dead(c->base.user, why);
	if (outer)
		xs_segchan_event_end(c);
}

bool xs_segchan_event_end(struct xs_chan *c)
{
	c->in_event = false;
	if (!c->closed)
		return true;
	free(c);
	return false;
}

/* What still has to be said about a connection that's gone. */
static void last_words(struct xs_chan *c)
{
	static const uint8_t kinds[] = {XS_K_RETURNED, XS_K_ACK, XS_K_FLUSHED, XS_K_PEER_GONE};
	struct xs_seghdr h;

	for (unsigned i = 0; i < sizeof(kinds); i++) {
		const struct xs_msg *m = &c->msg[kinds[i]];

		if (c->corked || !(c->pending & 1u << kinds[i]))
			continue;
		xs_segchan_header(c, m->kind, &h);
		h.flags = m->flags;
		h.epoch = m->epoch;
		h.offset = m->offset;
		xs_link_say(c->link, &h, NULL);
	}
}

/* The bytes that were never posted are in the twin, or for nobody. */
static void not_late(struct xs_chan *c)
{
	if (c->late && !c->dead)
		xs_credit_late(c->link, -1);
	c->late = false;
}

static void close_channel(struct xs_chan *c, bool reset)
{
	struct xs_link *l = c->link;

	xs_id_close(c->key, reset, l, c->peer);
	if (!c->dead) {
		last_words(c);
		not_late(c);
		unlist(l, c);
	}
	xs_segtx_free(c);
	xs_segrx_free(c);
	c->dead = true;
	xs_link_put(l);
	if (c->in_event)
		c->closed = true;
	else
		free(c);
}

static uint32_t id_of(const struct xs_chan *c)
{
	return c->key.id;
}

/* --- bytes that were taken and not posted ---------------------------------------------------- */
/* They go to the twin now: until then the peer can't know that there are any. */
static void tx_stop(struct xs_chan *c)
{
	if (c->tx.epoch && c->tx.next < c->tx.end && !c->late && !c->dead) {
		c->late = true;
		xs_credit_late(c->link, 1);
	}
	xs_segtx_stop(c);
}

static void tx_close(struct xs_chan *c)
{
	not_late(c);
	xs_segtx_close(c);
}

/* --- messages -------------------------------------------------------------------------------- */
void xs_segchan_header(struct xs_chan *c, uint8_t kind, struct xs_seghdr *h)
{
	c->ack_told = c->ack;
	*h = (struct xs_seghdr){
		.id = c->peer.id,
		.generation = c->peer.generation,
		.ack_epoch = c->ack_epoch,
		.ack = c->ack_epoch ? c->ack : 0,
		.kind = kind,
	};
}

void xs_segchan_refused(struct xs_chan *c, enum xs_lane lane, int err, uint64_t rooms)
{
	c->ack_told = 0; /* not by this one */
	xs_credit_untake(c->link, lane);
	if (err == -EAGAIN)
		xs_credit_full(c->link, lane, c, rooms);
}

/* False: it has to wait. */
static bool post_message(struct xs_chan *c, uint8_t kind, bool served)
{
	const struct xs_msg *m = &c->msg[kind];
	uint64_t rooms = atomic_load(&c->link->room_count);
	unsigned flags = xs_link_now() | (kind == XS_K_FLUSHED ? XS_POST_SIGNAL : 0);
	struct xs_seghdr h;
	int r;

	if (!xs_credit_take(c->link, XS_LANE_SMALL, c, served))
		return false;
	xs_segchan_header(c, kind, &h);
	h.flags = m->flags;
	h.epoch = m->epoch;
	h.offset = m->offset;
	r = xs_link_post(c->link, XS_LANE_SMALL, &h, NULL, flags, &c->msg_seq[kind]);
	if (r) {
		xs_segchan_refused(c, XS_LANE_SMALL, r, rooms);
		return false;
	}
	c->pending &= ~(1u << kind);
	return true;
}

void xs_segchan_pump(struct xs_chan *c, bool served)
{
	int budget = served ? SERVED_SEGMENTS : INT32_MAX;

	if (c->dead || c->corked)
		return;
	for (unsigned i = 0; c->pending && i < sizeof(order); i++) {
		if (!(c->pending & 1u << order[i]))
			continue;
		if (!post_message(c, order[i], served))
			break;
		budget--;
	}
	xs_segtx_pump(c, served, &budget);
}

void xs_segchan_uncork(struct xs_chan *c)
{
	if (!c->corked)
		return;
	c->corked = false;
	xs_segchan_pump(c, false);
}

int xs_segchan_send(struct xs_chan *c, const struct xs_msg *m)
{
	if (c->dead)
		return -ENOTCONN;
	c->msg[m->kind] = *m;
	c->pending |= 1u << m->kind;
	c->msg_seq[m->kind] = 0;
	if (!c->corked)
		post_message(c, m->kind, false);
	return 0;
}

static bool sent(struct xs_chan *c, uint8_t kind)
{
	struct xs_conduit *conduit = atomic_load(&c->link->conduit);

	if (c->dead || c->pending & 1u << kind || !c->msg_seq[kind])
		return false;
	return c->link->ops->completed(conduit, XS_LANE_SMALL) >= c->msg_seq[kind];
}

static uint64_t rx_ack(struct xs_chan *c, uint16_t epoch, uint64_t offset)
{
	if (c->rx.shared &&
	    c->rx.epoch == epoch) /* it sees our index, and asks for more than that */
		return atomic_load_explicit(&c->in->side.at, memory_order_relaxed);
	if (c->ack_epoch != epoch)
		c->ack_told = 0;
	c->ack_epoch = epoch;
	c->ack = offset;
	return c->ack_told;
}

static void set_rings(struct xs_chan *c, struct xs_byteout *out, struct xs_bytein *in)
{
	c->out = out;
	c->in = in;
}

/* --- the operations: the same for each plane, but for its name ------------------------------- */
#define OPS(plane_, name_, tells_end_)          \
	[plane_] = {                            \
		.name = (name_),                \
		.plane = (plane_),              \
		.tells_end = (tells_end_),      \
		.tx_open = xs_segtx_open,       \
		.tx_room = xs_segtx_room,       \
		.idle = xs_segtx_idle,          \
		.tx_put = xs_segtx_put,         \
		.tx_fin = xs_segtx_fin,         \
		.tx_acked = xs_segtx_acked,     \
		.tx_kept = xs_segtx_kept,       \
		.tx_stop = tx_stop,             \
		.tx_close = tx_close,           \
		.id = id_of,                    \
		.tx_limit = xs_segtx_limit,     \
		.rx_open = xs_segrx_open,       \
		.rx_seek = xs_segrx_seek,       \
		.rx_peek = xs_segrx_peek,       \
		.rx_advance = xs_segrx_advance, \
		.rx_avail = xs_segrx_avail,     \
		.rx_close = xs_segrx_close,     \
		.rx_ack = rx_ack,               \
		.send = xs_segchan_send,        \
		.rings = set_rings,             \
		.settle = xs_segring_settle,    \
		.rx_listen = xs_segring_listen, \
		.sent = sent,                   \
		.close = close_channel,         \
	}

const struct xs_chan_ops xs_segchan_ops[XS_PLANES] = {
	OPS(XS_PLANE_RC, "rc", false),
	OPS(XS_PLANE_SHM, "shm", true),
	OPS(XS_PLANE_TEST, "test", false),
};

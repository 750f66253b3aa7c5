/* SPDX-License-Identifier: MIT */
/*
 * Channels whose bytes are in rings of shared memory (base/bytering.h) and not in segments.
 *
 * The sender's ring is window, store and wire in one: the peer reads the bytes where they're kept.
 * What an index can't say is still said by segments: FIRST names the ring and X; DATA without bytes
 * makes a peer look that listens, and brings CONFIRMED; ACK tells a starved sender of room.
 *
 * An epoch is in a ring as a whole, or not at all. When it's over the receiver may still serve the
 * bytes that it had announced: it gives the ring back after them, and the sender's carrier doesn't
 * take it for anything else before that.
 */
#include "link/linkage.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

#define WHOLE 4096

static uint64_t out_at(const struct xs_chan *c)
{
	return atomic_load_explicit(&c->out->side.at, memory_order_relaxed);
}

static uint64_t in_at(const struct xs_chan *c)
{
	return atomic_load_explicit(&c->in->side.at, memory_order_relaxed);
}

/* --- sending --------------------------------------------------------------------------------- */
void xs_segring_open(struct xs_chan *c, uint64_t x)
{
	struct xs_conduit *conduit = atomic_load(&c->link->conduit);
	const struct xs_carrier_ops *ops = c->link->ops;
	struct xs_bytering *ring = NULL;

	if (c->out && ops->ring_take && conduit && !c->dead)
		ring = ops->ring_take(conduit, &c->tx.name);
	if (!ring)
		return;
	xs_byteout_open(c->out, ring, x, c->tx.window);
	c->tx.shared = conduit;
	c->tx.idle_at = x;
}

void xs_segring_tx_free(struct xs_chan *c)
{
	xs_byteout_close(c->out);
	c->link->ops->ring_put(c->tx.shared, &c->tx.name);
	c->tx.shared = NULL;
	c->tx.say = false;
}

void xs_segring_look(struct xs_chan *c)
{
	struct xs_tx *tx = &c->tx;

	tx->next = tx->end = out_at(c);
	tx->acked = xs_byteout_head(c->out);
}

/* As much as sock/ calls writable is free, or the peer is asked for it. */
size_t xs_segring_room(struct xs_chan *c)
{
	size_t room = xs_byteout_room(c->out);
	uint64_t kept = out_at(c) - c->out->seen;

	if (room && room >= kept / 2)
		return room;
	return xs_byteout_starve(c->out) ? xs_byteout_room(c->out) : room;
}

bool xs_segring_say(struct xs_chan *c, bool served)
{
	struct xs_tx *tx = &c->tx;
	struct xs_seghdr h = {.kind = XS_K_DATA, .flags = XS_F_RING, .offset = tx->end};

	if (!tx->say)
		return true;
	if (tx->first) {
		h.offset = tx->acked; /* nothing is consumed before FIRST has come */
		h.length = sizeof(tx->name);
	}
	if (!xs_segtx_post_short(c, served, &h, tx->first ? &tx->name : NULL))
		return false;
	tx->say = false;
	return true;
}

/* How many of `want` bytes go in now. */
static size_t fits(struct xs_chan *c, size_t want)
{
	struct xs_tx *tx = &c->tx;
	uint64_t most = tx->short_of ? xs_byteout_grow(c->out, tx->limit) : UINT64_MAX;
	size_t room = xs_byteout_room(c->out);

	tx->short_of = want > room;
	if (want > WHOLE && most < want) /* up to where it grows; a small write goes past that */
		want = (size_t)most;
	if (want > WHOLE || out_at(c) == c->out->seen)
		return want < room ? want : room;
	return want <= room ? want : 0; /* whole or not at all, as the kernel does */
}

ssize_t xs_segring_put(struct xs_chan *c, const struct iovec *iov, int iovcnt, size_t skip,
		       unsigned flags)
{
	struct xs_tx *tx = &c->tx;
	int budget = INT32_MAX;
	size_t want = 0, n;

	for (int i = 0; i < iovcnt; i++)
		want += iov[i].iov_len;
	want = want > skip ? want - skip : 0;
	n = tx->stopped || tx->fin ? 0 : fits(c, want);
	if (!n && want && xs_byteout_starve(c->out))
		n = fits(c, want);
	if (flags & XS_F_FIRST)
		tx->first = tx->say = true;
	if (flags & XS_F_CONFIRMED && !tx->confirmed)
		tx->confirmed = tx->say = true;
	if (!n)
		return want ? -EAGAIN : 0;
	xs_byteout_put(c->out, iov, skip, n);
	xs_segring_look(c);
	tx->say |= xs_byteout_settle(c->out);
	if (tx->say)
		xs_segtx_pump(c, false, &budget);
	return (ssize_t)n;
}

void xs_segring_idle(struct xs_chan *c)
{
	struct xs_tx *tx = &c->tx;

	xs_segring_look(c);
	if (tx->idle_at == tx->end && !tx->stopped)
		xs_byteout_shrink(c->out, tx->window);
	tx->idle_at = tx->end;
}

/* --- receiving ------------------------------------------------------------------------------- */
static void bad(struct xs_chan *c)
{
	XS_LOG(WARN, "link %llu: id %u: a peer's ring holds nonsense",
	       (unsigned long long)c->link->id, c->key.id);
	xs_link_note(c->link, XS_DUE_BAD);
}

void xs_segring_rx_free(struct xs_chan *c)
{
	if (!c->rx.shared)
		return;
	xs_bytein_close(c->in);
	c->link->ops->ring_done(c->rx.shared);
	c->rx.shared = NULL;
}

static bool attach(struct xs_chan *c, const struct xs_seghdr *h, const struct xs_rxbuf *buf)
{
	struct xs_conduit *conduit = atomic_load(&c->link->conduit);
	const struct xs_carrier_ops *ops = c->link->ops;
	struct xs_bytering *ring = NULL;
	struct xs_ring_name name;

	if (!c->in || !ops->ring_find || !conduit || c->rx.shared || buf->length != sizeof(name))
		return false;
	memcpy(&name, buf->payload, sizeof(name));
	ring = ops->ring_find(conduit, &name);
	if (!ring)
		return false;
	xs_bytein_open(c->in, ring, name.use, h->offset);
	c->rx.shared = conduit;
	return true;
}

/* False: the owner doesn't want it, or has closed the channel. */
static bool wanted(struct xs_chan *c, const struct xs_arrival *a)
{
	bool yes = c->base.events->segment(c->base.user, a);

	if (!yes)
		xs_link_drop(c->link);
	return yes && !c->closed && !c->dead && a->epoch == c->rx.epoch;
}

void xs_segring_segment(struct xs_chan *c, const struct xs_seghdr *h, const struct xs_rxbuf *buf)
{
	struct xs_arrival a = {.epoch = h->epoch, .flags = h->flags, .offset = h->offset};

	if (h->flags & XS_F_FIRST) {
		if (!wanted(c, &a))
			return;
		if (!attach(c, h, buf)) {
			bad(c);
			return;
		}
	}
	if (!c->rx.shared || h->epoch != c->rx.epoch) {
		xs_link_drop(c->link);
		return;
	}
	a.flags &= (uint8_t)~XS_F_FIRST;
	a.length = (uint32_t)xs_bytein_news(c->in);
	a.offset = c->in->heard - a.length;
	if (wanted(c, &a) && a.length)
		c->base.events->arrived(c->base.user);
}

void xs_segring_seek(struct xs_chan *c, uint64_t offset)
{
	uint64_t at = in_at(c);

	if (offset > at && offset - at <= xs_bytein_avail(c->in))
		xs_segring_advance(c, (size_t)(offset - at));
	else if (offset != at)
		bad(c);
}

size_t xs_segring_avail(struct xs_chan *c)
{
	size_t n = xs_bytein_avail(c->in);

	if (c->in->bad)
		bad(c);
	return n;
}

int xs_segring_peek(struct xs_chan *c, struct iovec *iov, int max, size_t *len)
{
	int n = xs_bytein_peek(c->in, iov, max, len);

	if (c->in->bad)
		bad(c);
	return n;
}

/* The sender has asked for room, and there's enough. */
static void tell_room(struct xs_chan *c)
{
	struct xs_msg m = {.kind = XS_K_ACK, .epoch = c->rx.epoch, .offset = in_at(c)};

	if (xs_bytein_settle(c->in) && c->rx.epoch)
		xs_segchan_send(c, &m);
}

void xs_segring_advance(struct xs_chan *c, size_t n)
{
	xs_bytein_advance(c->in, n);
	tell_room(c);
	if (!c->rx.epoch && in_at(c) >= c->in->end)
		xs_segring_rx_free(c);
}

/* The epoch is over: `keep` bytes are still served. */
void xs_segring_close(struct xs_chan *c, size_t keep)
{
	c->in->end = in_at(c) + keep;
	if (!keep)
		xs_segring_rx_free(c);
}

/* --- both ------------------------------------------------------------------------------------ */
void xs_segring_listen(struct xs_chan *c, bool on)
{
	if (c->in)
		xs_bytein_listen(c->in, on);
}

void xs_segring_settle(struct xs_chan *c, struct xs_moved *m)
{
	int budget = INT32_MAX;

	*m = (struct xs_moved){.tx = c->tx.shared != NULL, .rx = c->rx.shared != NULL};
	if (m->tx) {
		xs_segring_look(c);
		m->sent = c->tx.end;
		m->acked = c->tx.acked;
		if (xs_byteout_settle(c->out)) {
			c->tx.say = true;
			xs_segtx_pump(c, false, &budget);
		}
	}
	if (m->rx) {
		tell_room(c);
		m->consumed = in_at(c);
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * The receiving direction, and every segment that names a connection. Small payloads are copied;
 * bulk ones stay in the carrier's buffer until they're consumed, unless half of this link's bulk
 * entries are held already: then they're copied too, so that a stream whose reader sleeps never
 * takes the others' credits.
 */
#include "link/linkage.h"

#include "base/log.h"

#define KEEP_LEAST 8192u /* below that a copy is cheaper than an entry */

/* --- held buffers ---------------------------------------------------------------------------- */
void xs_segrx_give_back(void *arg, struct xs_rxbuf *buf)
{
	struct xs_chan *c = arg;
	struct xs_link *l = c->link;
	bool live = !c->dead;

	atomic_fetch_sub_explicit(&l->held, 1, memory_order_relaxed);
	l->ops->rx_done(buf);
	/* A dead channel doesn't keep the conduit: others' CREDIT will tell. */
	if (live)
		xs_credit_freed(l, XS_LANE_BULK);
	else
		atomic_fetch_add(&l->freed[XS_LANE_BULK], 1);
}

static bool may_keep(const struct xs_link *l, enum xs_lane lane, const struct xs_rxbuf *buf)
{
	return lane == XS_LANE_BULK && buf->length >= KEEP_LEAST &&
	       atomic_load_explicit(&l->held, memory_order_relaxed) < l->entries[XS_LANE_BULK] / 2;
}

/* --- segments of a channel; its connection is locked ----------------------------------------- */
static bool arrival(struct xs_chan *c, const struct xs_seghdr *h, uint32_t length)
{
	struct xs_arrival a = {
		.epoch = h->epoch,
		.flags = h->flags,
		.fin = h->kind == XS_K_FIN,
		.offset = h->offset,
		.length = length,
	};

	return c->base.events->segment(c->base.user, &a) && !c->closed &&
	       (a.fin || (a.epoch == c->rx.epoch && !c->dead));
}

static bool data(struct xs_chan *c, enum xs_lane lane, const struct xs_seghdr *h,
		 struct xs_rxbuf *buf)
{
	struct xs_link *l = c->link;
	enum xs_placed got;

	if (!arrival(c, h, buf->length)) {
		xs_link_drop(l);
		return false;
	}
	got = xs_reasm_place(&c->rx.data, h->offset, buf->payload, buf->length,
			     may_keep(l, lane, buf) ? buf : NULL);
	switch (got) {
	case XS_PLACED_KEPT:
		atomic_fetch_add_explicit(&l->held, 1, memory_order_relaxed);
		break;
	case XS_PLACED_COPIED:
		break;
	case XS_PLACED_NONE:
		xs_link_drop(l);
		return false;
	default:
		XS_LOG(WARN, "link %llu: id %u: %u bytes at %llu can't be placed",
		       (unsigned long long)l->id, c->key.id, buf->length,
		       (unsigned long long)h->offset);
		xs_link_drop(l);
		xs_segchan_die(c, got == XS_PLACED_BAD ? XS_R_INTERNAL : XS_R_NO_MEMORY);
		return false;
	}
	c->base.events->arrived(c->base.user);
	return got == XS_PLACED_KEPT;
}

static void message(struct xs_chan *c, uint8_t kind, uint8_t flags, uint16_t epoch, uint64_t offset)
{
	struct xs_msg m = {.kind = kind, .flags = flags, .epoch = epoch, .offset = offset};

	c->base.events->message(c->base.user, &m);
}

static void piggyback(struct xs_chan *c, const struct xs_seghdr *h)
{
	if (!h->ack_epoch || (h->ack_epoch == c->seen_ack_epoch && h->ack == c->seen_ack))
		return;
	c->seen_ack_epoch = h->ack_epoch;
	c->seen_ack = h->ack;
	message(c, XS_K_ACK, 0, h->ack_epoch, h->ack);
}

static bool take(struct xs_chan *c, enum xs_lane lane, const struct xs_seghdr *h,
		 struct xs_rxbuf *buf)
{
	struct xs_link *l = c->link;

	piggyback(c, h);
	if (c->closed || c->dead)
		return false;
	switch (h->kind) {
	case XS_K_DATA:
		if (h->flags & XS_F_RING) {
			xs_segring_segment(c, h, buf);
			return false;
		}
		return data(c, lane, h, buf);
	case XS_K_FIN:
		if (arrival(c, h, 0))
			c->base.events->arrived(c->base.user);
		return false;
	case XS_K_PREPARE:
	case XS_K_READY:
	case XS_K_SWITCHED:
	case XS_K_ACK:
	case XS_K_RETURN_ME:
	case XS_K_RETURNED:
	case XS_K_FLUSHED:
	case XS_K_PEER_GONE:
		message(c, h->kind, h->flags, h->epoch, h->offset);
		return false;
	default:
		xs_link_drop(l);
		return false;
	}
}

/* --- segments for an id whose connection is gone --------------------------------------------- */
static void late(struct xs_link *l, const struct xs_seghdr *h, const struct xs_id_gone *gone)
{
	struct xs_seghdr answer = {
		.id = gone->peer.id, .generation = gone->peer.generation, .epoch = h->epoch};

	xs_link_drop(l);
	if (gone->state == XS_ID_FREE || gone->link != l)
		return;
	if (h->kind == XS_K_RETURN_ME && !(h->flags & XS_F_SWITCHED))
		answer.kind = XS_K_RETURNED;
	else if (gone->state == XS_ID_RESET && !gone->told && h->kind != XS_K_PEER_GONE)
		answer.kind = XS_K_PEER_GONE;
	else
		return;
	xs_link_say(l, &answer, NULL);
}

bool xs_segrx_segment(struct xs_link *l, enum xs_lane lane, const struct xs_seghdr *h,
		      struct xs_rxbuf *buf)
{
	struct xs_id_key key = {h->id, h->generation};
	struct xs_entered e;
	struct xs_id_gone gone;
	bool kept = false;

	if (!xs_id_enter(key, &e, &gone)) {
		late(l, h, &gone);
		return false;
	}
	if (e.chan->link == l && !e.chan->dead) {
		e.chan->in_event = true;
		kept = take(e.chan, lane, h, buf);
		if (xs_segchan_event_end(e.chan))
			xs_segchan_uncork(e.chan);
	} else {
		xs_link_drop(l);
	}
	xs_id_leave(&e);
	return kept;
}

/* --- the owner's operations ------------------------------------------------------------------ */
void xs_segrx_open(struct xs_chan *c, uint16_t epoch, uint64_t from)
{
	xs_segring_rx_free(c);
	c->rx.epoch = epoch;
	xs_reasm_reset(&c->rx.data, from);
}

void xs_segrx_seek(struct xs_chan *c, uint64_t offset)
{
	if (c->rx.shared)
		xs_segring_seek(c, offset);
	else
		xs_reasm_consume(&c->rx.data, offset);
}

int xs_segrx_peek(struct xs_chan *c, struct iovec *iov, int max, size_t *len)
{
	if (c->rx.shared)
		return xs_segring_peek(c, iov, max, len);
	return xs_reasm_peek(&c->rx.data, iov, max, len);
}

void xs_segrx_advance(struct xs_chan *c, size_t n)
{
	if (c->rx.shared)
		xs_segring_advance(c, n);
	else
		xs_reasm_consume(&c->rx.data, c->rx.data.at + n);
}

size_t xs_segrx_avail(struct xs_chan *c)
{
	return c->rx.shared ? xs_segring_avail(c) : (size_t)(c->rx.data.contig - c->rx.data.at);
}

void xs_segrx_close(struct xs_chan *c, size_t keep)
{
	c->rx.epoch = 0;
	if (c->rx.shared)
		xs_segring_close(c, keep);
	xs_reasm_cut(&c->rx.data, c->rx.data.at + keep);
}

void xs_segrx_free(struct xs_chan *c)
{
	xs_segring_rx_free(c);
	c->rx.epoch = 0;
	xs_reasm_free(&c->rx.data);
}

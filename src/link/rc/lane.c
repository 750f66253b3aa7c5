/* SPDX-License-Identifier: MIT */
/*
 * The data path of the rc carrier: posting, polling, delivering.
 *
 * Sending. A lane is one queue pair's send side. Request n uses slot n mod depth: 256 bytes of
 * registered memory for the header and, up to 224 bytes, the payload behind it, so that a small
 * segment is one contiguous piece which the device takes inline. A larger payload stays where it
 * is. Requests are chained and handed over together at XS_POST_NOW, when the chain is full, and
 * after each poll. Every 32nd (small) or 16th (bulk) request is signalled; a completion covers all
 * before it. A slot is free when its request has completed: `posted - completed` stays below the
 * depth, so that one more request always fits: the mark behind the last one that says when a dead
 * queue pair is drained.
 *
 * Receiving. One thread at a time polls (the engine sees to that). A completion carries the entry's
 * index and the queue pair's number. The header is copied before anything in it is believed. The
 * entry is posted again at once, or when its holder gives it back.
 *
 * On the accepting side segments may come before the cm has said ESTABLISHED; they wait in the
 * device's `early` list, in order.
 *
 * Any error completion ends the conduit. Bytes that came before it are delivered.
 */
#include "base/crit.h"
#include "base/log.h"
#include "link/rc/rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_DEPTH 256
#define BULK_DEPTH 64
#define SLOTS_PER_SLAB (4096 / XS_RC_SLOT)
#define MAX_ROUNDS 8 /* of XS_RC_BATCH completions per call of poll */
#define RX_TAG (1ULL << 63)

/* --- a lane's life ---------------------------------------------------------------------------- */
int xs_lane_init(struct xs_rc_lane *l, struct xs_conduit *c, enum xs_lane lane)
{
	uint32_t slabs;

	l->c = c;
	l->lane = lane;
	l->depth = lane == XS_LANE_SMALL ? SMALL_DEPTH : BULK_DEPTH;
	l->signal_every = lane == XS_LANE_SMALL ? 32 : 16;
	slabs = l->depth / SLOTS_PER_SLAB;
	l->slots = calloc(slabs, sizeof(*l->slots));
	for (uint32_t i = 0; l->slots && i < slabs; i++) {
		l->slots[i] = xs_pool_get(XS_SLAB_4K);
		if (!l->slots[i])
			return -ENOMEM;
	}
	return l->slots ? 0 : -ENOMEM;
}

void xs_lane_free(struct xs_rc_lane *l)
{
	for (uint32_t i = 0; l->slots && i < l->depth / SLOTS_PER_SLAB; i++)
		xs_pool_put(l->slots[i], XS_SLAB_4K);
	free(l->slots);
	l->slots = NULL;
}

/* A counter that is changed under a lock only. */
static void count(_Atomic uint64_t *n)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* --- sending ---------------------------------------------------------------------------------- */
/* Hands the chain to the device. */
static void ring(struct xs_rc_lane *l) XS_REQUIRES(l->lock)
{
	struct ibv_send_wr *bad = NULL, *w;
	uint32_t failed = 0;
	int r;

	if (!l->pending)
		return;
	l->wr[l->pending - 1].next = NULL;
	r = xs_verbs_post_send(l, l->wr, &bad);
	count(&l->doorbells);
	if (r) {
		for (w = bad; w; w = w->next)
			failed++;
		XS_LOG(WARN, "rc: posting failed: error %d", -r);
		xs_conduit_fail(l->c, XS_R_LINK_LOST);
	}
	l->rung += l->pending - failed;
	l->pending = 0;
}

void xs_lane_close(struct xs_rc_lane *l)
{
	xs_lock_take(&l->lock);
	if (!l->closed && l->qp)
		ring(l);
	l->closed = true;
	xs_lock_drop(&l->lock);
}

bool xs_lane_idle(struct xs_rc_lane *l)
{
	return atomic_load(&l->completed) >= l->rung;
}

/* One request into the chain; there is room. */
static void add(struct xs_rc_lane *l, const struct xs_seghdr *h, const void *payload,
		unsigned flags) XS_REQUIRES(l->lock)
{
	const struct xs_pool_reg *reg = &l->c->dev->pool;
	uint32_t slot = (uint32_t)(l->posted % l->depth);
	uint8_t *mem = l->slots[slot / SLOTS_PER_SLAB] + slot % SLOTS_PER_SLAB * XS_RC_SLOT;
	struct ibv_send_wr *wr = &l->wr[l->pending];
	struct ibv_sge *sge = l->sge[l->pending];
	bool signal = (flags & XS_POST_SIGNAL) || l->unsignalled + 1 >= l->signal_every;

	memcpy(mem, h, XS_RC_HEADER);
	sge[0] = (struct ibv_sge){(uintptr_t)mem, XS_RC_HEADER, xs_pool_key(reg, mem)};
	*wr = (struct ibv_send_wr){.wr_id = ++l->posted,
				   .next = wr + 1,
				   .sg_list = sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND};
	if (h->length <= XS_RC_INLINE) {
		if (h->length)
			memcpy(mem + XS_RC_HEADER, payload, h->length);
		sge[0].length += h->length;
		if (sge[0].length <= l->c->dev->inline_max)
			wr->send_flags = IBV_SEND_INLINE;
	} else {
		sge[1] = (struct ibv_sge){(uintptr_t)payload, h->length, xs_pool_key(reg, payload)};
		wr->num_sge = 2;
	}
	l->unsignalled = signal ? 0 : l->unsignalled + 1;
	if (signal) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		count(&l->signalled);
	}
	count(&l->posts);
	l->pending++;
}

/* The poller looks at `starved` after it has raised `completed`; we look the other way round. */
static bool full(struct xs_rc_lane *l) XS_REQUIRES(l->lock)
{
	if (l->posted - atomic_load(&l->completed) < l->depth - 1)
		return false;
	atomic_store(&l->starved, true);
	return l->posted - atomic_load(&l->completed) >= l->depth - 1;
}

/*
 * In ERROR every request that the peer hasn't acknowledged completes, but one that it has, and that
 * wasn't signalled, never will: the mark, posted in ERROR, completes behind all of them.
 */
void xs_lane_mark(struct xs_rc_lane *l)
{
	static const struct xs_seghdr nothing;

	xs_lock_take(&l->lock);
	add(l, &nothing, NULL, XS_POST_SIGNAL);
	ring(l);
	xs_lock_drop(&l->lock);
}

static int post_locked(struct xs_rc_lane *l, const struct xs_seghdr *h, const void *payload,
		       unsigned flags, uint64_t *seq) XS_REQUIRES(l->lock)
{
	if (l->closed)
		return -ENOTCONN;
	if (full(l)) {
		ring(l);
		return -EAGAIN;
	}
	add(l, h, payload, flags);
	*seq = l->posted;
	if ((flags & XS_POST_NOW) || l->pending == XS_RC_CHAIN)
		ring(l);
	return 0;
}

int xs_lane_post(struct xs_conduit *c, enum xs_lane lane, const struct xs_seghdr *h,
		 const void *payload, unsigned flags, uint64_t *seq)
{
	struct xs_rc_lane *l = &c->lane[lane];
	int saved = errno, r;

	if (xs_rc_state_of(c) != XS_RC_UP)
		return -ENOTCONN;
	xs_lock_take(&l->lock);
	r = post_locked(l, h, payload, flags, seq);
	xs_lock_drop(&l->lock);
	errno = saved;
	return r;
}

/* --- completions; the polling thread ---------------------------------------------------------- */
/* The conduits that one batch of completions was about. */
struct batch {
	struct xs_conduit *touched[XS_RC_BATCH];
	unsigned n;
};

static void touch(struct batch *b, struct xs_conduit *c)
{
	for (unsigned i = 0; i < b->n; i++)
		if (b->touched[i] == c)
			return;
	b->touched[b->n++] = c;
	xs_conduit_hold(c);
}

static void failed(struct xs_rc_lane *l, const struct ibv_wc *wc)
{
	struct xs_conduit *c = l->c;

	if (wc->status == IBV_WC_RNR_RETRY_EXC_ERR)
		atomic_fetch_add(&c->rnr, 1);
	if (wc->status != IBV_WC_WR_FLUSH_ERR)
		XS_LOG(WARN, "rc: lane %d: %s, vendor error %u", l->lane,
		       xs_verbs_status(wc->status), wc->vendor_err);
	xs_conduit_fail(c, XS_R_LINK_LOST);
}

static void sent(struct xs_rc_lane *l, uint64_t upto)
{
	atomic_store(&l->completed, upto);
	if (atomic_load(&l->starved) && atomic_exchange(&l->starved, false))
		xs_link_ready(l->c->link);
}

/* Hands a segment up. True: it's held. */
static bool deliver(struct xs_rc_lane *l, struct xs_rc_rx *rx)
{
	struct xs_conduit *c = l->c;
	bool may_hold = l->lane == XS_LANE_BULK, held; /* the contract of carrier.h */
	struct xs_seghdr h;

	memcpy(&h, rx->mem, sizeof(h));
	if (h.length != rx->got - XS_RC_HEADER) {
		atomic_fetch_add(&c->dropped, 1);
		XS_LOG(WARN, "rc: a segment of %u bytes says %u", rx->got, h.length);
		xs_conduit_fail(c, XS_R_INTERNAL);
		return false;
	}
	rx->buf.payload = rx->mem + XS_RC_HEADER;
	rx->buf.length = h.length;
	rx->buf.conduit = c;
	if (may_hold)
		xs_conduit_hold(c);
	held = xs_link_segment(c->link, l->lane, &h, &rx->buf);
	if (may_hold && !held)
		xs_conduit_drop(c);
	return held;
}

/* A segment of a conduit that isn't up: waits. A peer gets no more entries by that than it's
 * promised when it's up. */
static void keep_early(struct xs_rc_dev *d, struct xs_rc_lane *l, struct xs_rc_rx *rx)
{
	if (l->c->early++ > l->c->entries[XS_LANE_SMALL] + l->c->entries[XS_LANE_BULK])
		xs_conduit_fail(l->c, XS_R_INTERNAL);
	xs_conduit_hold(l->c);
	rx->buf.conduit = l->c;
	rx->next = NULL;
	*d->early_end = rx;
	d->early_end = &rx->next;
	atomic_store(&d->has_early, true);
}

enum verdict { SERVE, KEEP, DROP };

static enum verdict judge(const struct xs_conduit *c)
{
	if (atomic_load_explicit(&c->open, memory_order_acquire))
		return SERVE;
	return xs_rc_state_of(c) > XS_RC_UP ? DROP : KEEP;
}

static bool early_of(struct xs_rc_dev *d, const struct xs_conduit *c)
{
	for (struct xs_rc_rx *rx = d->early; rx; rx = rx->next)
		if (rx->buf.conduit == c)
			return true;
	return false;
}

/* Serves what came early for conduits that are up by now, or dead; the rest stays in order. */
static void serve_early(struct xs_rc_dev *d)
{
	struct xs_rc_rx *rx = d->early, *next;

	d->early = NULL;
	d->early_end = &d->early;
	for (; rx; rx = next) {
		struct xs_conduit *c = rx->buf.conduit;
		enum verdict v = judge(c);

		next = rx->next;
		c->early--;
		if (v == KEEP)
			keep_early(d, &c->lane[rx->buf.lane], rx);
		else if (v == DROP || !deliver(&c->lane[rx->buf.lane], rx))
			xs_rq_give_back(&d->rq[rx->buf.lane], rx);
		if (v == SERVE)
			xs_link_batch_end(c->link);
		xs_conduit_drop(c);
	}
	atomic_store(&d->has_early, d->early != NULL);
}

void xs_lane_drop_early(struct xs_rc_dev *d)
{
	while (d->early) {
		struct xs_rc_rx *rx = d->early;

		d->early = rx->next;
		xs_conduit_drop(rx->buf.conduit);
	}
	d->early_end = &d->early;
	atomic_store(&d->has_early, false);
}

static void received(struct xs_rc_dev *d, struct xs_rc_lane *l, const struct ibv_wc *wc)
{
	uint32_t index = (uint32_t)wc->wr_id;
	struct xs_rc_rq *q;
	struct xs_rc_rx *rx;
	enum verdict v;

	if (!l) /* can't be: a queue pair leaves the table after its last completion */
		return;
	q = &d->rq[l->lane];
	rx = xs_rq_entry(q, index);
	rx->got = wc->byte_len;
	if (wc->status != IBV_WC_SUCCESS || wc->byte_len < XS_RC_HEADER) {
		failed(l, wc);
		xs_rq_give_back(q, rx);
		return;
	}
	v = judge(l->c);
	if (v == KEEP || (d->early && early_of(d, l->c)))
		keep_early(d, l, rx);
	else if (v == DROP || !deliver(l, rx))
		xs_rq_give_back(q, rx);
}

static void completion(struct xs_rc_dev *d, const struct ibv_wc *wc, struct batch *b)
{
	struct xs_rc_lane *l = xs_dev_lane(d, wc->qp_num);

	if (l)
		touch(b, l->c);
	if (wc->wr_id & RX_TAG) {
		received(d, l, wc);
		return;
	}
	if (!l)
		return;
	if (wc->status != IBV_WC_SUCCESS)
		failed(l, wc);
	sent(l, wc->wr_id);
}

/* What the upper layer has posted without ringing goes out now. */
static void ring_all(struct xs_conduit *c)
{
	for (int i = 0; i < XS_LANES; i++) {
		struct xs_rc_lane *l = &c->lane[i];

		if (!__atomic_load_n(&l->pending, __ATOMIC_RELAXED))
			continue;
		xs_lock_take(&l->lock);
		if (!l->closed)
			ring(l);
		xs_lock_drop(&l->lock);
	}
}

static void end_batch(struct xs_rc_dev *d, struct batch *b)
{
	for (int i = 0; i < XS_LANES; i++)
		xs_rq_flush(&d->rq[i]);
	for (unsigned i = 0; i < b->n; i++) {
		if (judge(b->touched[i]) == SERVE)
			xs_link_batch_end(b->touched[i]->link);
		ring_all(b->touched[i]);
		xs_conduit_drop(b->touched[i]);
	}
}

int xs_lane_poll(struct xs_poller *p)
{
	struct xs_rc_dev *d = (struct xs_rc_dev *)((char *)p - offsetof(struct xs_rc_dev, poller));
	struct ibv_wc wc[XS_RC_BATCH];
	int saved = errno, total = 0, n;

	if (d->early)
		serve_early(d);
	for (int round = 0; round < MAX_ROUNDS; round++) {
		struct batch b;

		b.n = 0;
		n = xs_verbs_poll(d, wc, XS_RC_BATCH);
		for (int i = 0; i < n; i++)
			completion(d, &wc[i], &b);
		if (n > 0) {
			end_batch(d, &b);
			total += n;
		}
		if (n < XS_RC_BATCH)
			break;
	}
	if (n < XS_RC_BATCH)
		count(&d->empties); /* one thread polls at a time */
	errno = saved;
	return total;
}

/* --- held memory comes back; any thread ------------------------------------------------------- */
void xs_lane_rx_done(struct xs_rxbuf *buf)
{
	struct xs_rc_rx *rx = (struct xs_rc_rx *)((char *)buf - offsetof(struct xs_rc_rx, buf));
	struct xs_conduit *c = buf->conduit;

	xs_rq_give_back(&c->dev->rq[buf->lane], rx);
	xs_conduit_drop(c);
}

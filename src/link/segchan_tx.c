/* SPDX-License-Identifier: MIT */
/*
 * The sending direction. Bytes are copied into the ring when they're taken, and stay there until
 * the peer has consumed them; `next` is how far they have been posted. What can't be posted for
 * lack of credits waits in the ring, so that many small writes become one segment.
 *
 * The window begins small and doubles at an acknowledgement if it has cut a write short before. The
 * ring's memory follows what's kept: the smallest slab when nothing is, and none once the channel
 * has been idle.
 *
 * A segment asks for an acknowledgement (WANT_ACK) where it crosses a quarter of the window and
 * whenever less than a quarter is left: a blocked writer's next segment then always brings one.
 */
#include "link/linkage.h"

#include "base/config.h"

#include <errno.h>
#include <string.h>

#define WHOLE 4096
#define WINDOW_FIRST (16u << 10)
#define WINDOW_LEAST (4u << 10)
#define CHUNK_LEAST (4u << 10)

/* --- posting --------------------------------------------------------------------------------- */
static size_t chunk_of(const struct xs_chan *c)
{
	size_t chunk = c->tx.window / 4;

	if (chunk < CHUNK_LEAST)
		chunk = CHUNK_LEAST;
	if (chunk > xs_config()->chunk)
		chunk = (size_t)xs_config()->chunk;
	return chunk < c->link->max[XS_LANE_BULK] ? chunk : c->link->max[XS_LANE_BULK];
}

/* Which lane takes how much of what's next. */
static enum xs_lane cut(const struct xs_chan *c, uint8_t **p, size_t *n)
{
	const struct xs_tx *tx = &c->tx;
	size_t all = (size_t)(tx->end - tx->next), small = c->link->max[XS_LANE_SMALL];
	size_t chunk = chunk_of(c);

	*n = xs_txring_at(&tx->ring, tx->next, all < small || all < chunk ? all : chunk, p);
	return *n <= small ? XS_LANE_SMALL : XS_LANE_BULK;
}

static uint8_t data_flags(const struct xs_tx *tx, uint64_t end)
{
	size_t quarter = tx->window / 4 ? tx->window / 4 : 1;
	size_t left = tx->window - (size_t)(tx->end - tx->acked);
	uint8_t flags = 0;

	if (tx->first)
		flags |= XS_F_FIRST;
	if (tx->confirmed)
		flags |= XS_F_CONFIRMED;
	if (left < quarter || tx->next / quarter != end / quarter)
		flags |= XS_F_WANT_ACK;
	return flags;
}

/* One segment of data. False: it has to wait. */
static bool post_data(struct xs_chan *c, bool served)
{
	uint64_t rooms = atomic_load(&c->link->room_count), seq = 0;
	struct xs_tx *tx = &c->tx;
	unsigned flags = xs_link_now();
	struct xs_seghdr h;
	enum xs_lane lane;
	uint8_t *p;
	size_t n;
	int r;

	lane = cut(c, &p, &n);
	if (!xs_credit_take(c->link, lane, c, served))
		return false;
	xs_segchan_header(c, XS_K_DATA, &h);
	h.epoch = tx->epoch;
	h.offset = tx->next;
	h.length = (uint32_t)n;
	h.flags = data_flags(tx, tx->next + n);
	if (n > c->link->ops->inline_max && tx->next + n == tx->end)
		flags |= XS_POST_SIGNAL; /* the ring's memory is wanted back */
	r = xs_link_post(c->link, lane, &h, p, flags, &seq);
	if (r) {
		xs_segchan_refused(c, lane, r, rooms);
		return false;
	}
	if (n > c->link->ops->inline_max)
		tx->ring.seq[lane] = seq;
	tx->first = false;
	tx->next += n;
	return true;
}

bool xs_segtx_post_short(struct xs_chan *c, bool served, const struct xs_seghdr *what,
			 const void *payload)
{
	uint64_t rooms = atomic_load(&c->link->room_count), seq;
	struct xs_tx *tx = &c->tx;
	struct xs_seghdr h;
	int r;

	if (!xs_credit_take(c->link, XS_LANE_SMALL, c, served))
		return false;
	xs_segchan_header(c, what->kind, &h);
	h.epoch = tx->epoch;
	h.offset = what->offset;
	h.length = what->length;
	h.flags = (uint8_t)(what->flags | (tx->first ? XS_F_FIRST : 0) |
			    (tx->confirmed ? XS_F_CONFIRMED : 0));
	r = xs_link_post(c->link, XS_LANE_SMALL, &h, payload, xs_link_now(), &seq);
	if (r) {
		xs_segchan_refused(c, XS_LANE_SMALL, r, rooms);
		return false;
	}
	tx->first = false;
	return true;
}

static void post_fin(struct xs_chan *c, bool served)
{
	struct xs_seghdr h = {.kind = XS_K_FIN, .offset = c->tx.end, .flags = c->tx.fin_flags};

	c->tx.fin_posted = xs_segtx_post_short(c, served, &h, NULL);
}

void xs_segtx_pump(struct xs_chan *c, bool served, int *budget)
{
	struct xs_tx *tx = &c->tx;
	uint8_t *p;
	size_t n;

	if (!tx->epoch || tx->stopped || c->dead || c->corked)
		return;
	if (tx->shared && !xs_segring_say(c, served))
		return;
	while (tx->next<tx->end && * budget> 0) {
		if (!post_data(c, served))
			return;
		--*budget;
	}
	if (tx->next < tx->end)
		xs_credit_wait(c->link, cut(c, &p, &n), c);
	else if (tx->fin && !tx->fin_posted)
		post_fin(c, served);
}

/* --- the owner's operations ------------------------------------------------------------------ */
void xs_segtx_limit(struct xs_chan *c, size_t bytes)
{
	size_t most = (size_t)xs_config()->window_max;

	if (most > XS_WINDOW_MAX)
		most = XS_WINDOW_MAX;
	if (bytes > most)
		bytes = most;
	if (bytes < WINDOW_LEAST)
		bytes = WINDOW_LEAST;
	c->tx.limit = bytes;
	if (c->tx.window > bytes)
		c->tx.window = bytes;
}

void xs_segtx_open(struct xs_chan *c, uint16_t epoch, uint64_t x)
{
	size_t limit = c->tx.limit;

	xs_segtx_free(c);
	c->tx = (struct xs_tx){.epoch = epoch, .acked = x, .next = x, .end = x, .limit = limit};
	c->tx.window = limit < WINDOW_FIRST ? limit : WINDOW_FIRST;
	xs_segring_open(c, x);
}

size_t xs_segtx_room(struct xs_chan *c)
{
	const struct xs_tx *tx = &c->tx;
	size_t kept = (size_t)(tx->end - tx->acked);

	if (!tx->epoch || tx->stopped || tx->fin || c->dead)
		return 0;
	if (tx->shared)
		return xs_segring_room(c);
	return kept < tx->window ? tx->window - kept : 0;
}

void xs_segtx_idle(struct xs_chan *c)
{
	if (c->tx.shared)
		xs_segring_idle(c);
	else if (c->tx.acked == c->tx.end)
		xs_txring_free(&c->tx.ring, c->link);
}

/* n bytes of iov from byte skip on go into the ring at offset. */
static void copy_in(struct xs_txring *r, uint64_t offset, const struct iovec *iov, size_t skip,
		    size_t n)
{
	for (; n; iov++) {
		size_t some = iov->iov_len > skip ? iov->iov_len - skip : 0;

		if (some > n)
			some = n;
		if (some)
			xs_txring_write(r, offset, (const uint8_t *)iov->iov_base + skip, some);
		skip -= skip < iov->iov_len ? skip : iov->iov_len;
		offset += some;
		n -= some;
	}
}

ssize_t xs_segtx_put(struct xs_chan *c, const struct iovec *iov, int iovcnt, size_t skip,
		     unsigned flags)
{
	size_t want = 0, room = xs_segtx_room(c), n;
	struct xs_tx *tx = &c->tx;
	int budget = INT32_MAX;

	if (c->dead)
		return -ENOTCONN;
	if (tx->shared)
		return xs_segring_put(c, iov, iovcnt, skip, flags);
	for (int i = 0; i < iovcnt; i++)
		want += iov[i].iov_len;
	want = want > skip ? want - skip : 0;
	n = want < room ? want : room;
	if (n < want)
		tx->short_of = true;
	if (n < want && want <= WHOLE && tx->end > tx->acked)
		n = 0; /* small writes are taken whole or not at all, as the kernel does */
	if (flags & XS_F_FIRST)
		tx->first = true;
	if (flags & XS_F_CONFIRMED)
		tx->confirmed = true;
	if (!n)
		return want ? -EAGAIN : 0;
	n = (size_t)(xs_txring_reserve(&tx->ring, c->link, tx->acked, tx->end, tx->end + n) -
		     tx->end);
	if (!n)
		return tx->end > tx->acked ? -EAGAIN : -ENOMEM;
	copy_in(&tx->ring, tx->end, iov, skip, n);
	tx->end += n;
	xs_segtx_pump(c, false, &budget);
	return (ssize_t)n;
}

void xs_segtx_fin(struct xs_chan *c, unsigned flags)
{
	int budget = INT32_MAX;

	if (c->tx.shared)
		xs_segring_look(c);
	c->tx.fin = true;
	c->tx.fin_flags = (uint8_t)flags;
	xs_segtx_pump(c, false, &budget);
}

void xs_segtx_acked(struct xs_chan *c, uint64_t offset)
{
	struct xs_tx *tx = &c->tx;

	if (tx->shared)
		xs_segring_look(c);
	if (offset > tx->end)
		offset = tx->end;
	if (!tx->epoch || offset <= tx->acked)
		return;
	tx->acked = offset;
	if (tx->next < offset)
		tx->next = offset;
	if (tx->acked == tx->end && tx->ring.slab > XS_SLAB_4K)
		xs_txring_free(&tx->ring, c->link);
	if (!tx->short_of || tx->window >= tx->limit)
		return;
	tx->short_of = false;
	tx->window = tx->window * 2 < tx->limit ? tx->window * 2 : tx->limit;
}

size_t xs_segtx_kept(struct xs_chan *c, uint64_t offset, struct iovec iov[2])
{
	const struct xs_tx *tx = &c->tx;
	uint8_t *p;
	size_t n = 0;

	if (offset < tx->acked)
		offset = tx->acked;
	if (tx->shared)
		return xs_byteout_kept(c->out, offset, iov);
	while (tx->ring.mem && offset < tx->end && n < 2) {
		iov[n].iov_len = xs_txring_at(&tx->ring, offset, (size_t)(tx->end - offset), &p);
		iov[n].iov_base = p;
		offset += iov[n].iov_len;
		n++;
	}
	return n;
}

void xs_segtx_stop(struct xs_chan *c)
{
	c->tx.stopped = true;
}

void xs_segtx_close(struct xs_chan *c)
{
	xs_segtx_free(c);
	c->tx.acked = c->tx.next = c->tx.end;
	c->tx.fin = c->tx.fin_posted = c->tx.first = false;
}

void xs_segtx_free(struct xs_chan *c)
{
	xs_txring_free(&c->tx.ring, c->link);
	if (c->tx.shared)
		xs_segring_tx_free(c);
	c->tx.epoch = 0;
}

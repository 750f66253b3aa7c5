/* SPDX-License-Identifier: MIT */
/* The two sides of a ring of bytes, under their locks; the rules are in bytering.h. */
#include "base/bytering.h"

#include <string.h>

static size_t piece(struct xs_bytering *r, unsigned order, uint64_t at, size_t n, uint8_t **p)
{
	size_t size = (size_t)1 << order, place = (size_t)(at & (size - 1));

	*p = r->data + place;
	return n < size - place ? n : size - place;
}

static uint64_t index_of(const struct xs_byteside *s)
{
	return atomic_load_explicit(&s->at, memory_order_relaxed);
}

static void show(struct xs_byteside *s, uint64_t at)
{
	atomic_store_explicit(&s->at, at, memory_order_relaxed);
	atomic_store(s->mirror, at);
}

/* False: nothing has moved since the word was looked at. */
static bool shown(struct xs_byteside *s)
{
	uint64_t at = index_of(s);

	if (s->told == at)
		return false;
	if (atomic_load_explicit(s->mirror, memory_order_relaxed) != at)
		atomic_store(s->mirror, at);
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}

bool xs_byteout_settle(struct xs_byteout *o)
{
	if (!shown(&o->side))
		return false;
	o->side.told = index_of(&o->side);
	return atomic_load(o->side.word) && atomic_exchange(o->side.word, 0);
}

/* --- the writer ------------------------------------------------------------------------------ */
static void set_order(struct xs_byteout *o, unsigned order)
{
	o->order = order;
	o->stop = UINT64_MAX;
	atomic_store_explicit(&o->side.ring->order, order, memory_order_release);
}

static unsigned order_for(uint64_t window)
{
	unsigned order = XS_BYTE_LEAST;

	while (order < XS_BYTE_MOST && (1u << order) < window)
		order++;
	return order;
}

static void set_window(struct xs_byteout *o, uint64_t limit)
{
	o->window = limit < (1u << o->order) ? limit : 1u << o->order;
}

void xs_byteout_open(struct xs_byteout *o, struct xs_bytering *ring, uint64_t x, uint64_t window)
{
	*o = (struct xs_byteout){.seen = x};
	o->side.ring = ring;
	o->side.mirror = &ring->tail;
	o->side.word = &ring->armed;
	o->side.told = x;
	atomic_store(&ring->head, x);
	atomic_store(&ring->starved, 0);
	atomic_store(&ring->armed, 1);
	set_order(o, order_for(window));
	set_window(o, window);
	show(&o->side, x);
}

void xs_byteout_close(struct xs_byteout *o)
{
	o->side.ring = NULL;
}

uint64_t xs_byteout_head(struct xs_byteout *o)
{
	uint64_t head = atomic_load(&o->side.ring->head);

	if (head - o->seen <= index_of(&o->side) - o->seen)
		o->seen = head;
	return o->seen;
}

size_t xs_byteout_room(struct xs_byteout *o)
{
	uint64_t in = index_of(&o->side) - xs_byteout_head(o);

	return in < o->window ? (size_t)(o->window - in) : 0;
}

void xs_byteout_put(struct xs_byteout *o, const struct iovec *iov, size_t skip, size_t n)
{
	uint64_t at = index_of(&o->side);
	uint8_t *to;

	for (; n; iov++) {
		const uint8_t *from = (const uint8_t *)iov->iov_base + skip;
		size_t left = iov->iov_len > skip ? iov->iov_len - skip : 0;

		skip -= skip < iov->iov_len ? skip : iov->iov_len;
		if (left > n)
			left = n;
		n -= left;
		while (left) {
			size_t some = piece(o->side.ring, o->order, at, left, &to);

			memcpy(to, from, some);
			from += some;
			at += some;
			left -= some;
		}
	}
	show(&o->side, at);
}

uint64_t xs_byteout_grow(struct xs_byteout *o, uint64_t limit)
{
	uint64_t at = index_of(&o->side), size = (uint64_t)1 << o->order;

	if (o->window >= limit)
		return UINT64_MAX;
	if (size >= limit || o->order == XS_BYTE_MOST) { /* the limit was lower before */
		set_window(o, limit);
		return UINT64_MAX;
	}
	if (at == xs_byteout_head(o) || (at & (2 * size - 1)) == size) {
		set_order(o, o->order + 1);
		set_window(o, limit);
		return UINT64_MAX;
	}
	o->stop = at + ((size - at) & (2 * size - 1));
	return o->stop - at;
}

bool xs_byteout_shrink(struct xs_byteout *o, uint64_t window)
{
	if (o->order <= order_for(window) || index_of(&o->side) != xs_byteout_head(o))
		return false;
	set_order(o, order_for(window));
	set_window(o, window);
	return true;
}

size_t xs_byteout_kept(const struct xs_byteout *o, uint64_t offset, struct iovec iov[2])
{
	uint64_t at = index_of(&o->side);
	uint8_t *p;
	size_t n = 0;

	while (offset < at && n < 2) {
		iov[n].iov_len = piece(o->side.ring, o->order, offset, (size_t)(at - offset), &p);
		iov[n].iov_base = p;
		offset += iov[n].iov_len;
		n++;
	}
	return n;
}

bool xs_byteout_starve(struct xs_byteout *o)
{
	uint64_t before = o->seen;

	atomic_store(&o->side.ring->starved, 1);
	atomic_thread_fence(memory_order_seq_cst);
	return xs_byteout_head(o) != before;
}

/* --- the reader ------------------------------------------------------------------------------ */
void xs_bytein_open(struct xs_bytein *i, struct xs_bytering *ring, uint32_t use, uint64_t x)
{
	bool listens = i->listens;

	*i = (struct xs_bytein){.heard = x, .end = UINT64_MAX, .use = use, .listens = listens};
	i->side.ring = ring;
	i->side.mirror = &ring->head;
	i->side.word = &ring->starved;
	i->side.told = x;
	atomic_store_explicit(&i->side.at, x, memory_order_relaxed);
}

void xs_bytein_close(struct xs_bytein *i)
{
	/* Late bytes are for nobody, and the writer is told so. */
	atomic_store(&i->side.ring->armed, 1);
	atomic_store(&i->side.ring->left, i->use);
	i->side.ring = NULL;
}

/* The writer's index, no further than `end`; it never goes back. */
static uint64_t tail_of(struct xs_bytein *i)
{
	uint64_t at = index_of(&i->side), tail;

	if (i->bad)
		return at;
	tail = atomic_load(&i->side.ring->tail);
	if (tail - at > 1u << XS_BYTE_MOST || tail < i->heard) {
		i->bad = true;
		return at;
	}
	return tail < i->end ? tail : i->end;
}

static unsigned order_of(const struct xs_bytein *i)
{
	uint32_t order = atomic_load_explicit(&i->side.ring->order, memory_order_acquire);

	return order < XS_BYTE_LEAST ? XS_BYTE_LEAST : order > XS_BYTE_MOST ? XS_BYTE_MOST : order;
}

size_t xs_bytein_avail(struct xs_bytein *i)
{
	return (size_t)(tail_of(i) - index_of(&i->side));
}

bool xs_bytein_settle(struct xs_bytein *i)
{
	uint64_t at = index_of(&i->side);

	if (!shown(&i->side))
		return false;
	if (atomic_load(i->side.word) && tail_of(i) - at > 1u << (order_of(i) - 1))
		return false; /* not yet: looked at again */
	i->side.told = at;
	return atomic_load(i->side.word) && atomic_exchange(i->side.word, 0);
}

int xs_bytein_peek(struct xs_bytein *i, struct iovec *iov, int max, size_t *len)
{
	uint64_t at = index_of(&i->side), tail = tail_of(i);
	unsigned order = order_of(i);
	uint8_t *p;
	int n = 0;

	*len = 0;
	if (tail - at > 1u << order) {
		i->bad = true;
		return 0;
	}
	while (at < tail && n < max && n < 2) {
		iov[n].iov_len = piece(i->side.ring, order, at, (size_t)(tail - at), &p);
		iov[n].iov_base = p;
		at += iov[n].iov_len;
		*len += iov[n].iov_len;
		n++;
	}
	return n;
}

void xs_bytein_advance(struct xs_bytein *i, size_t n)
{
	show(&i->side, index_of(&i->side) + n);
}

void xs_bytein_listen(struct xs_bytein *i, bool on)
{
	i->listens = on;
	if (i->side.ring)
		atomic_store(&i->side.ring->armed, on);
}

size_t xs_bytein_news(struct xs_bytein *i)
{
	uint64_t before = i->heard, tail;

	if (before < index_of(&i->side))
		before = index_of(&i->side);
	if (i->listens) {
		atomic_store(&i->side.ring->armed, 1);
		atomic_thread_fence(memory_order_seq_cst);
	}
	tail = tail_of(i);
	i->heard = tail > before ? tail : before;
	return (size_t)(i->heard - before);
}

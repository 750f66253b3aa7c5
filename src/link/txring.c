/* SPDX-License-Identifier: MIT */
/*
 * The sender's ring. Offset o lies at o modulo the slab's size (a power of two). When more has to
 * be kept a larger slab takes over: the kept bytes are copied, and the old slab goes back to the
 * pool once the posts that read it have completed. Acknowledged bytes may be overwritten at once:
 * the peer has consumed them, so no request that the peer still needs reads them.
 */
#include "link/txring.h"

#include "link/linkage.h"

#include <string.h>

size_t xs_txring_at(const struct xs_txring *r, uint64_t offset, size_t n, uint8_t **p)
{
	size_t size = xs_slab_size(r->slab), at = (size_t)(offset & (size - 1));

	*p = r->mem + at;
	return n < size - at ? n : size - at;
}

void xs_txring_write(struct xs_txring *r, uint64_t offset, const void *p, size_t n)
{
	const uint8_t *from = p;
	uint8_t *to;

	while (n) {
		size_t some = xs_txring_at(r, offset, n, &to);

		memcpy(to, from, some);
		from += some;
		offset += some;
		n -= some;
	}
}

void xs_txring_free(struct xs_txring *r, struct xs_link *l)
{
	if (r->mem)
		xs_link_retire(l, r->mem, r->slab, r->seq);
	*r = (struct xs_txring){.mem = NULL};
}

static void copy(struct xs_txring *to, const struct xs_txring *from, uint64_t at, uint64_t end)
{
	uint8_t *p;

	while (at < end) {
		size_t n = xs_txring_at(from, at, (size_t)(end - at), &p);

		xs_txring_write(to, at, p, n);
		at += n;
	}
}

uint64_t xs_txring_reserve(struct xs_txring *r, struct xs_link *l, uint64_t from, uint64_t kept,
			   uint64_t to)
{
	struct xs_txring larger = {.slab = XS_SLAB_4K};

	if (to - from <= xs_txring_size(r))
		return to;
	while (larger.slab + 1 < XS_SLABS && xs_slab_size(larger.slab) < to - from)
		larger.slab++;
	/* A smaller one than wished for is better than none. */
	while (!(larger.mem = xs_pool_get(larger.slab)) && larger.slab > XS_SLAB_4K)
		if (xs_slab_size(--larger.slab) <= xs_txring_size(r))
			break;
	if (larger.mem) {
		copy(&larger, r, from, kept);
		xs_txring_free(r, l);
		*r = larger;
	}
	return to - from <= xs_txring_size(r) ? to : from + xs_txring_size(r);
}

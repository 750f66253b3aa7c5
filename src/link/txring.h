/* SPDX-License-Identifier: MIT */
/* The bytes that a sender keeps: a ring in one slab of the pool, indexed by stream offset. */
#ifndef XS_LINK_TXRING_H
#define XS_LINK_TXRING_H

#include <stdint.h>
#include <sys/uio.h>

#include "engine/pool.h"
#include "link/carrier.h"

struct xs_txring {
	uint8_t *mem; /* NULL: empty, no memory */
	enum xs_slab slab;
	uint64_t seq[XS_LANES]; /* the last posts that read it; 0: none */
};

static inline size_t xs_txring_size(const struct xs_txring *r)
{
	return r->mem ? xs_slab_size(r->slab) : 0;
}

/* Makes room for the bytes [from, to), of which [from, kept) are there already. The largest `to`
 * that there's memory for, at least `kept`. */
uint64_t xs_txring_reserve(struct xs_txring *r, struct xs_link *l, uint64_t from, uint64_t kept,
			   uint64_t to);
/* The memory goes back to the pool when no post reads it any more. */
void xs_txring_free(struct xs_txring *r, struct xs_link *l);
/* Contiguous bytes at offset, at most n; returns their number. */
size_t xs_txring_at(const struct xs_txring *r, uint64_t offset, size_t n, uint8_t **p);
void xs_txring_write(struct xs_txring *r, uint64_t offset, const void *p, size_t n);

#endif

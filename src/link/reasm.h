/* SPDX-License-Identifier: MIT */
/* What a receiver holds of one direction: pieces by stream offset, from the consumption on. */
#ifndef XS_LINK_REASM_H
#define XS_LINK_REASM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "link/carrier.h"

#define XS_WINDOW_MAX                                                               \
	(1u << 20) /* no sender keeps more: whatever lies further ahead is nonsense \
		    */

struct xs_piece;

struct xs_reasm {
	uint64_t at;	 /* the consumption */
	uint64_t contig; /* bytes are there from `at` up to here */
	uint64_t low;	 /* the lowest offset that a segment of this epoch had */
	uint64_t high;	 /* the highest end of one */
	size_t room;	 /* memory of the pieces */
	struct xs_piece *head, *tail, *spare;
	/* Gives a carrier's buffer back. */
	void (*give_back)(void *arg, struct xs_rxbuf *buf);
	void *arg;
};

enum xs_placed {
	XS_PLACED_NONE,	  /* nothing new */
	XS_PLACED_COPIED, /* the buffer is free */
	XS_PLACED_KEPT,	  /* the buffer is given back later */
	XS_PLACED_BAD,	  /* beyond any window: the peer is broken */
	XS_PLACED_NO_MEMORY,
};

/* Everything is dropped; the consumption is `at`. */
void xs_reasm_reset(struct xs_reasm *r, uint64_t at);
/* n bytes at offset. keep: they lie in buf, which may be kept instead of copied. */
enum xs_placed xs_reasm_place(struct xs_reasm *r, uint64_t offset, const void *p, uint32_t n,
			      struct xs_rxbuf *keep);
/* Bytes below offset aren't needed any more. */
void xs_reasm_consume(struct xs_reasm *r, uint64_t offset);
/* Bytes from `end` on are dropped. */
void xs_reasm_cut(struct xs_reasm *r, uint64_t end);
int xs_reasm_peek(const struct xs_reasm *r, struct iovec *iov, int max, size_t *len);
void xs_reasm_free(struct xs_reasm *r);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The memory that two processes share, and one direction of it: a ring of slots, written by one
 * side and read by the other, and chunks for what doesn't fit into a slot.
 *
 * A slot is ready when its `turn` says its number, which the writer stores last: the reader looks
 * at the very line in which the header lies. Chunks come back in any order: the reader stores a
 * chunk's use count when it's done with it.
 *
 * Nothing that the other side can write is believed: a writer keeps its own place, use counts and
 * free chunks, a reader its own place; what's read is copied before it's checked. All that a bad
 * peer gets is that its own bytes are lost, or overwritten.
 *
 * `armed`: the reader sleeps, or is about to. It sets the word and looks at the ring once more; the
 * writer makes a slot ready and looks at the word. Both are sequentially consistent, so one of them
 * sees the other (tests/model/shm.pml). The writer takes the word back to 0: one wake each time.
 */
#ifndef XS_LINK_SHM_RING_H
#define XS_LINK_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytering.h"
#include "link/wire.h"

#define XS_SHM_SLOTS 256u /* a power of two */
#define XS_SHM_SLOT 256u
#define XS_SHM_INLINE (XS_SHM_SLOT - 8u - (uint32_t)sizeof(struct xs_seghdr))
#define XS_SHM_CHUNKS 32u
#define XS_SHM_CHUNK (64u << 10)
#define XS_SHM_LINE 64

struct xs_shm_slot {
	_Atomic uint32_t turn; /* number + 1 of the segment that it holds */
	uint16_t chunk;	       /* 0: the payload is here; else that chunk + 1 */
	uint16_t use;
	struct xs_seghdr h;
	uint8_t payload[XS_SHM_INLINE];
};
static_assert(sizeof(struct xs_shm_slot) == XS_SHM_SLOT, "a slot is whole cache lines");

struct xs_shm_dir {
	/* written by the reader */
	_Alignas(XS_SHM_LINE) _Atomic uint32_t armed;
	_Atomic uint32_t left;			     /* it reads no more, of its own will */
	_Alignas(XS_SHM_LINE) _Atomic uint64_t head; /* segments taken */
	_Alignas(XS_SHM_LINE) _Atomic uint16_t done[XS_SHM_CHUNKS];
	/* written by the writer: it has taken bytes that aren't here yet */
	_Alignas(XS_SHM_LINE) _Atomic uint32_t behind;
	_Alignas(4096) struct xs_shm_slot slot[XS_SHM_SLOTS];
	uint8_t chunk[XS_SHM_CHUNKS][XS_SHM_CHUNK];
};

#define XS_SHM_RINGS 1024u /* connections that can have one; their pages are made when touched */

/* 0: from the side that connected; 1: to it. */
struct xs_shm_area {
	struct xs_shm_dir dir[2];
	struct xs_bytering ring[2][XS_SHM_RINGS];
};
static_assert(sizeof(struct xs_shm_area) % 4096 == 0, "the area is whole pages");

/* The writer's own side; its lane's lock guards it. */
struct xs_shm_out {
	struct xs_shm_dir *d;
	uint64_t tail;	/* segments written */
	uint64_t head;	/* of them taken, when we last looked */
	uint32_t spare; /* bit per chunk */
	uint16_t use[XS_SHM_CHUNKS];
};

/* The reader's own side; the polling thread. */
struct xs_shm_in {
	struct xs_shm_dir *d;
	uint64_t head;
};

enum xs_shm_look { XS_SHM_NONE, XS_SHM_GOT, XS_SHM_BAD };

/* A segment that has been found. */
struct xs_shm_got {
	struct xs_seghdr h; /* a copy */
	void *payload;	    /* h.length bytes that the peer can still write */
	int chunk;	    /* -1: in the slot */
	uint16_t use;
};

void xs_shm_out_init(struct xs_shm_out *o, struct xs_shm_dir *d);
/* A slot is free. False with an honest peer never: it grants less than there are. */
bool xs_shm_out_room(struct xs_shm_out *o);
/* A chunk to fill, or -1. */
int xs_shm_out_chunk(struct xs_shm_out *o);
/* The next slot is ready: payload of h->length bytes is copied into it, or lies in a chunk already.
 * True: the reader sleeps and must be woken, by the caller alone. */
bool xs_shm_out_put(struct xs_shm_out *o, const struct xs_seghdr *h, const void *payload,
		    int chunk);

void xs_shm_in_init(struct xs_shm_in *i, struct xs_shm_dir *d);
enum xs_shm_look xs_shm_in_look(const struct xs_shm_in *i, struct xs_shm_got *got);
/* The segment that was found is done with, but for its chunk. */
void xs_shm_in_next(struct xs_shm_in *i);
/* Any thread. */
void xs_shm_in_done(struct xs_shm_dir *d, int chunk, uint16_t use);
/* From here on the writer wakes us, once. Look once more after it. */
void xs_shm_in_arm(struct xs_shm_in *i);
/* Still armed: nobody has woken us since. */
bool xs_shm_in_armed(const struct xs_shm_in *i);

#endif

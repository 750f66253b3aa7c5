/* SPDX-License-Identifier: MIT */
/*
 * A ring of bytes in memory that two processes share: one direction of a stream. Its indices are
 * offsets of the stream; the byte at offset o lies at o modulo the size in use, a power of two that
 * only the writer changes.
 *
 * Each side keeps its own index in memory of its own (`at`), and shows it to the other one in the
 * ring. What the other side shows is checked before it's used: all that a bad one gets is that its
 * own bytes are lost.
 *
 * Growing needs no agreement. The writer doubles the size from w to 2w where nothing is in the
 * ring, or where its index is w modulo 2w: of the w bytes before that place each has the same
 * place under both sizes, so the reader may take either. It stores the new order before any index
 * beyond that place, and the reader reads the order after the index.
 *
 * Two words ask the other side for news. `armed`: the reader wants to hear of the next byte.
 * `starved`: the writer wants to hear of room. Who sets one looks at the other's index once more
 * after it; who stores an index looks at the word after that, and takes it back. All of it is
 * sequentially consistent, so one of the two sees the other. A reader that's
 * asked for room tells of it once half of the ring is empty.
 *
 * A side is used under its connection's lock, but for xs_byte_put() and xs_byte_get(), which are
 * restartable (byterun.c): the thread that `owner` names may call them without any lock, inside or
 * outside of a signal handler, and takes part in nothing else. Whoever holds the lock takes that
 * right away by xs_byte_take_back().
 */
#ifndef XS_BASE_BYTERING_H
#define XS_BASE_BYTERING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define XS_BYTE_LEAST 12 /* orders: log2 of the size */
#define XS_BYTE_MOST 20
#define XS_BYTE_LINE 64

struct xs_bytering {
	/* the writer's */
	_Alignas(XS_BYTE_LINE) _Atomic uint64_t tail;
	_Atomic uint32_t order;
	_Atomic uint32_t starved; /* set by the writer, taken back by the reader */
	/* the reader's */
	_Alignas(XS_BYTE_LINE) _Atomic uint64_t head;
	_Atomic uint32_t left; /* the use that it has done with */
	/* set by the reader, taken back by the writer; seldom, so it has a line of its own */
	_Alignas(XS_BYTE_LINE) _Atomic uint32_t armed;
	_Alignas(4096) uint8_t data[1u << XS_BYTE_MOST];
};
static_assert(sizeof(struct xs_bytering) == 4096 + (1u << XS_BYTE_MOST), "one page of words");

#define XS_BYTE_NOBODY 0u

/* What both sides have; byterun.c knows the layout. */
struct xs_byteside {
	_Atomic uint64_t owner;	  /* the thread that may go without the lock */
	_Atomic uint64_t at;	  /* the index */
	uint64_t told;		  /* up to here the other side's word was looked at */
	_Atomic uint64_t *mirror; /* where the index is shown */
	_Atomic uint32_t *word;	  /* the other side's, that asks for news of it */
	struct xs_bytering *ring; /* NULL: no ring */
};
static_assert(offsetof(struct xs_byteside, at) == 8 && offsetof(struct xs_byteside, told) == 16 &&
		      offsetof(struct xs_byteside, mirror) == 24 &&
		      offsetof(struct xs_byteside, word) == 32,
	      "byterun.c counts on it");

struct xs_byteout {
	struct xs_byteside side;
	uint64_t seen;	 /* the reader's index when last looked at, checked */
	uint64_t window; /* bytes that may be in the ring */
	uint64_t stop;	 /* unlocked puts end here: where the ring grows */
	unsigned order;
};

struct xs_bytein {
	struct xs_byteside side;
	uint64_t heard; /* arrivals up to here were reported */
	uint64_t end;	/* nothing is read from here on */
	uint32_t use;
	bool listens; /* arrivals are to be reported */
	bool bad;     /* the writer's index was nonsense */
};

/* --- the writer; its connection is locked ---------------------------------------------------- */
/* A ring that the reader has left becomes ours, empty, at offset x. */
void xs_byteout_open(struct xs_byteout *o, struct xs_bytering *ring, uint64_t x, uint64_t window);
/* It's no longer ours. */
void xs_byteout_close(struct xs_byteout *o);
/* The reader's index, as far as it's believable. */
uint64_t xs_byteout_head(struct xs_byteout *o);
/* Bytes that fit. */
size_t xs_byteout_room(struct xs_byteout *o);
/* n bytes that fit, `skip` bytes into iov, go in. */
void xs_byteout_put(struct xs_byteout *o, const struct iovec *iov, size_t skip, size_t n);
/* More than fits was wanted: the ring grows when it can, up to `limit`. Returns how many bytes may
 * be put before that; UINT64_MAX: any. */
uint64_t xs_byteout_grow(struct xs_byteout *o, uint64_t limit);
/* Nothing is in it: the smallest size again. True: it was larger. */
bool xs_byteout_shrink(struct xs_byteout *o, uint64_t window);
/* Bytes from offset on, in at most two pieces; returns their number. */
size_t xs_byteout_kept(const struct xs_byteout *o, uint64_t offset, struct iovec iov[2]);
/* Asks for news of room. True: there's some by now, more than xs_byteout_room() said. */
bool xs_byteout_starve(struct xs_byteout *o);

/* --- the reader; its connection is locked ---------------------------------------------------- */
void xs_bytein_open(struct xs_bytein *i, struct xs_bytering *ring, uint32_t use, uint64_t x);
/* The ring may be used for something else. */
void xs_bytein_close(struct xs_bytein *i);
size_t xs_bytein_avail(struct xs_bytein *i);
/* Bytes at the index, in at most two pieces; returns their number, *len their total. */
int xs_bytein_peek(struct xs_bytein *i, struct iovec *iov, int max, size_t *len);
void xs_bytein_advance(struct xs_bytein *i, size_t n);
/* Arrivals are to be reported from now on, or no longer. */
void xs_bytein_listen(struct xs_bytein *i, bool on);
/* Bytes that have come since the last report; 0: none, and if it listens the writer knows. */
size_t xs_bytein_news(struct xs_bytein *i);

/* --- both ------------------------------------------------------------------------------------ */
/* What calls have left undone is done: the index is shown. True: the other side has asked for news
 * of it: tell it. After each put and advance, and after any unlocked call. */
bool xs_byteout_settle(struct xs_byteout *o);
bool xs_bytein_settle(struct xs_bytein *i);

/* --- without the lock (byterun.c) ------------------------------------------------------------ */
/* Can this process do it at all? Asked once, at the first use. */
bool xs_byte_usable(void);
/* This thread's name as an owner, never XS_BYTE_NOBODY. Without one: 1, which owns nothing. */
uint64_t xs_byte_self(void);
/* ... gets one. */
uint64_t xs_byte_name(void);
/* A forked child's only thread isn't the one it was. */
void xs_byte_fork_child(void);
/* The lock's holder: no thread but this one is, or will be, inside an unlocked call on these. True:
 * another one owned them until now. */
bool xs_byte_take_back(struct xs_byteside *a, struct xs_byteside *b);

#define XS_BYTE_UNLOCKED (16u << 10) /* bytes that one unlocked call moves at most */

struct xs_byteplace {
	const _Atomic(void *) *slot; /* must hold `is` */
	const void *is;
};
/*
 * Bytes moved, or 0: not this way. put: all n or nothing. get: up to n; waits `spin` processor
 * cycles for the first. *news: the other side's word is set: take the lock and settle. The caller
 * is the owner, as far as it can see. Async-signal-safe; keeps errno. Preempted or interrupted they
 * return 0, and have done nothing.
 */
size_t xs_byte_put(struct xs_byteout *o, const struct xs_byteplace *at, const void *buf, size_t n,
		   bool *news);
size_t xs_byte_get(struct xs_bytein *i, const struct xs_byteplace *at, void *buf, size_t n,
		   uint64_t spin, bool *news);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The upper side of the rc carrier for its tests: what link.c is in the product, as little as
 * drives it. Segments with kind PING are echoed, DATA is counted (and checked), CREDIT raises what
 * we may post.
 */
#ifndef XS_TESTS_RC_PEER_H
#define XS_TESTS_RC_PEER_H

#include "link/rc/rc.h"

enum { PING = 1, PONG, DATA, CREDIT, HELLO };
#define F_CHECK 1

struct xs_link {
	struct xs_conduit *c;
	bool mine;		      /* we connected */
	_Atomic bool up, down, early; /* early: a segment came before up */
	_Atomic int why;
	_Atomic uint64_t granted[XS_LANES]; /* entries that we may use */
	_Atomic uint64_t used[XS_LANES];
	_Atomic uint64_t got[XS_LANES];	 /* segments that came */
	_Atomic uint64_t said[XS_LANES]; /* what we granted last */
	_Atomic uint64_t pongs, bytes, wrong, peer_bytes, readies;
	uint32_t entries[XS_LANES], size[XS_LANES];
	void *copy_to; /* copies each payload, as an application's read does */
};

extern struct xs_link peer_links[8]; /* incoming first to last */
extern _Atomic unsigned peer_links_n;
extern bool peer_hold; /* keep each buffer, give it back from another thread */

/* Waits until the flag is set, served by the progress thread; polls itself if `spin`. */
void peer_wait(_Atomic bool *flag, bool spin);
void peer_wait_more(_Atomic uint64_t *n, uint64_t than, bool spin);
/* Runs fn in the progress thread and waits for it. */
void peer_in_progress(void (*fn)(void *arg), void *arg);
/* Posts with credit, waiting for it. */
int peer_send(struct xs_link *l, enum xs_lane lane, uint8_t kind, uint8_t flags, uint64_t offset,
	      const void *payload, uint32_t len, unsigned post, bool spin);
#define PORT 18515

/* What the two processes tell each other beside the link. */
struct shared {
	_Atomic int listening, spin, quit;
	_Atomic int refuse; /* enum xs_reason */
	_Atomic uint64_t bytes, wrong, links, downs, early, copy;
};

extern struct shared *shared;
extern struct sockaddr_storage address;

/* drive.c: the connecting process */
struct sockaddr_storage at_port(unsigned port);
/* A link, or NULL; *why: how it ended. */
struct xs_link *dial(struct sockaddr_storage to, enum xs_reason *why);
void do_destroy(void *link);
double pingpong(struct xs_link *l, enum xs_lane lane, uint32_t size, int n, bool spin);
/* Sends total bytes in segments of `size` payload bytes; MB/s or -1. */
double stream(struct xs_link *l, enum xs_lane lane, uint32_t size, uint64_t total, bool check,
	      bool spin, bool copy);
int bench(void);
void latency(void);

/* Byte `at` of the test stream. */
static inline uint8_t peer_byte(uint64_t at)
{
	return (uint8_t)(at * 31 + (at >> 8) * 7 + (at >> 16));
}

#endif

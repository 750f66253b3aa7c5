/* SPDX-License-Identifier: MIT */
/*
 * The lower contract: what moves whole segments between two processes (rc: verbs; the tests: a Unix
 * socket that delays, reorders, duplicates and cuts). link.c, pair.c and segchan.c are its users.
 *
 * A link has two lanes: XS_LANE_SMALL (messages and small writes, latency) and XS_LANE_BULK
 * (chunks). Each lane delivers in order or not at all; nothing is ordered between lanes. Entries
 * (credit.c): a segment eats one receive entry of its lane at the peer, whatever its size; link.c
 * posts only what the peer has granted, so a carrier never sees a receiver that isn't ready.
 */
#ifndef XS_LINK_CARRIER_H
#define XS_LINK_CARRIER_H

#include <sys/socket.h>

#include "link/plane.h"

enum xs_lane { XS_LANE_SMALL, XS_LANE_BULK, XS_LANES };

struct xs_link_info; /* link.h */
struct xs_link;	     /* link.c's */
struct xs_conduit;   /* the carrier's side of a link */
struct xs_rdv;	     /* the carrier's rendezvous listener */

/* A received segment's memory. The holder gives it back with carrier->rx_done (any thread); until
 * then its receive entry stays used. */
struct xs_rxbuf {
	void *payload;
	uint32_t length;
	uint8_t lane;
	struct xs_conduit *conduit;
};

struct xs_carrier_ops {
	const char *name;
	enum xs_plane_id plane;
	/* It proves who the peer is by itself: no rule of `trust` is needed. */
	bool proven;
	/*
	 * Of a carrier that knows its peer's user: is the end `theirs` of the TCP connection whose
	 * other end, `ours`, is here, that user's? Progress thread. 0; NOT_ACCEPTED: nobody's yet;
	 * or a reason. NULL: a proven peer may ask for any connection.
	 */
	enum xs_reason (*owns)(struct xs_conduit *, const struct xs_wire_addr *theirs,
			       const struct xs_wire_addr *ours);
	/* With `owns`: is the same user at the other ends of both? */
	bool (*same_user)(const struct xs_conduit *, const struct xs_conduit *);

	/* Could a connection between these addresses use it? Cheap; any thread; 0 or a reason. */
	enum xs_reason (*possible)(const struct sockaddr *local, const struct sockaddr *peer);

	/* Rendezvous. Progress thread only. New conduits come by xs_link_incoming(). 0, or a
	 * reason. */
	enum xs_reason (*listen)(const struct sockaddr_storage *bound,
				 const struct sockaddr_storage *local, struct xs_rdv **out);
	void (*unlisten)(struct xs_rdv *);

	/* Progress thread only. Asynchronous: ends with xs_link_up() or xs_link_down(). */
	enum xs_reason (*connect)(struct xs_link *l, const struct sockaddr_storage *local,
				  const struct sockaddr_storage *peer, struct xs_conduit **out);

	/* Entries that may be granted to the peer of this conduit from the start, sizes (header
	 * included) per lane; asked in xs_link_up(). 8 small ones more must be there for HELLO and
	 * CREDIT, which need no credit (credit.c). */
	void (*entries)(struct xs_conduit *, uint32_t entries[XS_LANES], uint32_t size[XS_LANES]);

	/*
	 * Posts one segment, any thread (the carrier has its own lane lock). payload must lie in
	 * memory from xs_pool_get() and stay unchanged until the lane's `completed` passes *seq,
	 * unless it is
	 * <= inline_max (then it is copied at once). XS_POST_NOW: ring the doorbell now, else it
	 * may wait for the next one (batching). 0; -EAGAIN: send queue full, xs_link_ready()
	 * follows; -ENOTCONN: dead.
	 */
	int (*post)(struct xs_conduit *, enum xs_lane, const struct xs_seghdr *h,
		    const void *payload, unsigned flags, uint64_t *seq);
	uint64_t (*completed)(struct xs_conduit *, enum xs_lane); /* lock-free */
	uint32_t inline_max; /* at least 96: the link's own messages */

	/* The memory of a received segment is free again: its entry is re-posted (batched). */
	void (*rx_done)(struct xs_rxbuf *);

	/* Bytes that were taken from the program wait for their posts, or no longer: a carrier that
	 * can tell the peer so even if we're killed. The link's lock is held. May be NULL. */
	void (*behind)(struct xs_conduit *, bool yes);

	/*
	 * Rings of bytes that both processes see (base/bytering.h), or all four NULL. A ring is the
	 * sender's from take to put, whatever the receiver says, and is taken again only after both
	 * put and done. Both keep the memory. Any thread. take: NULL: there's none; find: NULL:
	 * there's none of that name.
	 */
	struct xs_bytering *(*ring_take)(struct xs_conduit *, struct xs_ring_name *name);
	void (*ring_put)(struct xs_conduit *, const struct xs_ring_name *name);
	struct xs_bytering *(*ring_find)(struct xs_conduit *, const struct xs_ring_name *name);
	void (*ring_done)(struct xs_conduit *);

	/* Counters for stats. */
	void (*info)(struct xs_conduit *, struct xs_link_info *);

	/* Progress thread: no further posts; queue pairs go to ERROR, are drained and destroyed;
	 * xs_link_down() follows (unless it has come already), after which nothing is touched. */
	void (*disconnect)(struct xs_conduit *);
	/* Progress thread, at the end of xs_link_down(): frees it; received memory that's still
	 * held stays valid until its rx_done. */
	void (*destroy)(struct xs_conduit *);
	void (*fork_child)(void);
	/* After disconnect of all: closes the device (set*id). */
	void (*close_devices)(void);
};

#define XS_POST_NOW 1u
#define XS_POST_SIGNAL 2u /* its completion is wanted soon */

/* --- upcalls, implemented by link.c ------------------------------------------------------------
 */
/* Progress thread. May a peer at this address connect to our rendezvous? 0, or the reason that it's
 * told. Asked before anything is kept or made for it. */
enum xs_reason xs_link_admit(const struct xs_carrier_ops *ops, const struct sockaddr_storage *peer);
/* Progress thread. It was admitted: the link for it, or NULL without memory. */
struct xs_link *xs_link_incoming(const struct xs_carrier_ops *ops, struct xs_conduit *c,
				 const struct sockaddr_storage *peer,
				 const struct sockaddr_storage *local);
void xs_link_up(struct xs_link *l);
/* Nothing of this conduit is in flight any more (drained). PEER_KILLED: the peer's process has
 * ended, and all that it had taken from its program was delivered. */
void xs_link_down(struct xs_link *l, enum xs_reason why);
/*
 * Polling thread (one at a time per conduit): a segment. h is a copy; payload is the peer's bytes.
 * True: the callee keeps buf and gives it back by rx_done (the bulk lane's only); false: it's free
 * on return.
 */
bool xs_link_segment(struct xs_link *l, enum xs_lane lane, const struct xs_seghdr *h,
		     struct xs_rxbuf *buf);
/* Polling thread: the end of a batch of segments: acks and credits may go out now. Follows every
 * xs_link_segment(); what's posted in either without XS_POST_NOW is rung by the carrier after it.
 */
void xs_link_batch_end(struct xs_link *l);
/* Any thread, no lock above XS_RANK_LANE: a full send queue has room again. */
void xs_link_ready(struct xs_link *l);

/* The carriers; `planes` says in which order they're tried. The tests' library has its own list. */
extern const struct xs_carrier_ops *const xs_carriers[];

#endif

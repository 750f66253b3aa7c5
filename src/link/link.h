/* SPDX-License-Identifier: MIT */
/*
 * Pairing: finding the shim at the other end of a TCP connection, and a channel for the connection
 * on the one link that the two processes share. All of it happens in the progress thread.
 */
#ifndef XS_LINK_LINK_H
#define XS_LINK_LINK_H

#include <sys/socket.h>

#include "link/plane.h"

/* What pairing asks of the connections' owner (sock/). Called in the progress thread, no lock held.
 */
struct xs_pair_events {
	/* The accepted connection whose local end is `local` and whose peer is `peer`, with a
	 * reference; NULL: none (not accepted yet, or not ours). *why may name a reason to refuse
	 * for good. */
	void *(*find)(const struct xs_wire_addr *local, const struct xs_wire_addr *peer,
		      enum xs_reason *why);
	/* The kernel's counts of this connection now. 0 or the reason why it can't be upgraded. */
	enum xs_reason (*counts)(void *user, struct xs_proof *p);
	/* Paired; takes the channel over. secret: 16 bytes, the same at both ends. */
	void (*paired)(void *user, struct xs_chan *c, const uint8_t *secret);
	/* Not now (retry_ms > 0: ask again then) or not ever. */
	void (*refused)(void *user, enum xs_reason why, uint32_t retry_ms);
	/* The accepting end: asked for, and turned down. It may be asked for again. */
	void (*turned_down)(void *user, enum xs_reason why);
	/* Connections accepted at `local` (of peer, or, NULL, of anybody: local is the listener's
	 * then, which may be a wildcard) can't be found because of why; NONE: they can. */
	void (*hidden)(const struct xs_wire_addr *local, const struct xs_wire_addr *peer,
		       enum xs_reason why);
	const struct xs_chan_events *chan;
};

/* Tells the link layer its user; once, before anything else. */
void xs_pair_init(const struct xs_pair_events *ev);

/* An end of a TCP connection as both sides name it, all zero if it's no IP address: false. */
bool xs_pair_addr(const struct sockaddr_storage *ss, struct xs_wire_addr *w);

/*
 * Is there a plane that could serve this connection? Cheap (no device is opened): called on the
 * program's threads. 0 or the reason, e.g. no-device.
 */
enum xs_reason xs_pair_possible(const struct sockaddr *local, const struct sockaddr *peer);

/* The connecting end asks for its connection. Takes a reference of user until paired or refused.
 * -ENOMEM: neither will come. */
int xs_pair_ask(void *user, const struct sockaddr_storage *local,
		const struct sockaddr_storage *peer);
/* The connection goes away; a pending ask is forgotten and its reference released (soon). */
void xs_pair_forget(void *user);

/*
 * The first connection was accepted on this listening address: be found under it. `local` is the
 * accepted connection's own address (a wildcard listener gives `bound` = 0.0.0.0 or ::).
 */
void xs_pair_listen(const struct sockaddr_storage *bound, const struct sockaddr_storage *local);

/* After fork, in the child: everything of the parent's is forgotten, only descriptors are closed.
 */
void xs_pair_fork_child(void);

/* All streams of rc links must be back on TCP: closes links and devices (set*id). */
void xs_pair_close_all(enum xs_reason why);

/* For stats: the links now; and the sum of all that have ever been, with the number of those now
 * as its id. */
struct xs_link_info {
	uint64_t id;
	enum xs_plane_id plane;
	struct sockaddr_storage peer;
	uint64_t wire_posts, wire_signalled, wire_rnr, registrations, dropped;
};
int xs_link_info(struct xs_link_info *out, int max);
void xs_link_totals(struct xs_link_info *sum);

#endif

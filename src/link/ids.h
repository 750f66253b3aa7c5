/* SPDX-License-Identifier: MIT */
/*
 * The process-wide table of connection ids: what a segment's {id, generation} stands for. Two
 * levels, grown by use. A look-up races with close: it takes a reference of the connection under
 * the table's lock, then the connection's lock, then looks again.
 */
#ifndef XS_LINK_IDS_H
#define XS_LINK_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "link/plane.h"

struct xs_link;

struct xs_id_key {
	uint32_t id; /* 0: none */
	uint16_t generation;
};

enum xs_id_state {
	XS_ID_FREE,    /* never used, or its connection is forgotten */
	XS_ID_PENDING, /* asked for: the channel comes with the answer */
	XS_ID_LIVE,
	XS_ID_QUIET, /* closed: late segments are dropped */
	XS_ID_RESET, /* closed by a reset: late segments are answered PEER_GONE */
};

/* What is known of an id whose connection is gone. */
struct xs_id_gone {
	enum xs_id_state state; /* FREE: nothing is */
	struct xs_id_key peer;
	struct xs_link *link;
	bool told; /* PEER_GONE was answered before */
};

/* A channel whose connection is locked and held. */
struct xs_entered {
	struct xs_chan *chan;
	const struct xs_chan_events *events;
	void *user;
};

/* A new id, PENDING. 0, -ENOMEM or -ENOSPC. */
int xs_id_take(struct xs_id_key *key);
/* PENDING -> FREE. */
void xs_id_drop(struct xs_id_key key);
/* PENDING -> LIVE. */
void xs_id_attach(struct xs_id_key key, struct xs_chan *c);
/* LIVE -> QUIET or RESET; the connection is locked. On return no look-up finds the channel. */
void xs_id_close(struct xs_id_key key, bool reset, struct xs_link *link, struct xs_id_key peer);

/* False: it isn't live; *gone tells what it was. No lock may be held from XS_RANK_CONN on. */
bool xs_id_enter(struct xs_id_key key, struct xs_entered *e, struct xs_id_gone *gone);
/* The same for a connection that the caller has got a reference of: takes it over. */
bool xs_id_enter_held(struct xs_id_key key, struct xs_entered *e);
void xs_id_leave(const struct xs_entered *e);

void xs_ids_fork_child(void);

#endif

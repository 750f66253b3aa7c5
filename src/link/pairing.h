/* SPDX-License-Identifier: MIT */
/* What pairing's files share: ask.c (the connecting end), answer.c (the accepting one), dest.c
 * (addresses asked), listen.c (addresses served), pair.c (the doors). Progress thread, but for
 * *_neg_*. */
#ifndef XS_LINK_PAIRING_H
#define XS_LINK_PAIRING_H

#include "link/linkage.h"

/* An ask: a connection of ours that looks for its other end. */
enum xs_ask_state {
	XS_ASK_IDLE,  /* about to try a carrier */
	XS_ASK_LINK,  /* in its destination's list: waits for the link */
	XS_ASK_SENT,  /* PAIR_ASK is out */
	XS_ASK_RETRY, /* waits for its timer, then asks again */
};

struct xs_ask {
	struct xs_ask *next;	/* of its bucket */
	struct xs_ask *waiting; /* of its destination's list */
	enum xs_ask_state state;
	void *user; /* with a reference */
	struct sockaddr_storage local, peer;
	unsigned turn;	    /* in the order of `planes` */
	unsigned carrier;   /* index into xs_carriers */
	enum xs_reason why; /* the last carrier's refusal */
	struct xs_dest *dest;
	struct xs_link *link; /* SENT */
	struct xs_id_key key;
	uint64_t nonce;
	uint8_t secret[16];
	unsigned tries;
	bool heard; /* bytes had come from the peer: its program has accepted it */
	struct xs_timer timer;
};

struct xs_dest {
	struct xs_dest *next;
	unsigned carrier;
	struct xs_wire_addr addr;
	struct sockaddr_storage local, peer;
	struct xs_link *link; /* ours to there, or an older one to the same process */
	struct xs_ask *asks;  /* that wait for it */
	unsigned tries;
	struct xs_timer timer; /* until the next try */
};

extern const struct xs_pair_events *xs_pair_ev;

/* --- pair.c --------------------------------------------------------------------------------------
 */
/* May this carrier serve the connection? */
enum xs_reason xs_pair_carrier(unsigned i, const struct sockaddr *local,
			       const struct sockaddr *peer);
/* The carriers in the order that `planes` names them. False: no more. */
bool xs_pair_in_order(unsigned turn, unsigned *carrier);
/* Which of two carriers' refusals is told; RULE: none. */
enum xs_reason xs_pair_told(enum xs_reason had, enum xs_reason now);

/* --- ask.c ----------------------------------------------------------------------------------- */
void xs_ask_begin(struct xs_ask *a);
void xs_ask_forget(void *user);
/* The link is up: ask now. */
void xs_ask_send(struct xs_ask *a, struct xs_link *l);
/* This carrier doesn't get there. */
void xs_ask_next_carrier(struct xs_ask *a, enum xs_reason why);
void xs_ask_link_gone(struct xs_link *l, enum xs_reason why);
void xs_ask_answered(struct xs_link *l, const struct xs_pair_answer *an);
void xs_asks_fork_child(void);

/* --- answer.c -------------------------------------------------------------------------------- */
void xs_answer(struct xs_link *l, const struct xs_pair_ask *ask);
/* Polling thread. */
void xs_answer_done(struct xs_link *l, const struct xs_pair_done *done);

/* --- dest.c ---------------------------------------------------------------------------------- */
/* A link to the ask's address: asks at once, or when it's there. */
void xs_dest_ask(struct xs_ask *a);
void xs_dest_forget_ask(struct xs_ask *a);
void xs_dest_link_up(struct xs_link *l);
void xs_dest_link_moved(struct xs_link *from, struct xs_link *to);
void xs_dest_link_gone(struct xs_link *l, bool was_up, enum xs_reason why);
void xs_dests_fork_child(void);
/* The negative cache. Any thread, any lock. NONE: not in it. */
enum xs_reason xs_neg_find(unsigned carrier, const struct xs_wire_addr *peer);
void xs_neg_add(unsigned carrier, const struct xs_wire_addr *peer, enum xs_reason why);
/* A shim was seen at this address. */
void xs_neg_clear(const struct xs_wire_addr *peer);
void xs_negs_fork_child(void);

/* --- listen.c -------------------------------------------------------------------------------- */
void xs_listen_open(const struct sockaddr_storage *bound, const struct sockaddr_storage *local);
/* Closes all; they open again in a while. */
void xs_listen_pause(void);
void xs_listens_fork_child(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the files of link/ share: a link (link.c, link_poll.c, credit.c, say.c, retire.c), its
 * channels (segchan*.c, txring.c, reasm.c) and pairing's side of both (pair.c, answer.c, dest.c,
 * listen.c).
 *
 * Locks. A link's own lock (XS_RANK_LEAF) guards its credits, its lists and its outbox; nothing is
 * called with it held but a connection's `hold`. A channel is guarded by its connection's lock.
 * Link records are type-stable: a late upcall of a carrier's that is about a link which has died
 * meanwhile finds a record without conduit, or at worst makes another link look whether something
 * is due.
 */
#ifndef XS_LINK_LINKAGE_H
#define XS_LINK_LINKAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/bytering.h"
#include "base/lock.h"
#include "engine/pool.h"
#include "engine/progress.h"
#include "link/carrier.h"
#include "link/ids.h"
#include "link/link.h"
#include "link/reasm.h"
#include "link/txring.h"

#define XS_SEG_HEADER ((uint32_t)sizeof(struct xs_seghdr))
#define XS_SAY_MAX 96u /* payload of a link's own messages */

/*
 * States; the progress thread moves a link along, xs_link_state() in link.c is the one setter.
 * CONNECTING  the carrier is at it; nothing can be posted
 * HELLO       both sides can post; HELLO is out, the peer's hasn't come
 * UP          channels may be made
 * DYING       disconnect was asked for, or BYE came; posts fail or are lost
 * DEAD        drained; its channels are being told
 */
enum xs_link_state { XS_LINK_CONNECTING, XS_LINK_HELLO, XS_LINK_UP, XS_LINK_DYING, XS_LINK_DEAD };

enum xs_link_due {
	XS_DUE_HELLO = 1, /* the peer's HELLO has come */
	XS_DUE_BYE = 2,
	XS_DUE_BAD = 4, /* the peer broke the protocol */
};

struct xs_saying; /* a message of the link's own that waits for a credit */
struct xs_dest;	  /* dest.c: the address that a link of ours was made to */
struct xs_tag;	  /* retire.c: pool memory that posts may still read */

struct xs_link {
	struct xs_link *next; /* links, or spare ones */
	_Atomic int state;
	uint64_t id;
	const struct xs_carrier_ops *ops;
	_Atomic(struct xs_conduit *) conduit;
	bool accepted;
	uint64_t made_at, up_at;
	struct xs_timer timer; /* HELLO: gives up; UP without channels: retires */
	struct sockaddr_storage peer, local;
	struct xs_hello hello;	/* the peer's; constant from HELLO's end on */
	uint32_t max[XS_LANES]; /* largest payload that the peer takes */
	struct xs_dest *dest;	/* progress thread */
	enum xs_reason end;	/* progress thread: why we closed it; 0: we didn't */
	struct xs_work work;
	_Atomic unsigned due;	     /* enum xs_link_due */
	_Atomic bool serve_due;	     /* waiting channels may find credits or room */
	_Atomic uint64_t room_count; /* times that a full send queue got room */
	_Atomic uint64_t dropped;
	_Atomic uint32_t refs; /* the conduit's and one per channel */

	struct xs_lock lock;
	/* lock: sending */
	uint64_t granted[XS_LANES], posted[XS_LANES];
	struct xs_chan *wait_head[XS_LANES], *wait_tail[XS_LANES];
	bool full[XS_LANES]; /* the send queue; until xs_link_ready() */
	struct xs_saying *say_head, *say_tail;
	uint32_t say_n; /* of them */
	uint32_t late;	/* channels that are being served, or returned with bytes not posted */
	bool behind;	/* the carrier was told so */
	struct xs_tag *retired;
	/* lock */
	struct xs_chan *chans;
	uint32_t chans_n;
	uint64_t idle_since; /* 0: has channels */
	/* receiving: entries of ours */
	uint32_t entries[XS_LANES];
	_Atomic uint64_t freed[XS_LANES];
	uint64_t said[XS_LANES]; /* lock: freed ones that CREDIT has told */
	_Atomic bool credit_due; /* a CREDIT found the send queue full */
	_Atomic uint32_t held;	 /* bulk entries that channels hold */
};

/* One direction that we send. */
struct xs_tx {
	uint16_t epoch; /* 0: closed */
	bool first, confirmed, stopped;
	bool fin, fin_posted;
	bool short_of; /* a put was cut by the window: grow it */
	uint8_t fin_flags;
	uint64_t acked, next, end; /* acked <= next (posted) <= end (taken) */
	size_t window, limit;
	struct xs_txring ring;
	/* In a ring that the peer sees: */
	struct xs_conduit *shared; /* whose; NULL: not in one */
	struct xs_ring_name name;
	bool say;	  /* the peer is to look at the ring */
	uint64_t idle_at; /* the end at the last rest */
};

/* One direction that we receive. */
struct xs_rx {
	uint16_t epoch; /* 0: closed */
	struct xs_reasm data;
	struct xs_conduit *shared; /* the bytes are in one of its rings; NULL: in `data` */
};

struct xs_chan {
	struct xs_chan_base base;
	struct xs_link *link;
	struct xs_id_key key, peer;
	/* Under the connection's lock. */
	bool dead;     /* nothing comes or goes any more */
	bool corked;   /* answerer: until the asker is known to listen */
	bool in_event; /* close() waits for the event's end */
	bool late;     /* counted in the link's `late` */
	bool closed;
	struct xs_tx tx;
	struct xs_rx rx;
	struct xs_byteout *out; /* NULL: no rings */
	struct xs_bytein *in;
	uint16_t ack_epoch;	 /* what we acknowledge */
	uint64_t ack, ack_told;	 /* ... and what a segment has said of it */
	uint16_t seen_ack_epoch; /* what the peer acknowledged last */
	uint64_t seen_ack;
	uint32_t pending; /* kinds whose message waits */
	struct xs_msg msg[XS_K_MAX];
	uint64_t msg_seq[XS_K_MAX];
	/* Under the link's lock. */
	struct xs_chan *prev, *next;
	struct xs_chan *wait_next[XS_LANES];
	bool waits[XS_LANES];
};

/* --- link.c ---------------------------------------------------------------------------------- */
/* A link of ours to that address. NULL and *why. Progress thread. */
struct xs_link *xs_link_connect(const struct xs_carrier_ops *ops,
				const struct sockaddr_storage *local,
				const struct sockaddr_storage *peer, struct xs_dest *dest,
				enum xs_reason *why);
/* Closes it in good order. Progress thread. */
void xs_link_close(struct xs_link *l, enum xs_reason why);
static inline int xs_link_state_of(const struct xs_link *l)
{
	return atomic_load_explicit(&l->state, memory_order_acquire);
}
/* Handles what has been noted in `due`. Progress thread. */
void xs_link_settle(struct xs_link *l);
/* Any thread, any lock: settle it soon. */
void xs_link_note(struct xs_link *l, unsigned due);
/* Waiting channels may go on: served at the end of the batch or by the progress thread. */
void xs_link_kick(struct xs_link *l);
/* Its last channel has gone: it retires in a while. Any thread. */
void xs_link_idle(struct xs_link *l);
void xs_link_hold(struct xs_link *l);
void xs_link_put(struct xs_link *l);
/* 0, -EAGAIN, -ENOTCONN. */
int xs_link_post(struct xs_link *l, enum xs_lane lane, const struct xs_seghdr *h,
		 const void *payload, unsigned flags, uint64_t *seq);
/* Ring the doorbell now? Not while the carrier dispatches: it rings at the end of the batch. */
unsigned xs_link_now(void);
static inline void xs_link_drop(struct xs_link *l)
{
	atomic_fetch_add_explicit(&l->dropped, 1, memory_order_relaxed);
}
/* Each live link; progress thread. fn may close it. */
void xs_link_each(void (*fn)(struct xs_link *l, void *arg), void *arg);
unsigned xs_link_count(void);
/* Each link that has a conduit, under the links' lock. */
void xs_links_look(void (*fn)(struct xs_link *l, struct xs_conduit *c, void *arg), void *arg);
void xs_links_fork_child(void);
void xs_link_poll_fork_child(void); /* link_poll.c */
/* This process's name in HELLO. */
const uint8_t *xs_link_process(void);

/* --- link_info.c ----------------------------------------------------------------------------- */
/* The conduit is about to be destroyed: its counts stay. */
void xs_link_count_gone(struct xs_link *l, struct xs_conduit *c);
void xs_link_info_fork_child(void);

/* --- credit.c -------------------------------------------------------------------------------- */
/*
 * One entry of the peer's lane for a segment of c, or c waits in that lane's queue. served: c was
 * taken out of the queue just now, else those who wait come first.
 */
bool xs_credit_take(struct xs_link *l, enum xs_lane lane, struct xs_chan *c, bool served);
void xs_credit_untake(struct xs_link *l, enum xs_lane lane);
/* Bytes of a channel that's being returned, or served, were never posted, or no longer so. */
void xs_credit_late(struct xs_link *l, int more);
/* c waits for its next turn. */
void xs_credit_wait(struct xs_link *l, enum xs_lane lane, struct xs_chan *c);
/* A post found the send queue full; rooms: room_count before that. c may be NULL. */
void xs_credit_full(struct xs_link *l, enum xs_lane lane, struct xs_chan *c, uint64_t rooms);
void xs_credit_forget(struct xs_link *l, struct xs_chan *c);
void xs_credit_granted(struct xs_link *l, uint64_t small, uint64_t bulk);
/* Says something on a link that may be dead: then it finds out. */
void xs_credit_probe(struct xs_link *l);
/* Receive entries are free again. Any thread, any lock but the link's. */
void xs_credit_freed(struct xs_link *l, enum xs_lane lane);
/* Waiting messages and channels go on. No lock from XS_RANK_CONN on. */
void xs_link_serve(struct xs_link *l);

/* --- say.c ----------------------------------------------------------------------------------- */
/* A message of the link's own; waits for a credit if need be. Any thread. */
void xs_link_say(struct xs_link *l, const struct xs_seghdr *h, const void *payload);
/* Sends what waits; false: still short. */
bool xs_link_say_waiting(struct xs_link *l);
void xs_link_say_forget(struct xs_link *l);

/* --- retire.c -------------------------------------------------------------------------------- */
/* Gives pool memory back once the lanes have completed these posts (0: none). */
void xs_link_retire(struct xs_link *l, void *mem, enum xs_slab slab, const uint64_t seq[XS_LANES]);
void xs_link_reap(struct xs_link *l, bool all);

/* --- segchan.c ------------------------------------------------------------------------------- */
extern const struct xs_chan_ops xs_segchan_ops[XS_PLANES];
/* A channel for a connection of user's. key is attached to it. NULL without memory. */
struct xs_chan *xs_segchan_new(struct xs_link *l, struct xs_id_key key, struct xs_id_key peer,
			       const struct xs_chan_events *events, void *user, bool corked);
/* The connection is locked: */
void xs_segchan_pump(struct xs_chan *c, bool served);
void xs_segchan_uncork(struct xs_chan *c);
/* No byte moves any more; the owner is told. */
void xs_segchan_die(struct xs_chan *c, enum xs_reason why);
void xs_segchan_header(struct xs_chan *c, uint8_t kind, struct xs_seghdr *h);
/* Says the latest of a kind of message. -ENOTCONN once dead. */
int xs_segchan_send(struct xs_chan *c, const struct xs_msg *m);
/* Runs an event; false: the owner has closed the channel in it. */
bool xs_segchan_event_end(struct xs_chan *c);
/* A post was refused: c waits for room or notices the end. */
void xs_segchan_refused(struct xs_chan *c, enum xs_lane lane, int err, uint64_t rooms);

/* --- segchan_tx.c ---------------------------------------------------------------------------- */
/* Posts what the window holds, `budget` segments at most. */
void xs_segtx_pump(struct xs_chan *c, bool served, int *budget);
void xs_segtx_free(struct xs_chan *c);
void xs_segtx_open(struct xs_chan *c, uint16_t epoch, uint64_t x);
size_t xs_segtx_room(struct xs_chan *c);
void xs_segtx_idle(struct xs_chan *c);
ssize_t xs_segtx_put(struct xs_chan *c, const struct iovec *iov, int iovcnt, size_t skip,
		     unsigned flags);
void xs_segtx_fin(struct xs_chan *c, unsigned flags);
void xs_segtx_acked(struct xs_chan *c, uint64_t offset);
size_t xs_segtx_kept(struct xs_chan *c, uint64_t offset, struct iovec iov[2]);
void xs_segtx_stop(struct xs_chan *c);
void xs_segtx_close(struct xs_chan *c);
void xs_segtx_limit(struct xs_chan *c, size_t bytes);

/* One segment of the small lane that keeps nothing. False: it has to wait. */
bool xs_segtx_post_short(struct xs_chan *c, bool served, const struct xs_seghdr *h,
			 const void *payload);
/* --- segchan_rx.c ---------------------------------------------------------------------------- */
/* A segment for an id. True: buf is kept. Polling thread. */
bool xs_segrx_segment(struct xs_link *l, enum xs_lane lane, const struct xs_seghdr *h,
		      struct xs_rxbuf *buf);
void xs_segrx_open(struct xs_chan *c, uint16_t epoch, uint64_t from);
void xs_segrx_seek(struct xs_chan *c, uint64_t offset);
int xs_segrx_peek(struct xs_chan *c, struct iovec *iov, int max, size_t *len);
void xs_segrx_advance(struct xs_chan *c, size_t n);
size_t xs_segrx_avail(struct xs_chan *c);
void xs_segrx_close(struct xs_chan *c, size_t keep);
void xs_segrx_free(struct xs_chan *c);
/* A bulk buffer that a channel held is free: for reasm.c. */
void xs_segrx_give_back(void *arg, struct xs_rxbuf *buf);

/* --- segring.c: the same operations where the bytes are in rings ------------------------------ */
/* A ring for the epoch that begins at x, if there is one: tx.shared. */
void xs_segring_open(struct xs_chan *c, uint64_t x);
ssize_t xs_segring_put(struct xs_chan *c, const struct iovec *iov, int iovcnt, size_t skip,
		       unsigned flags);
/* tx.end, tx.acked: where the ring stands. */
void xs_segring_look(struct xs_chan *c);
size_t xs_segring_room(struct xs_chan *c);
/* Says what's to be said; false: it has to wait. */
bool xs_segring_say(struct xs_chan *c, bool served);
void xs_segring_idle(struct xs_chan *c);
void xs_segring_tx_free(struct xs_chan *c);
/* DATA with RING. */
void xs_segring_segment(struct xs_chan *c, const struct xs_seghdr *h, const struct xs_rxbuf *buf);
void xs_segring_seek(struct xs_chan *c, uint64_t offset);
int xs_segring_peek(struct xs_chan *c, struct iovec *iov, int max, size_t *len);
void xs_segring_advance(struct xs_chan *c, size_t n);
size_t xs_segring_avail(struct xs_chan *c);
void xs_segring_close(struct xs_chan *c, size_t keep);
void xs_segring_rx_free(struct xs_chan *c);
void xs_segring_settle(struct xs_chan *c, struct xs_moved *m);
void xs_segring_listen(struct xs_chan *c, bool on);

/* --- pairing's part: progress thread unless it says otherwise -------------------------------- */
void xs_pair_link_up(struct xs_link *l);
/* From CONNECTING or HELLO: it never came to be; else its asks are lost. */
void xs_pair_link_gone(struct xs_link *l, bool was_up, enum xs_reason why);
/* The connecting side has found an older link to the same process. */
void xs_pair_link_moved(struct xs_link *from, struct xs_link *to);
/* Polling thread: PAIR_ASK, PAIR_ANSWER, PAIR_DONE. */
void xs_pair_message(struct xs_link *l, const struct xs_seghdr *h, const void *payload);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the files of the shm carrier share. They call each other in one direction:
 *
 *   shm.c (the operations) -> meet.c -> conduit.c -> lane.c (post and poll) -> ring.c
 *                          -> rings.c, owner.c
 *
 * Conduits are made, changed and freed by the progress thread only. What other threads touch is
 * atomic, or under the lane's lock (XS_RANK_LANE), or belongs to the polling thread.
 */
#ifndef XS_LINK_SHM_SHM_H
#define XS_LINK_SHM_SHM_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/lock.h"
#include "engine/progress.h"
#include "engine/wait.h"
#include "link/carriers.h"
#include "link/shm/ring.h"

/* Receive entries; the slots left over are for what needs no credit, and for entries that are
 * granted again a moment before they're free. */
#define XS_SHM_SMALL 200u
#define XS_SHM_BULK 28u
static_assert(XS_SHM_SMALL + XS_SHM_BULK + 8 + 8 <= XS_SHM_SLOTS, "a slot for each segment");
static_assert(XS_SHM_BULK + 2 <= XS_SHM_CHUNKS, "a chunk for each segment");

/*
 * States; the progress thread moves a conduit along, set_state() in conduit.c is the one setter.
 * NEW   nothing can be posted: the other side hasn't answered
 * UP    the only state in which post() takes anything
 * DOWN  what had come is delivered, xs_link_down() was said; received chunks may still be held
 */
enum xs_shm_state { XS_SHM_NEW, XS_SHM_UP, XS_SHM_DOWN };

struct xs_shm_rx { /* a chunk of ours that's being read */
	struct xs_rxbuf buf;
	uint16_t use;
	_Atomic bool held;
};

/* rings.c */
struct xs_shm_rings {
	struct xs_bytering *ours, *theirs; /* constant */
	/* the lane's lock: */
	uint32_t fresh;		      /* below: used before */
	uint32_t rest, put;	      /* the queue's ends */
	uint16_t queue[XS_SHM_RINGS]; /* those that their writer has done with */
	uint32_t use[XS_SHM_RINGS];   /* times that it was taken */
};

struct xs_conduit {
	struct xs_conduit *next; /* of all; progress thread */
	struct xs_link *link;
	_Atomic int state;
	_Atomic int failed;    /* enum xs_reason; set once, by any thread */
	_Atomic uint32_t refs; /* the link's, and one per held chunk and used ring */
	/* Wakes the other side, is woken by it, and tells of its end. */
	int fd;
	uid_t uid; /* who made, or serves, the other end */
	struct xs_shm_area *area;
	struct xs_work work;
	struct xs_timer timer; /* NEW: gives up */
	struct xs_fdwatch watch;
	struct xs_poller poller;
	bool watched, polled; /* progress thread */
	/* polling thread */
	struct xs_shm_in in;
	bool told;     /* armed, and nobody has taken that back when we last looked */
	uint32_t owed; /* wakes that have been sent, or are about to be, and haven't been read */
	struct xs_shm_rx rx[XS_SHM_CHUNKS];
	/* sending */
	struct xs_lock lock;   /* XS_RANK_LANE */
	struct xs_shm_out out; /* lock */
	bool closed;	       /* lock */
	uint64_t posted;       /* lock */
	_Atomic uint64_t posts, wakes;
	struct xs_shm_rings rings;
};

static inline int xs_shm_state_of(const struct xs_conduit *c)
{
	return atomic_load_explicit(&c->state, memory_order_acquire);
}

/* --- owner.c ---------------------------------------------------------------------------------- */
enum xs_shm_owner {
	XS_OWNER_FOUND,
	XS_OWNER_LATER,	 /* the kernel's connection hasn't been accepted */
	XS_OWNER_ABSENT, /* no such connection on this host */
	XS_OWNER_HIDDEN, /* this process can't know */
};
/* Whose is the end `theirs` of the TCP connection with the other end `ours`? */
enum xs_shm_owner xs_shm_owner(const struct xs_wire_addr *theirs, const struct xs_wire_addr *ours,
			       uid_t *uid);
/* The same by /proc alone. */
enum xs_shm_owner xs_shm_owner_proc(const struct xs_wire_addr *theirs,
				    const struct xs_wire_addr *ours, uid_t *uid);
/* Is c's other end in the hands of that end's owner? */
enum xs_reason xs_shm_owns(struct xs_conduit *c, const struct xs_wire_addr *theirs,
			   const struct xs_wire_addr *ours);

/* --- lane.c ----------------------------------------------------------------------------------- */
int xs_shm_post(struct xs_conduit *c, enum xs_lane lane, const struct xs_seghdr *h,
		const void *payload, unsigned flags, uint64_t *seq);
void xs_shm_close_lane(struct xs_conduit *c);
int xs_shm_poll(struct xs_poller *p);
void xs_shm_arm(struct xs_poller *p);
void xs_shm_disarm(struct xs_poller *p);
/* Nobody else polls any more: all that has come. */
void xs_shm_drain(struct xs_conduit *c);
void xs_shm_rx_done(struct xs_rxbuf *buf);

/* --- rings.c ---------------------------------------------------------------------------------- */
struct xs_bytering *xs_shm_ring_take(struct xs_conduit *c, struct xs_ring_name *name);
void xs_shm_ring_put(struct xs_conduit *c, const struct xs_ring_name *name);
struct xs_bytering *xs_shm_ring_find(struct xs_conduit *c, const struct xs_ring_name *name);
void xs_shm_ring_done(struct xs_conduit *c);

/* --- conduit.c -------------------------------------------------------------------------------- */
/* Takes fd and area over; on NULL both are given up. side: 0 if we connected. */
struct xs_conduit *xs_shm_conduit_new(int fd, uid_t uid, struct xs_shm_area *area, int side);
/* Room for one more link with that user? */
bool xs_shm_conduit_room(uid_t uid);
/* The other side is ready, and c has its link. */
void xs_shm_conduit_start(struct xs_conduit *c);
/* Any thread, any lock: the conduit dies; the first reason counts. */
void xs_shm_fail(struct xs_conduit *c, enum xs_reason why);
void xs_shm_conduit_hold(struct xs_conduit *c);
void xs_shm_conduit_drop(struct xs_conduit *c);
/* The link's reference; nothing is posted any more. */
void xs_shm_conduit_destroy(struct xs_conduit *c);
void xs_shm_conduits_fork_child(void);
/* Memory: 0 or a negative errno, *fd to be sent to the other side. NULL: not what it has to be. */
int xs_shm_area_make(struct xs_shm_area **area, int *fd);
struct xs_shm_area *xs_shm_area_map(int fd);

/* --- meet.c ----------------------------------------------------------------------------------- */
enum xs_reason xs_shm_listen(const struct sockaddr_storage *bound,
			     const struct sockaddr_storage *local, struct xs_rdv **out);
void xs_shm_unlisten(struct xs_rdv *r);
enum xs_reason xs_shm_connect(struct xs_link *l, const struct sockaddr_storage *local,
			      const struct sockaddr_storage *peer, struct xs_conduit **out);
void xs_shm_meet_fork_child(void);

#endif

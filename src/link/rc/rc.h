/* SPDX-License-Identifier: MIT */
/*
 * What the files of the rc carrier share. They call each other in one direction:
 *
 *   rc.c (the operations) -> cm.c -> conduit.c -> device.c -> rq.c -> verbs.c
 *                               lane.c (post and poll) ----------^
 *
 * and news comes back by cm.c's events, conduit.c's work and lane.c's poll. Devices, conduits and
 * cm ids are made, changed and freed by the progress thread only; what other threads touch is
 * atomic or under a lane's or a queue's lock (XS_RANK_LANE; never two at a time).
 */
#ifndef XS_LINK_RC_RC_H
#define XS_LINK_RC_RC_H

#include <stdatomic.h>

#include "base/lock.h"
#include "engine/pool.h"
#include "engine/progress.h"
#include "engine/wait.h"
#include "link/carriers.h"
#include "link/rc/dl.h"

#define XS_RC_HEADER ((uint32_t)sizeof(struct xs_seghdr))
#define XS_RC_SLOT 256u /* header and inline payload of one request */
#define XS_RC_INLINE (XS_RC_SLOT - XS_RC_HEADER)
#define XS_RC_CHAIN 16	 /* requests per doorbell at most */
#define XS_RC_BATCH 32	 /* completions per poll */
#define XS_RC_RESERVE 8	 /* small entries per conduit for what needs no credit */
#define XS_RC_TABLE 1024 /* places for queue pairs of one device */
#define XS_RC_LINKS 256	 /* conduits of one device */

/* --- receive queues (rq.c) -------------------------------------------------------------------- */
struct xs_rc_rx { /* one entry of a shared receive queue */
	struct xs_rxbuf buf;
	struct xs_rc_rx *next;
	uint8_t *mem;
	uint32_t key;
	uint32_t index;
	uint32_t got; /* bytes of the segment, header included */
};

struct xs_rc_rq {
	struct xs_rc_dev *dev;
	struct ibv_srq *srq;
	enum xs_lane lane;
	enum xs_slab slab;
	uint32_t max;	      /* the queue's depth */
	uint32_t slack;	      /* entries nobody is granted: those freed but not posted again yet */
	uint32_t batch;	      /* that many are posted again together */
	struct xs_rc_rx **rx; /* by index; max of them */
	uint32_t made;	      /* progress thread: entries that exist */
	uint32_t promised;    /* progress thread: granted to peers, or lost with dead queue pairs */
	uint32_t lost;	      /* progress thread: those of the second kind */
	struct xs_lock lock;
	struct xs_rc_rx *back;	/* lock: waiting to be posted again */
	_Atomic uint32_t backs; /* changed under the lock */
};

struct xs_rc_dev {
	struct xs_rc_dev *next;
	struct ibv_context *ctx;
	char name[64];
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct xs_rc_rq rq[XS_LANES];
	struct xs_pool_reg pool;
	bool attached, polled, watched;
	_Atomic bool refused;  /* memory couldn't be registered: the memlock limit */
	_Atomic bool broken;   /* nothing new is made on it; it's closed with its last link */
	_Atomic uint32_t refs; /* the list's and one per conduit */
	struct xs_poller poller;
	struct xs_fdwatch async;
	struct xs_timer early_timer;
	_Atomic bool armed;	  /* asked for an event that hasn't been taken yet */
	bool fired;		  /* an event waits in the channel (poll lock) */
	unsigned unacked;	  /* completion events taken, not acknowledged (polling thread) */
	_Atomic uint64_t empties; /* times that the completion queue was seen empty */
	uint32_t cqe, cqe_used, cqe_max, inline_max;
	uint64_t budget; /* bytes that may be registered */
	unsigned links;
	struct xs_conduit *conduits;
	struct xs_rc_rx *early, **early_end; /* polling thread: came before the conduit was up */
	_Atomic bool has_early;
	_Atomic(struct xs_rc_lane *) table[XS_RC_TABLE]; /* by queue pair number, open addressing */
	_Atomic uint32_t table_qpn[XS_RC_TABLE];	 /* 0: never used, 1: used before */
};

/* --- conduits --------------------------------------------------------------------------------- */
struct xs_rc_lane {
	struct xs_lock lock;
	struct xs_conduit *c;
	enum xs_lane lane;
	struct ibv_qp *qp;
	struct xs_rc_id *id; /* cm.c's; progress thread */
	uint32_t depth, signal_every;
	uint8_t port;
	uint8_t gid_index;
	union ibv_gid gid;
	bool connected; /* progress thread: its queue pair has left INIT */
	bool ready;	/* progress thread: both ends know it */
	bool last_wqe;	/* progress thread */
	/* lock */
	bool closed;
	uint64_t posted; /* requests taken, by post() */
	uint64_t rung;	 /* of them handed to the device */
	uint32_t unsignalled, pending;
	struct ibv_send_wr wr[XS_RC_CHAIN];
	struct ibv_sge sge[XS_RC_CHAIN][2];
	/* any thread */
	_Atomic uint64_t completed;
	_Atomic bool starved; /* post() said -EAGAIN */
	_Atomic uint64_t posts, signalled, doorbells;
	uint8_t **slots; /* slabs of 4 KiB */
};

/*
 * States; the progress thread moves a conduit along, xs_rc_state() is the one setter.
 * NEW         no device yet; the cm resolves
 * CONNECTING  device, queue pairs and entries are there
 * UP          xs_link_up() was said; the only state in which post() takes anything
 * DRAINING    in error; queue pairs are waited for
 * DOWN        xs_link_down() was said; received memory may still be held
 */
enum xs_rc_state { XS_RC_NEW, XS_RC_CONNECTING, XS_RC_UP, XS_RC_DRAINING, XS_RC_DOWN };

struct xs_conduit {
	struct xs_conduit *next; /* of the device */
	struct xs_link *link;
	struct xs_rc_dev *dev;
	_Atomic int state;
	_Atomic bool open;     /* xs_link_up() has returned: segments may be delivered */
	_Atomic int failed;    /* enum xs_reason; set once, by any thread */
	_Atomic uint32_t refs; /* the link's and one per held rxbuf */
	struct xs_work work;
	struct xs_timer timer; /* connecting: gives up; draining: looks again */
	uint64_t drain_until, empty_mark;
	uint32_t entries[XS_LANES];
	uint32_t early; /* polling thread: segments that came before it was up */
	struct xs_rc_lane lane[XS_LANES];
	_Atomic uint64_t rnr, dropped;
};

static inline int xs_rc_state_of(const struct xs_conduit *c)
{
	return atomic_load_explicit(&c->state, memory_order_acquire);
}

/* --- verbs.c: the calls of libibverbs; 0 or a negative errno ---------------------------------- */
struct ibv_context *xs_verbs_open(const char *name, int *err);
void xs_verbs_close(struct xs_rc_dev *d);
/* Gives the descriptors of a context that isn't ours high numbers. */
void xs_verbs_hide(struct ibv_context *ctx);
/* librdmacm's own opening of a device that goes: it would keep it. */
void xs_verbs_let_go(struct ibv_context *theirs);
/* Protection domain, completion queue and channel, both receive queues. */
int xs_verbs_setup(struct xs_rc_dev *d);
void xs_verbs_free_queues(struct xs_rc_dev *d);
void xs_verbs_free_srq(struct ibv_srq *srq);
int xs_verbs_resize(struct xs_rc_dev *d, uint32_t cqe);
int xs_verbs_qp_make(struct xs_rc_lane *l);
int xs_verbs_qp_modify(struct xs_rc_lane *l, struct ibv_qp_attr *attr, int mask);
int xs_verbs_qp_query(struct xs_rc_lane *l, struct ibv_qp_attr *attr, int mask);
void xs_verbs_qp_error(struct xs_rc_lane *l);
int xs_verbs_qp_destroy(struct xs_rc_lane *l);
bool xs_verbs_gid(struct xs_rc_dev *d, uint8_t port, int index, union ibv_gid *gid);
int xs_verbs_register(struct xs_rc_dev *d, void *addr, size_t len, struct ibv_mr **mr);
void xs_verbs_deregister(struct ibv_mr *mr);
/* Is CAP_IPC_LOCK permitted: no limit on what may be registered? */
bool xs_verbs_may_lock(void);
int xs_verbs_post_send(struct xs_rc_lane *l, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int xs_verbs_post_recv(struct xs_rc_rq *q, struct ibv_recv_wr *wr);
int xs_verbs_poll(struct xs_rc_dev *d, struct ibv_wc *wc, int n);
void xs_verbs_arm(struct xs_rc_dev *d);
void xs_verbs_disarm(struct xs_rc_dev *d);
const char *xs_verbs_status(enum ibv_wc_status s);
/* What an asynchronous event was about. */
struct xs_rc_event {
	enum ibv_event_type type;
	struct ibv_qp *qp; /* of the events about one; else NULL */
	uint8_t port;	   /* of the events about one; else 0 */
	const char *name;
};
bool xs_verbs_event(struct xs_rc_dev *d, struct xs_rc_event *ev);

/* --- rq.c ------------------------------------------------------------------------------------- */
/* Promises up to `want` entries to a new conduit, at least `least`; 0: there aren't so many. */
uint32_t xs_rq_promise(struct xs_rc_rq *q, uint32_t want, uint32_t least);
/* A conduit is gone; one of its entries may be lost with its queue pair. */
void xs_rq_release(struct xs_rc_rq *q, uint32_t promised, bool maybe_lost);
void xs_rq_give_back(struct xs_rc_rq *q, struct xs_rc_rx *rx);
void xs_rq_flush(struct xs_rc_rq *q);
struct xs_rc_rx *xs_rq_entry(struct xs_rc_rq *q, uint32_t index);
/* The queue goes; its memory stays until xs_rq_free(). */
void xs_rq_close(struct xs_rc_rq *q);
void xs_rq_free(struct xs_rc_rq *q);

/* --- device.c --------------------------------------------------------------------------------- */
bool xs_dev_present(void);
struct xs_rc_dev *xs_dev_get(struct ibv_context *theirs, enum xs_reason *why);
/* Takes a conduit in: entries, completion queue space. */
enum xs_reason xs_dev_join(struct xs_rc_dev *d, struct xs_conduit *c);
void xs_dev_leave(struct xs_rc_dev *d, struct xs_conduit *c);
bool xs_dev_table_add(struct xs_rc_dev *d, struct xs_rc_lane *l);
void xs_dev_table_del(struct xs_rc_dev *d, uint32_t qpn);
struct xs_rc_lane *xs_dev_lane(struct xs_rc_dev *d, uint32_t qpn);
/* The conduit is up: what came too early is served. */
void xs_dev_kick(struct xs_rc_dev *d);
void xs_dev_put(struct xs_rc_dev *d);
/* It can't be used any more. Any thread, any lock. */
void xs_dev_break(struct xs_rc_dev *d);
/* It's being removed, and the kernel waits until nobody has it open. */
void xs_dev_gone(struct ibv_context *theirs);
void xs_dev_close_all(void);
void xs_dev_fork_child(void);

/* --- lane.c ----------------------------------------------------------------------------------- */
int xs_lane_init(struct xs_rc_lane *l, struct xs_conduit *c, enum xs_lane lane);
void xs_lane_free(struct xs_rc_lane *l);
/* Takes no more; what was taken is handed to the device. */
void xs_lane_close(struct xs_rc_lane *l);
/* Its queue pair is in ERROR: marks the end of its requests. */
void xs_lane_mark(struct xs_rc_lane *l);
bool xs_lane_idle(struct xs_rc_lane *l);
int xs_lane_post(struct xs_conduit *c, enum xs_lane lane, const struct xs_seghdr *h,
		 const void *payload, unsigned flags, uint64_t *seq);
int xs_lane_poll(struct xs_poller *p);
void xs_lane_rx_done(struct xs_rxbuf *buf);
/* The device closes: nobody polls it any more. */
void xs_lane_drop_early(struct xs_rc_dev *d);

/* --- conduit.c -------------------------------------------------------------------------------- */
struct xs_conduit *xs_conduit_new(void);
/* The device is known: queue pairs, entries. */
enum xs_reason xs_conduit_build(struct xs_conduit *c, struct ibv_context *theirs);
/* A lane's queue pair goes through INIT to RTR and RTS with the cm's attributes. */
enum xs_reason xs_conduit_connect_lane(struct xs_rc_lane *l);
/* A lane is established; both: up. */
void xs_conduit_lane_ready(struct xs_rc_lane *l);
/* Any thread, any lock: the conduit dies; the first reason counts. */
void xs_conduit_fail(struct xs_conduit *c, enum xs_reason why);
void xs_conduit_event(struct xs_rc_dev *d, const struct xs_rc_event *ev);
void xs_conduit_hold(struct xs_conduit *c);
void xs_conduit_drop(struct xs_conduit *c);

/* --- cm.c: the calls of librdmacm ------------------------------------------------------------- */
enum xs_reason xs_cm_listen(const struct sockaddr_storage *bound,
			    const struct sockaddr_storage *local, struct xs_rdv **out);
void xs_cm_unlisten(struct xs_rdv *r);
enum xs_reason xs_cm_connect(struct xs_conduit *c, const struct sockaddr_storage *local,
			     const struct sockaddr_storage *peer);
int xs_cm_qp_attr(struct xs_rc_id *id, enum ibv_qp_state state, struct ibv_qp_attr *attr,
		  int *mask);
/* Says goodbye to the peer, or refuses it. */
void xs_cm_part(struct xs_rc_id *id, enum xs_reason why);
void xs_cm_free(struct xs_rc_id *id);
void xs_cm_close_all(void);
void xs_cm_fork_child(void);

#endif

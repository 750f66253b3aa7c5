/* SPDX-License-Identifier: MIT */
/*
 * The tests' carrier: the contract of link/carrier.h over Unix sockets, with faults.
 *
 * A link is two SOCK_SEQPACKET connections, one per lane; a packet is a segment. Posted segments
 * wait in a queue per lane until they are due; their payload is read from the poster's memory only
 * then. Receive entries are counted: a segment that finds none is a broken rule (rnr), which ends
 * the link.
 *
 * XSHIM_TESTPLANE = comma-separated key=value:
 *   delay_us=N     each segment waits 0..N us (per lane: lanes overtake each other)
 *   reorder=P      P % of segments wait ten times as long
 *   dup=P          P % of DATA segments are delivered a second time, later
 *   cut_after=N    a link is cut after N segments; cuts=K: at most K times in this process
 *   cut_file=PATH  each time that this file appears anew, all links of the process are cut
 *   freeze_after=N, freeze_ms=M   after N segments both lanes stand still for M ms
 *   small=N, bulk=N               receive entries granted
 *   seed=N
 */
#ifndef XS_TESTPLANE_H
#define XS_TESTPLANE_H

#include <stdatomic.h>

#include "base/lock.h"
#include "engine/progress.h"
#include "engine/wait.h"
#include "link/carrier.h"
#include "link/link.h"

#define TP_DEPTH 32
#define TP_INLINE 128u
#define TP_RESERVE 8u
#define TP_SMALL_SIZE 4096u
#define TP_BULK_SIZE (64u << 10)

struct tp_faults {
	uint32_t delay_us, reorder, dup, cut_after, freeze_after, freeze_ms, small, bulk;
	int32_t cuts;
	char cut_file[256];
};

struct tp_request {
	struct xs_seghdr h;
	const void *payload;
	uint8_t copy[TP_INLINE];
	uint64_t due;
};

struct tp_lane {
	struct xs_lock lock; /* XS_RANK_LANE */
	struct xs_conduit *c;
	enum xs_lane lane;
	int fd;
	bool closed, starved;		   /* lock */
	_Atomic bool blocked;		   /* written under the lock */
	uint64_t posted;		   /* lock */
	uint64_t last_due;		   /* lock */
	struct tp_request queue[TP_DEPTH]; /* lock; [completed, posted) */
	_Atomic uint64_t completed;
	struct xs_timer timer;
	_Atomic int32_t entries; /* free receive entries */
};

/* A received segment. */
struct tp_rx {
	struct xs_rxbuf buf;
	struct xs_seghdr h;
	struct tp_rx *next;
	uint8_t mem[];
};

struct xs_conduit {
	struct xs_conduit *next; /* conduits; tp_lock */
	struct xs_link *link;
	_Atomic uint32_t refs;
	_Atomic bool up, failed;
	_Atomic uint32_t segments;
	_Atomic uint64_t frozen_until;
	_Atomic uint64_t rnr;
	struct tp_lane lane[XS_LANES];
	struct xs_lock poll_lock;     /* XS_RANK_LINK: delivering */
	struct tp_rx *again;	      /* poll_lock: delivered once more */
	bool ended;		      /* poll_lock: the peer has gone */
	uint8_t packet[TP_BULK_SIZE]; /* poll_lock */
	enum xs_reason why;	      /* of the end; progress thread */
	struct xs_work work;
};

extern struct tp_faults tp_faults;
extern const struct xs_carrier_ops tp_ops;

/* faults.c */
void tp_faults_read(void);
uint32_t tp_random(uint32_t n);
/* When a segment that's posted now is due. */
uint64_t tp_due(struct xs_conduit *c, uint64_t now);
/* One more segment went out: true: the link is to be cut. */
bool tp_counted(struct xs_conduit *c);

/* lane.c */
int tp_post(struct xs_conduit *c, enum xs_lane lane, const struct xs_seghdr *h, const void *payload,
	    unsigned flags, uint64_t *seq);
void tp_receive(struct xs_conduit *c);
void tp_rx_done(struct xs_rxbuf *buf);
void tp_lane_close(struct tp_lane *l);
void tp_lane_timer(struct xs_timer *t);

/* conduit.c */
struct xs_conduit *tp_conduit_new(int small_fd, int bulk_fd);
/* Progress thread: it's ready. */
void tp_conduit_start(struct xs_conduit *c, struct xs_link *l);
void tp_conduit_fail(struct xs_conduit *c);
void tp_conduit_hold(struct xs_conduit *c);
void tp_conduit_drop(struct xs_conduit *c);
void tp_conduits_cut(void);
void tp_want_out(struct tp_lane *l, bool on);
void tp_conduits_fork_child(void);

/* meet.c */
enum xs_reason tp_listen(const struct sockaddr_storage *bound, const struct sockaddr_storage *local,
			 struct xs_rdv **out);
void tp_unlisten(struct xs_rdv *r);
enum xs_reason tp_connect(struct xs_link *l, const struct sockaddr_storage *local,
			  const struct sockaddr_storage *peer, struct xs_conduit **out);
void tp_meet_fork_child(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The socket object, private to sock/: one TCP socket of the program's and the streams of its two
 * directions. The kernel connection (the twin) is the program's own descriptor.
 *
 * Locks: `lock` (XS_RANK_CONN) guards all that isn't atomic or constant. Every locked section ends
 * with xs_conn_leave(), which first does what has become due (drive.c): messages, READY, SWITCHED,
 * the flushing of a return, FIN. So no caller has to know what its event makes due.
 *
 * Fast path: while `managed` lacks a direction's bit the kernel alone serves it: the door counts
 * itself into rx_kernel or tx_kernel, looks at the bit again, and calls libc. A bit is set only by
 * READY's two ends, and READY goes out only when the counter was seen 0 after that
 * (tests/model/ready.pml).
 */
#ifndef XS_SOCK_CONN_H
#define XS_SOCK_CONN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/bytering.h"
#include "base/clock.h"
#include "base/crit.h"
#include "base/lock.h"
#include "base/reason.h"
#include "engine/progress.h"
#include "link/plane.h"
#include "sock/fdtable.h"
#include "sock/lend.h"
#include "sock/readiness.h"
#include "sock/sock.h"
#include "sock/stats.h"
#include "sock/switch.h"

enum xs_role {
	XS_ROLE_NONE, /* socket(), not connected */
	XS_ROLE_LISTENER,
	XS_ROLE_CONNECTED, /* connect() */
	XS_ROLE_ACCEPTED,
};

enum xs_pairing {
	XS_PAIR_NONE, /* not asked yet; or asked and refused for now (pair_at) */
	XS_PAIR_ASKING,
	XS_PAIR_DONE,  /* chan is there */
	XS_PAIR_NEVER, /* a final reason, or a socket that isn't eligible */
};

#define XS_STALL_MS 20 /* a full window and nothing consumed: the kernel absorbs more */

#define XS_MANAGED_RX 1u
#define XS_MANAGED_TX 2u

struct xs_sock {
	struct xs_obj obj;
	struct xs_lock lock;
	_Atomic uint8_t managed;  /* XS_MANAGED_* */
	_Atomic uint8_t watching; /* pairing or policy still wants to look at each call */
	_Atomic uint32_t rx_kernel, tx_kernel; /* threads inside kernel-only calls */
	struct xshim_conn *row;

	/* Constant once set, before the object is published or under the lock. */
	enum xs_role role;
	int family;
	uint64_t cookie;
	struct sockaddr_storage local, peer;

	int fd;	      /* a name of it; once closed by the program: a private duplicate; -1 none */
	bool gone;    /* finished: whoever still holds a reference gets the end */
	bool orphan;  /* the program has closed its last name; we finish */
	bool leaving; /* ... without an end: an heir may go on */
	bool exiting; /* the process ends: no write is taken any more, none fails */
	bool named;   /* local and peer are known */
	/* Of a listener: 1: local is being filled in, 2: it's the address it's to be found under.
	 */
	_Atomic uint8_t listening;
	_Atomic uint8_t hidden; /* ... and why it can't be */
	bool foreign;		/* forked child: another process owns the streams */
	bool shared;		/* another process may hold it too (heirs.h) */
	bool passed;		/* ... for it was passed on */
	bool child_asks;	/* ... and wants it back on the kernel */
	uint32_t word;		/* heirs.c's, in `estate`; 0: none */
	struct xs_estate *estate;
	size_t announced;      /* bytes announced when a hand-over froze reading */
	uint32_t queued;       /* ... then: unread bytes of the twin ... */
	uint64_t queued_since; /* ... that haven't become more or less since */
	uint64_t orphan_since; /* our FIN is on the twin since */
	uint64_t lingers;      /* a close waits (SO_LINGER), since; 0: none */

	struct xs_s tx;
	struct xs_r rx;
	struct xs_chan *chan;
	/* fast.c: calls that need no lock. */
	struct xs_byteout out;
	struct xs_bytein in;
	_Atomic uint64_t spin; /* cycles that a read waits there */
	bool ringed;	       /* chan knows of the two */
	uint8_t swaps;	       /* threads took turns; the more, the less often one gets it */
	uint8_t refused;
	uint8_t secret[16];
	enum xs_pairing pairing;
	enum xs_reason tx_why, rx_why; /* why that direction isn't on a better plane */
	enum xs_reason pin;  /* the whole connection stays on the kernel, for this reason */
	uint64_t pair_at;    /* next try to pair (xs_now_ns); 0: any time */
	uint64_t retry_at;   /* next try to upgrade; 0: any time */
	uint32_t backoff_ms; /* after transient returns: 1 s doubling to 60 s */

	/* Sending. */
	_Atomic uint64_t tx_twin; /* bytes that we wrote to the twin, frames included */
	bool nospace;		  /* somebody waits for room: tell him */
	/* tx_twin plus 1, when the twin had room at that count; 0: not known. */
	_Atomic uint64_t roomy;
	bool wr_shut; /* shutdown(WR) or close by the program */
	bool fin_on_twin;
	uint64_t ret_since;		   /* the link died and S returns: since then */
	bool writing;			   /* the program wants to write behind a return */
	bool lazy_frame;		   /* a frame with nothing behind it waits for a reason */
	uint64_t stall_since, stall_acked; /* a full window seen, and what was acknowledged then */
	uint64_t ready_acks;		   /* FIRST's proof: R's count in READY */
	bool tx_doubt;	      /* the link died where no frame tells R that all of an epoch is in */
	_Atomic uint8_t lent; /* lend.c's: options of the twin that are ours, a bit each */
	int own[XS_LENT];     /* ... and what the program has set them to */
	uint64_t unacked, unacked_at; /* tx.acked at the last look, with bytes kept; when */
	bool complete; /* the peer's process is gone, and the plane has brought all that it wrote */
	bool link_gone; /* the channel's link is dead: another pairing once all is back */

	/* Receiving. */
	_Atomic uint64_t rx_twin; /* bytes that we read from the twin, frames included */
	uint64_t ack_said;	  /* the consumption last told by an ACK */
	uint64_t peer_acked;	  /* READY's proof: S's count in PREPARE */
	uint64_t want_ack;	  /* S needs room: it's told once this is consumed; 0: it doesn't */
	uint64_t want_most;	  /* ... and once this is */
	bool rd_shut;		  /* shutdown(RD) by the program */
	bool ready_wanted;	  /* PREPARE waits for the counters */
	uint64_t twin_fin_at;	  /* the twin's FIN came where bytes may be missing: since then */
	uint32_t sndbuf;	  /* SO_SNDBUF as the program set it; 0: not */
	bool lowat;		  /* SO_RCVLOWAT was set: ask for it */
	bool inq;		  /* TCP_INQ is on */
	_Atomic bool blocks;	  /* no O_NONBLOCK when last asked: a hint, for spins only */
	bool settled;		  /* steady when last looked at, and no event since */
	bool resting;		  /* the timer will do what can wait for a quiet moment */
	bool eof;		  /* the in-band FIN was read */
	bool peer_rst;		  /* PEER_GONE or the twin's RST: ECONNRESET behind the bytes */
	int error;		  /* pending, told once (sk_err) */
	uint64_t partial_since;	  /* the beginning of a frame is in the twin */

	/* Policy. */
	_Atomic uint32_t turns; /* reads that followed a write: round trips */
	_Atomic uint8_t last_was_write;

	struct xs_waiter *waiters;
	struct xs_work work;	    /* drive it in the progress thread */
	struct xs_timer timer;	    /* ... at a time */
	_Atomic(const char *) end;  /* it's over, and the report is due: how it ended */
	bool timed;		    /* this drive is the timer's: lazy acknowledgements go out */
	uint64_t timer_at;	    /* when it was set for; 0: not set */
	struct xs_sock *tuple_next; /* accepted connections by tuple (pairing.c) */
	bool in_tuples;
};

/* Does that direction not belong to the kernel alone? */
static inline bool xs_is_managed(const struct xs_sock *s, unsigned bits)
{
	return atomic_load_explicit(&s->managed, memory_order_acquire) & bits;
}

static inline struct xs_sock *xs_sock_of(struct xs_obj *o)
{
	return (struct xs_sock *)o;
}

/* --- conn.c: life ---------- */
/* What was in the table at fd: closed behind our back (takes over the table's reference). */
void xs_fd_stale(struct xs_obj *o, int fd);
void xs_conn_fork_child(struct xs_sock *s);
void xs_conn_pool_fork_child(void);
/* A new object for fd, published in the table. NULL without memory. */
struct xs_sock *xs_conn_new(int fd, int family, enum xs_role role);
static inline void xs_conn_hold(struct xs_sock *s)
{
	atomic_fetch_add_explicit(&s->obj.refs, 1, memory_order_relaxed);
}
/* The lock, inside a critical section of the caller's. */
void xs_conn_enter(struct xs_sock *s) XS_ACQUIRES(s->lock);
void xs_conn_leave(struct xs_sock *s) XS_RELEASES(s->lock);
/* For a section that can't have made anything due while both directions run on the plane: as cheap
 * as the lock alone, unless an event has unsettled the connection. */
void xs_conn_leave_quiet(struct xs_sock *s) XS_RELEASES(s->lock);
/* Fills local and peer; false: not connected. Locked. */
bool xs_conn_name(struct xs_sock *s);
/* True if s->fd is still this socket (its cookie). */
bool xs_conn_fresh(struct xs_sock *s);
/* All ends: chan closed, the report due; the fd is not touched. Locked. */
void xs_conn_finish(struct xs_sock *s, const char *end);
/* Writes the report if it's due: no lock may be held, as that may take its time. */
void xs_conn_report(struct xs_sock *s);
/* Some thread is at it. */
bool xs_conn_reporting(void);
/* Each object that has a channel or a name: fn with a reference, no lock. */
void xs_conn_each(void (*fn)(struct xs_sock *s, void *arg), void *arg);

/* fds.c: another descriptor of s than `but`, or -1. fd is no name of s any more (ends.c). */
int xs_fd_other_name(struct xs_sock *s, int but);
void xs_sock_unname(struct xs_sock *s, int fd, bool last);

/* --- drive.c: what is due ---------- */
/* Locked; never blocks. */
void xs_drive(struct xs_sock *s);
/* Nothing is due: xs_drive() would do nothing. */
bool xs_drive_steady(const struct xs_sock *s);
/* Locked: our direction ends, and R is told on the plane. */
void xs_drive_end(struct xs_sock *s);
/* The progress thread drives it soon / in `ms`. */
void xs_drive_soon(struct xs_sock *s);
void xs_drive_in(struct xs_sock *s, unsigned ms);
/* Bytes have moved: in some milliseconds what was consumed is told and spare memory given back. */
void xs_rest_soon(struct xs_sock *s);
/* Locked: READY isn't wanted any more. */
void xs_ready_unwant(struct xs_sock *s);
/* Progress thread, no lock: answers READY if no thread sleeps in a kernel-only call any more. */
void xs_ready_try(struct xs_sock *s);
void xs_drive_fork_child(void);
/* Sets the direction's state row, reason and plane for stats after each change. Locked. */
void xs_conn_publish(struct xs_sock *s);
/* Marks what the kernel alone doesn't serve any more, or serves again. Locked. */
void xs_manage(struct xs_sock *s, unsigned bits, bool on);
/* The kernel alone serves writes again, but between shutdown(WR) and the twin's FIN, and where we
 * hold an error that it has told already. Locked. */
void xs_unmanage_tx(struct xs_sock *s);
/* Locked: both or one direction back to the kernel, for this reason. */
void xs_return_tx(struct xs_sock *s, enum xs_reason why);
void xs_return_rx(struct xs_sock *s, enum xs_reason why);
/* Locked: the peer's RETURN_ME. */
void xs_return_me(struct xs_sock *s, uint16_t epoch, uint64_t c, bool switched);
/* Locked: the program has closed its last name: is everything done? (ends.c) */
void xs_orphan_look(struct xs_sock *s);
/* Locked: RST for the peer once the twin closes. */
void xs_conn_abort(struct xs_sock *s);
/* Locked: ... and ECONNRESET for the program behind what has arrived. */
void xs_conn_reset(struct xs_sock *s, enum xs_reason why);
/* Reading stops here for a hand-over: what has been announced has to be in the twin (giveback.c).
 * Locked, as the next. */
void xs_return_announce(struct xs_sock *s);
/* Is it back? `out`: as below. */
bool xs_returned(struct xs_sock *s, bool out);
/* Waits, without the lock, until both directions are plainly on the kernel, at most return_ms; then
 * the stream is reset with return-timeout. `out`: the descriptor goes to somebody without the shim:
 * the twin has to stand exactly at C and cover what was announced. 0 or -ETIMEDOUT. */
int xs_return_wait(struct xs_sock *s, enum xs_reason why, bool out);
/* It begins: both directions are asked back, and if `out`, nothing is read any more, so that the
 * twin comes to stand at C. Locked. */
void xs_return_begin(struct xs_sock *s, enum xs_reason why, bool out);
/* The two halves of it, for many streams at once. No lock. */
void xs_return_ask(struct xs_sock *s, enum xs_reason why, bool out);
int xs_return_await(struct xs_sock *s, bool out, uint64_t until);
uint64_t xs_return_deadline(void);
/* xs_fd_pin for all descriptors that `which` takes: asked together, waited for together. */
void xs_fd_pin_all(bool (*which)(int fd), enum xs_reason why);

/* --- twin.c: the kernel's counts (design 2.1) ---------- */
enum xs_reason xs_twin_written(int fd, bool connected, uint64_t *written, uint64_t *acked);
enum xs_reason xs_twin_received(int fd, bool connected, uint64_t *received, uint64_t *consumed);
/* TCP state (TCP_ESTABLISHED ...), or a negative errno. */
int xs_twin_state(int fd);
/* Unread bytes in the twin (SIOCINQ), 0 when unknown. */
uint32_t xs_twin_unread(int fd);
/* The receive window that the kernel has told last: 0: nothing more can come before somebody reads.
 * -1: this kernel doesn't say. */
int xs_twin_window(int fd);
/* Its close will be RST. */
void xs_twin_abort(int fd);
/* Nothing comes any more: FIN, RST or an error. */
bool xs_twin_ended(int fd);

/* --- rx_twin.c ---------- */
/* Looks at the twin at X in R_PLANE, or drops repeats; true: something changed. Locked. */
bool xs_rx_look(struct xs_sock *s);
/* Bytes that a read would give now, from all planes: what FIONREAD says. Locked. */
size_t xs_rx_readable(struct xs_sock *s);
/* 1: all below C is out of the twin; 0: FIN; -EAGAIN: more to come; or an error. Locked. */
ssize_t xs_rx_drop(struct xs_sock *s, int fd);
/* An error that the twin has told us once: it ends the stream, behind what was taken before. */
bool xs_rx_hard(struct xs_sock *s, int err);
/* ... as the program is told it. */
int xs_rx_error(const struct xs_sock *s, int err);
/* The twin has hung up while our direction is on the plane: was it a reset? A read that has met a
 * FIN before isn't told. Locked. */
void xs_rx_look_reset(struct xs_sock *s);
/* n bytes have left the twin; `data` of them are the program's: no frame, no repeats. */
static inline void xs_rx_left_twin(struct xs_sock *s, size_t n, size_t data)
{
	atomic_fetch_add_explicit(&s->rx_twin, n, memory_order_relaxed);
	if (s->row)
		atomic_fetch_add_explicit(&s->row->rx.bytes[XSHIM_KERNEL], data,
					  memory_order_relaxed);
}

/* --- fast.c: calls without the lock (base/bytering.h) ---------- */
/* The lock is ours: no other thread moves bytes, and what has been moved is counted. */
void xs_fast_stop(struct xs_sock *s);
/* The lock is given up: may this thread go on without it? */
void xs_fast_go_on(struct xs_sock *s);
/* A call of this thread has moved bytes on the plane: its next one may do without the lock. */
void xs_fast_grant_tx(struct xs_sock *s);
void xs_fast_grant_rx(struct xs_sock *s);
void xs_fast_begin(struct xs_sock *s);
void xs_fast_end(struct xs_sock *s);
void xs_fast_fork_child(struct xs_sock *s);

/* --- stream_rx.c, stream_tx.c ---------- */
/* inq.c: TCP_INQ's control message, into `room` bytes of msg->msg_control. No lock. */
void xs_inq_put(struct xs_sock *s, struct msghdr *msg, size_t room);
/* Bytes that a read would give now from plane and copies, the twin not counted. Locked. */
size_t xs_rx_held(struct xs_sock *s);
/* Acknowledges consumption where due. Locked. */
void xs_rx_ack(struct xs_sock *s, bool now);
/* RET: what is left of the frame; the number of pieces. Locked. */
size_t xs_tx_frame(struct xs_sock *s, struct xs_return_frame *f, struct iovec *iov);
/* RET: moves kept bytes into the twin; true: all in. Locked. */
bool xs_tx_flush(struct xs_sock *s);

/* --- room.c ---------- */
/* The direction has left the plane, or all of its return is in the twin: waiters are told. */
void xs_tx_moved(struct xs_sock *s);
/* The program may have been told that the twin is full. Any thread; keeps errno. */
static inline void xs_room_unknown(struct xs_sock *s)
{
	atomic_store_explicit(&s->roomy, 0, memory_order_seq_cst);
}
/* Room for the program's bytes on the plane as the kernel would announce it. Locked. */
bool xs_tx_writable(struct xs_sock *s);

/* --- events.c: from the plane ---------- */
/* More has been acknowledged. Locked. */
void xs_tx_acked(struct xs_sock *s);
extern const struct xs_chan_events xs_conn_events;
/* pairing.c */
extern const struct xs_pair_events xs_conn_pairing;
/* A call has moved bytes on the kernel path: has the connection proved worth it? */
void xs_policy_look(struct xs_sock *s, bool wrote);
/* A piece of a message's iov: n bytes at most from byte `skip` on, in at most `max` pieces. */
int xs_iov_slice(const struct msghdr *msg, size_t skip, size_t n, struct iovec *out, int max,
		 size_t *len);
/* A pointer where no program has memory: the call gives EFAULT as the kernel's would. */
bool xs_iov_bad(const struct msghdr *msg);

/* --- waiters (readiness.c) ---------- */
void xs_wake(struct xs_sock *s, unsigned what);
/* A thread has left a kernel-only call: does a READY wait for that? */
static inline void xs_ready_nudge(struct xs_sock *s)
{
	if (xs_ready_wanted() && atomic_load_explicit(&s->managed, memory_order_relaxed))
		xs_drive_soon(s);
}
/* Asked on would-block only, since the file description may be shared: O_NONBLOCK, MSG_DONTWAIT. */
bool xs_nonblocking(int fd, int flags);
/* A call that would block. */
struct xs_block {
	unsigned want; /* POLLIN or POLLOUT */
	uint64_t since, deadline;
	bool timed, asked;
	/* What ends a spin; NULL: that `want` has come. */
	bool (*done)(void *arg);
	void *arg;
};
/*
 * May it wait? 0: sleep until b->deadline (0: none); 1: look again at once; -EAGAIN: the
 * descriptor doesn't block. `spin`: on the plane first, if it has blocked before (a hint that a
 * system call confirms before any sleep).
 */
int xs_may_block(struct xs_sock *s, int fd, int flags, struct xs_block *b, bool spin);
/* Sleeps until `want` may have come; deadline xs_now_ns or 0. 0 (look again), -EAGAIN (deadline),
 * -EINTR. No lock. ms_max: at most so long, then 0 (stalled writers); 0: no bound. */
int xs_conn_wait(struct xs_sock *s, int fd, unsigned want, uint64_t deadline, bool restart,
		 unsigned ms_max);

/* Sleeps until done(s), which is asked with the lock held, or until `until` (xs_now_ns): -EAGAIN.
 * -EINTR only if `interruptible`, for any handler. The caller has disabled cancellation. No lock.
 */
int xs_conn_await(struct xs_sock *s, bool (*done)(struct xs_sock *s), uint64_t until,
		  bool interruptible);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Calls that move bytes through a ring in shared memory without the connection's lock, and so
 * without blocking signals (base/bytering.h).
 *
 * Who takes the lock takes the ring away from whichever other thread has it, which costs one system
 * call, and counts what that thread has moved; its own thread keeps what it has. When the lock is
 * given up a thread goes on having a ring only where nothing is due and nothing but bytes can be
 * asked for: both directions on the plane, no error, no end, no hand-over. So an unlocked call
 * needn't ask for any of that. A call that moves no byte, for whatever reason, goes the locked way.
 *
 * A thread gets a direction's ring by a locked call that has moved bytes. Where threads take turns
 * at one stream that would cost more than it's worth: then they get it seldom.
 */
#include "sock/sock.h"

#include "engine/wait.h"
#include "sock/conn.h"

#define SWAPS_MOST 16u
#define SELDOM 64u
static __thread unsigned paid; /* reads without the lock since the last one with it */

#define FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)

/* --- the lock's holder ------------------------------------------------------------------------ */
static void stop(struct xs_byteside *side)
{
	atomic_store_explicit(&side->owner, XS_BYTE_NOBODY, memory_order_relaxed);
}

void xs_fast_begin(struct xs_sock *s)
{
	xs_chan_ops(s->chan)->rings(s->chan, &s->out, &s->in);
	s->in.listens = s->waiters != NULL;
	s->ringed = true;
}

void xs_fast_end(struct xs_sock *s)
{
	stop(&s->out.side);
	stop(&s->in.side);
	s->ringed = false;
}

/* The parent's rings aren't mapped here. */
void xs_fast_fork_child(struct xs_sock *s)
{
	xs_fast_end(s);
	s->out.side.ring = s->in.side.ring = NULL;
}

static void sent(struct xs_sock *s, const struct xs_moved *m)
{
	uint64_t n = m->sent - s->tx.end;

	if (!xs_s_on_plane(&s->tx))
		return;
	if (n) {
		xs_s_took(&s->tx, n);
		if (s->row)
			xs_stats_count(&s->row->tx.bytes[xs_chan_ops(s->chan)->plane], n);
	}
	if (m->acked > s->tx.acked && xs_s_ack(&s->tx, s->tx.epoch, m->acked))
		xs_tx_acked(s);
}

static void received(struct xs_sock *s, const struct xs_moved *m)
{
	uint64_t n = m->consumed - s->rx.c;

	if (s->rx.state != XS_R_PLANE || !n)
		return;
	xs_r_consumed(&s->rx, n);
	if (s->row)
		xs_stats_count(&s->row->rx.bytes[xs_chan_ops(s->chan)->plane], n);
}

void xs_fast_stop(struct xs_sock *s)
{
	struct xs_moved m;

	if (xs_byte_take_back(&s->out.side, &s->in.side) && s->swaps < SWAPS_MOST)
		s->swaps++;
	xs_chan_ops(s->chan)->settle(s->chan, &m);
	if (m.tx)
		sent(s, &m);
	if (m.rx)
		received(s, &m);
}

static bool quiet(const struct xs_sock *s)
{
	return s->settled && s->rx.state == XS_R_PLANE && s->tx.state == XS_S_SWD &&
	       !s->rx.frozen && !s->error && !s->gone && !s->exiting && !s->rd_shut && !s->lowat &&
	       !s->inq && !s->pin && !atomic_load_explicit(&s->watching, memory_order_relaxed);
}

void xs_fast_go_on(struct xs_sock *s)
{
	if (!quiet(s)) {
		stop(&s->out.side);
		stop(&s->in.side);
	}
}

/* Is it worth the taking back? */
static bool worth(struct xs_sock *s)
{
	if (s->swaps < SWAPS_MOST)
		return true;
	if (++s->refused < SELDOM)
		return false;
	s->refused = 0;
	s->swaps /= 2;
	return true;
}

static void grant(struct xs_sock *s, struct xs_byteside *side)
{
	uint64_t self = xs_byte_self();

	xs_rest_soon(s);
	if (atomic_load_explicit(&side->owner, memory_order_relaxed) == self || !worth(s))
		return;
	self = xs_byte_name();
	if (self != 1)
		atomic_store_explicit(&side->owner, self, memory_order_relaxed);
}

void xs_fast_grant_tx(struct xs_sock *s)
{
	if (s->ringed && s->out.side.ring && s->tx.state == XS_S_SWD)
		grant(s, &s->out.side);
}

void xs_fast_grant_rx(struct xs_sock *s)
{
	bool blocks = atomic_load_explicit(&s->blocks, memory_order_relaxed);

	if (!s->ringed || !s->in.side.ring || s->rx.state != XS_R_PLANE)
		return;
	atomic_store_explicit(&s->spin, blocks ? xs_spin_cycles(paid) : 0, memory_order_relaxed);
	paid = 0;
	grant(s, &s->in.side);
}

/* --- the calls -------------------------------------------------------------------------------- */
/* The socket at fd, if this thread may use that side of it. */
static inline struct xs_sock *mine(int fd, size_t side, struct xs_byteplace *at)
{
	struct xs_byteside *b;
	const void *o;

	at->slot = xs_fdtable_slot(fd);
	if (!at->slot)
		return NULL;
	o = atomic_load_explicit(at->slot, memory_order_acquire);
	at->is = o;
	if (!o || ((const struct xs_obj *)o)->kind != XS_FD_SOCK)
		return NULL;
	b = (struct xs_byteside *)((char *)(uintptr_t)o + side);
	return atomic_load_explicit(&b->owner, memory_order_relaxed) == xs_byte_self()
		       ? (struct xs_sock *)(uintptr_t)o
		       : NULL;
}

/* The other side waits for what was done: locked, the ring is settled. */
static __attribute__((noinline)) void tell(int fd)
{
	struct xs_sock *s = xs_sock_get(fd);
	int saved = errno;
	struct xs_crit cs;

	if (!s)
		return;
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	xs_conn_leave_quiet(s);
	xs_crit_leave(&cs);
	xs_sock_put(s);
	errno = saved;
}

size_t xs_fast_send(int fd, const void *buf, size_t n, int flags)
{
	struct xs_byteplace at;
	struct xs_sock *s = mine(fd, offsetof(struct xs_sock, out.side), &at);
	bool news;
	size_t r;

	if (!s || !n || n > XS_BYTE_UNLOCKED || flags & ~FLAGS || (uintptr_t)buf < 4096)
		return 0;
	r = xs_byte_put(&s->out, &at, buf, n, &news);
	if (news)
		tell(fd);
	return r;
}

size_t xs_fast_recv(int fd, void *buf, size_t n, int flags)
{
	struct xs_byteplace at;
	struct xs_sock *s = mine(fd, offsetof(struct xs_sock, in.side), &at);
	uint64_t spin;
	bool news;
	size_t r;

	if (!s || !n || flags & ~FLAGS || (uintptr_t)buf < 4096)
		return 0;
	spin = flags & MSG_DONTWAIT ? 0 : atomic_load_explicit(&s->spin, memory_order_relaxed);
	r = xs_byte_get(&s->in, &at, buf, n < XS_BYTE_UNLOCKED ? n : XS_BYTE_UNLOCKED, spin, &news);
	paid += r != 0;
	if (news)
		tell(fd);
	return r;
}

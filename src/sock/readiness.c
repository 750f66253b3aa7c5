/* SPDX-License-Identifier: MIT */
/*
 * The one function (readiness.h), the waiters, and the sleep of a blocking call.
 *
 * While a direction is on the plane the twin is asked only about what only it knows: RST, a return,
 * the peer's FIN. Those arrive as events of the twin that each sleeper watches, so a socket with
 * both directions on the plane is answered without a system call.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/time.h>

#include "base/real.h"
#include "base/unwind.h"
#include "engine/wait.h"
#include "sock/heirs.h"
#include "sock/sock.h"

#define IN_BITS (POLLIN | POLLRDNORM)
#define OUT_BITS (POLLOUT | POLLWRNORM)

bool xs_managed(const struct xs_sock *s)
{
	return atomic_load_explicit(&s->managed, memory_order_seq_cst) != 0;
}

bool xs_outlives(struct xs_sock *s)
{
	bool channel;

	xs_conn_enter(s);
	channel = s->chan != NULL;
	xs_conn_leave_quiet(s);
	return channel;
}

static unsigned twin_now(struct xs_sock *s, unsigned want)
{
	struct pollfd p = {.fd = s->fd, .events = (short)want};
	unsigned bits = s->fd >= 0 && xs_real.poll(&p, 1, 0) > 0 ? (unsigned)p.revents : 0;

	if (want & POLLOUT && !(bits & POLLOUT))
		xs_room_unknown(s); /* the kernel tells when there's some */
	return bits;
}

/* The twin has a FIN and, behind what is left to drop, no data. */
static unsigned twin_rx(struct xs_sock *s, unsigned k)
{
	unsigned bits = k & (POLLPRI | POLLRDBAND | POLLERR | POLLHUP);

	xs_rx_look(s); /* repeats out of the way */
	if (!xs_r_twin_limit(&s->rx))
		return bits & ~(unsigned)POLLHUP;
	if (s->rd_shut)
		return bits | IN_BITS | POLLRDHUP;
	if (!(k & POLLRDHUP))
		return bits | (twin_now(s, POLLIN) & POLLIN ? IN_BITS : 0);
	if (xs_twin_unread(s->fd))
		bits |= IN_BITS;
	if (xs_r_twin_fin(&s->rx) != XS_FIN_WAIT)
		return bits | IN_BITS | POLLRDHUP;
	return bits & ~(unsigned)POLLHUP;
}

static unsigned plane_rx(struct xs_sock *s)
{
	size_t n = xs_chan_ops(s->chan)->rx_avail(s->chan);

	if (s->eof || s->rd_shut || (s->rx.fin_known && s->rx.c + n >= s->rx.fin))
		return IN_BITS | POLLRDHUP;
	return n ? IN_BITS : 0;
}

/* SO_RCVLOWAT was set: less than that isn't readable. */
static bool below_lowat(struct xs_sock *s)
{
	int lowat = 1;
	socklen_t len = sizeof(lowat);

	xs_real.getsockopt(s->fd, SOL_SOCKET, SO_RCVLOWAT, &lowat, &len);
	return xs_rx_readable(s) < (size_t)lowat;
}

static unsigned rx_bits(struct xs_sock *s, unsigned k)
{
	unsigned bits;

	/* Told in band: whether the twin's FIN is here yet or not. */
	if (s->eof || xs_r_at_final(&s->rx, xs_rx_held(s)))
		return IN_BITS | POLLRDHUP;
	if (s->rx.state == XS_R_PLANE)
		return plane_rx(s);
	bits = twin_rx(s, k);
	if (xs_rx_held(s))
		bits |= IN_BITS;
	return bits;
}

static unsigned tx_bits(struct xs_sock *s, unsigned k, unsigned want)
{
	if (s->wr_shut)
		return OUT_BITS;
	if (s->exiting)
		return 0;
	if (xs_s_on_plane(&s->tx)) {
		if (xs_tx_writable(s))
			return OUT_BITS;
	} else if (s->tx.state != XS_S_RET || s->lazy_frame) {
		return k & OUT_BITS;
	}
	if (want & OUT_BITS && !(want & XS_WANT_QUIET))
		s->nospace = true;
	return 0;
}

static unsigned managed_bits(struct xs_sock *s, unsigned want)
{
	unsigned k = 0, bits;

	if (s->gone)
		return IN_BITS | OUT_BITS | POLLRDHUP | POLLHUP;
	if (s->rx.state != XS_R_PLANE || !xs_s_on_plane(&s->tx) || !s->rx.linked)
		k = twin_now(s, IN_BITS | OUT_BITS | POLLRDHUP | POLLPRI);
	if (k & POLLHUP && xs_s_on_plane(&s->tx))
		xs_rx_look_reset(s);
	if (s->rx.state == XS_R_PLANE && k & (POLLIN | POLLRDHUP | POLLHUP | POLLERR))
		xs_rx_look(s);
	bits = rx_bits(s, k);
	if (s->lowat && bits & POLLIN && !(bits & POLLRDHUP) && below_lowat(s))
		bits &= ~(unsigned)IN_BITS;
	bits |= tx_bits(s, k, want);
	if (s->error || s->peer_rst)
		bits |= IN_BITS | OUT_BITS | POLLRDHUP | POLLHUP | (s->error ? POLLERR : 0);
	if (s->wr_shut && bits & POLLRDHUP)
		bits |= POLLHUP;
	return bits;
}

static unsigned ready_locked(struct xs_sock *s, unsigned want)
{
	return (xs_managed(s) ? managed_bits(s, want) : twin_now(s, want)) & want;
}

/* In a forked child the first question takes the stream over, or asks its owner for it. */
static bool claimed(struct xs_sock *s)
{
	return !s->foreign || xs_heirs_claim(s, s->fd) >= 0;
}

unsigned xs_ready(struct xs_sock *s, unsigned want)
{
	unsigned bits;

	want |= POLLERR | POLLHUP;
	if (!claimed(s))
		return want & ~XS_WANT_QUIET;
	if (!xs_managed(s))
		return twin_now(s, want) & want;
	xs_conn_enter(s);
	bits = ready_locked(s, want);
	xs_conn_leave_quiet(s);
	return bits;
}

static unsigned serves(struct xs_sock *s)
{
	unsigned bits = POLLOUT;

	/* An end of ours is writable from shutdown() on, when it was told: the twin's FIN, which
	 * may have had to wait, is no news. */
	if (xs_s_on_plane(&s->tx) || (s->wr_shut && xs_managed(s)))
		bits = 0;
	/* Up to X; nothing after an end that was told or waits for its proof. */
	if (xs_r_twin_limit(&s->rx) && !s->eof && !xs_r_at_final(&s->rx, xs_rx_held(s)))
		bits |= POLLIN;
	/* The twin's FIN follows the one in band, and is no news then. */
	if (!s->eof && !s->rx.final_known)
		bits |= POLLRDHUP | POLLHUP;
	return bits;
}

unsigned xs_twin_serves(struct xs_sock *s)
{
	unsigned bits;

	xs_conn_enter(s);
	bits = serves(s);
	if (s->tx.state == XS_S_RET) /* room in the twin is for what returns */
		bits &= ~(unsigned)POLLOUT;
	xs_conn_leave_quiet(s);
	return bits;
}

static unsigned watch_locked(struct xs_sock *s, unsigned want)
{
	unsigned bits = 0, serve = serves(s);

	if (s->fd < 0 || s->peer_rst)
		serve = 0;
	else if (s->rx.state == XS_R_PLANE)
		bits = s->eof || s->twin_fin_at || s->partial_since ? 0 : POLLIN | POLLRDHUP;
	else if (serve & POLLIN && !twin_now(s, POLLRDHUP))
		bits = POLLRDHUP;
	else
		serve &= ~(unsigned)POLLIN; /* an end that stands, in doubt until FLUSHED */
	return bits | (want & serve & (POLLIN | POLLOUT));
}

unsigned xs_twin_watch(struct xs_sock *s, unsigned want)
{
	unsigned bits;

	xs_conn_enter(s);
	bits = watch_locked(s, want);
	xs_conn_leave_quiet(s);
	return bits;
}

void xs_twin_event(struct xs_sock *s)
{
	xs_conn_enter(s);
	xs_rx_look(s);
	xs_conn_leave(s);
}

/* --- waiters ---------- */

static void waiter_link(struct xs_sock *s, struct xs_waiter *w)
{
	w->next = s->waiters;
	w->prev = &s->waiters;
	if (w->next)
		w->next->prev = &w->next;
	s->waiters = w;
	if (s->ringed && !w->next)
		xs_chan_ops(s->chan)->rx_listen(s->chan, true);
}

/* Nothing becomes due by a waiter that comes or goes: no xs_conn_leave(). */
void xs_waiter_add(struct xs_sock *s, struct xs_waiter *w)
{
	xs_lock_take(&s->lock);
	waiter_link(s, w);
	xs_lock_drop(&s->lock);
}

void xs_waiter_del(struct xs_sock *s, struct xs_waiter *w)
{
	xs_lock_take(&s->lock);
	*w->prev = w->next;
	if (w->next)
		w->next->prev = w->prev;
	if (s->ringed && !s->waiters && !s->orphan)
		xs_chan_ops(s->chan)->rx_listen(s->chan, false);
	xs_lock_drop(&s->lock);
}

void xs_wake(struct xs_sock *s, unsigned what)
{
	struct xs_waiter *w, *next;

	for (w = s->waiters; w; w = next) {
		next = w->next;
		w->notify(w, what);
	}
}

/* --- a blocking call's sleep ---------- */

bool xs_nonblocking(int fd, int flags)
{
	return flags & MSG_DONTWAIT || xs_real.fcntl(fd, F_GETFL) & O_NONBLOCK;
}

struct nap {
	struct xs_waiter waiter;
	struct xs_sock *on;
	struct xs_sleeper *sleeper;
	unsigned want;
};

static void nap_notify(struct xs_waiter *w, unsigned what)
{
	struct nap *n = (struct nap *)w;

	if (what & (n->want | POLLERR | POLLHUP | XS_WHAT_MOVED))
		xs_sleeper_wake(n->sleeper);
}

/* Also when the thread is cancelled in its sleep, or a handler jumps out of it. */
static void nap_end(void *arg)
{
	struct nap *n = arg;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_waiter_del(n->on, &n->waiter);
	xs_crit_leave(&cs);
	xs_obj_put(&n->on->obj);
}

struct ask {
	struct xs_sock *s;
	unsigned want;
};

static bool answered(void *arg)
{
	struct ask *a = arg;

	return xs_ready(a->s, a->want) != 0;
}

static bool spin(struct xs_sock *s, const struct xs_block *b)
{
	struct ask a = {s, b->want};

	return b->done ? xs_spin_on(b->done, b->arg) : xs_spin_on(answered, &a);
}

/* SO_RCVTIMEO or SO_SNDTIMEO, from the call's first would-block on. */
static void ask_timeout(int fd, struct xs_block *b)
{
	struct timeval tv = {0};
	socklen_t len = sizeof(tv);
	int name = b->want & POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO;

	b->asked = true;
	if (xs_real.getsockopt(fd, SOL_SOCKET, name, &tv, &len) || (!tv.tv_sec && !tv.tv_usec))
		return;
	b->timed = true;
	b->deadline =
		b->since + (uint64_t)tv.tv_sec * XS_NS_PER_S + (uint64_t)tv.tv_usec * XS_NS_PER_US;
}

int xs_may_block(struct xs_sock *s, int fd, int flags, struct xs_block *b, bool spins)
{
	bool spun = false, blocks;

	if (!b->since)
		b->since = xs_now_ns();
	if (flags & MSG_DONTWAIT)
		return -EAGAIN;
	if (spins && atomic_load_explicit(&s->blocks, memory_order_relaxed)) {
		spun = true;
		if (spin(s, b))
			return 1;
	}
	if (!b->asked) {
		blocks = !xs_nonblocking(fd, flags);
		atomic_store_explicit(&s->blocks, blocks, memory_order_relaxed);
		if (!blocks)
			return -EAGAIN;
		ask_timeout(fd, b);
	}
	return spins && !spun && spin(s, b);
}

/* Joins the waiters and looks, under one hold of the lock. False: ready already. */
static bool lie_down(struct nap *n, struct pollfd *p)
{
	struct xs_sock *s = n->on;
	bool mine = claimed(s);
	unsigned bits;

	xs_conn_enter(s);
	waiter_link(s, &n->waiter);
	bits = mine ? ready_locked(s, n->want | POLLERR | POLLHUP) : n->want;
	p->events = bits ? 0 : (short)watch_locked(s, n->want);
	xs_conn_leave_quiet(s);
	if (!p->events)
		p->fd = -1;
	return !bits;
}

static int nap(struct xs_sock *s, struct xs_sleeper *sleeper, struct pollfd *p, unsigned want,
	       uint64_t until, bool restart)
{
	struct nap n = {.waiter.notify = nap_notify, .on = s, .sleeper = sleeper, .want = want};
	struct xs_unwind undo;
	int r = 1;

	xs_conn_hold(s);
	xs_sleeper_begin(sleeper);
	xs_sleeper_about(sleeper, s->obj.serial);
	if (lie_down(&n, p)) {
		xs_unwind_push(&undo, nap_end, &n);
		r = xs_sleeper_sleep(sleeper, p, 1, until, NULL, restart);
		xs_unwind_pop(&undo);
	}
	xs_sleeper_end(sleeper);
	nap_end(&n);
	return r;
}

int xs_conn_wait(struct xs_sock *s, int fd, unsigned want, uint64_t deadline, bool restart,
		 unsigned ms_max)
{
	uint64_t until = ms_max ? xs_now_ns() + ms_max * XS_NS_PER_MS : 0;
	struct xs_sleeper *sleeper = xs_sleeper_self();
	struct pollfd p = {.fd = fd};
	int r;

	if (deadline && xs_now_ns() >= deadline)
		return -EAGAIN;
	if (!sleeper) { /* no memory, no descriptors: look again in a while */
		xs_real.poll(NULL, 0, 1);
		return 0;
	}
	if (!until || (deadline && deadline < until))
		until = deadline;
	r = nap(s, sleeper, &p, want, until, restart);
	if (p.revents)
		xs_twin_event(s);
	if (r == -EINTR)
		return -EINTR;
	return r == 0 && deadline && xs_now_ns() >= deadline ? -EAGAIN : 0;
}

/* --- waiting for a state ---------- */

#define AWAIT_MS 20 /* between looks at what nobody tells: the twin's queues */

static bool locked(struct xs_sock *s, bool (*done)(struct xs_sock *s), short *watch)
{
	bool yes;

	xs_conn_enter(s);
	yes = done(s);
	*watch = s->rx.t < s->rx.c ? POLLIN : 0; /* repeats that are still to come */
	xs_conn_leave(s);
	return yes;
}

static void await_notify(struct xs_waiter *w, unsigned what)
{
	(void)what;
	xs_sleeper_wake(((struct nap *)w)->sleeper);
}

/* One sleep. 1: done; 0: look again; -EINTR. */
static int await_once(struct xs_sock *s, bool (*done)(struct xs_sock *s), uint64_t until,
		      bool interruptible)
{
	struct xs_sleeper *sleeper = xs_sleeper_self();
	struct nap n = {.waiter.notify = await_notify, .on = s, .sleeper = sleeper};
	uint64_t soon = xs_now_ns() + AWAIT_MS * XS_NS_PER_MS;
	struct pollfd p = {.fd = s->fd};
	sigset_t all;
	int r = 1;

	if (!sleeper) {
		xs_real.poll(NULL, 0, 1);
		return 0;
	}
	sigfillset(&all);
	xs_waiter_add(s, &n.waiter);
	xs_sleeper_begin(sleeper);
	if (!locked(s, done, &p.events)) {
		p.events = (short)xs_twin_watch(s, (unsigned)p.events);
		if (!p.events)
			p.fd = -1;
		r = xs_sleeper_sleep(sleeper, &p, 1, until < soon ? until : soon,
				     interruptible ? NULL : &all, false);
		r = r == -EINTR ? r : 0;
	}
	xs_sleeper_end(sleeper);
	xs_waiter_del(s, &n.waiter);
	if (p.revents)
		xs_twin_event(s);
	return r;
}

int xs_conn_await(struct xs_sock *s, bool (*done)(struct xs_sock *s), uint64_t until,
		  bool interruptible)
{
	struct xs_crit cs;
	short watch;
	int r = 0;

	xs_crit_enter(&cs);
	while (!r && !locked(s, done, &watch)) {
		if (xs_now_ns() >= until)
			r = -EAGAIN;
		else if (!xs_poll_once())
			r = await_once(s, done, until, interruptible);
	}
	xs_crit_leave(&cs);
	return r < 0 ? r : 0;
}

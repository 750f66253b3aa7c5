/* SPDX-License-Identifier: MIT */
/*
 * The life of a socket object: memory, names, locked sections, the end. Objects are type-stable:
 * they come from chunks that are never given back, so that look-ups need no lock (fdtable.c).
 */
#include "sock/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/real.h"
#include "sock/heirs.h"

#define CHUNK (256 * 1024)
#define REST_NS (20 * XS_NS_PER_MS)
#define REST_LEAST_NS (4 * XS_NS_PER_MS)

struct chunk {
	struct chunk *next;
	unsigned count;
	struct xs_sock sock[];
};
#define PER_CHUNK ((CHUNK - sizeof(struct chunk)) / sizeof(struct xs_sock))

static struct xs_lock pool_lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct chunk *_Atomic chunks;
static struct xs_sock *unused; /* through tuple_next */

static void conn_free(struct xs_obj *o)
{
	struct xs_sock *s = xs_sock_of(o);
	struct xs_crit cs;

	xs_crit_enter(&cs);
	if (s->timer_at)
		xs_timer_cancel(&s->timer);
	if (s->row)
		xs_stats_release(s->row);
	s->row = NULL;
	xs_heirs_end(s);
	xs_lock_take(&pool_lock);
	s->tuple_next = unused;
	unused = s;
	xs_lock_drop(&pool_lock);
	xs_crit_leave(&cs);
}

static struct xs_sock *take(void)
{
	struct xs_sock *s;
	struct chunk *c;

	xs_lock_take(&pool_lock);
	s = unused;
	if (s) {
		unused = s->tuple_next;
		goto out;
	}
	c = atomic_load_explicit(&chunks, memory_order_relaxed);
	if (!c || c->count == PER_CHUNK) {
		void *mem = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
		if (mem == MAP_FAILED)
			goto out;
		((struct chunk *)mem)->next = c;
		c = mem;
		atomic_store_explicit(&chunks, c, memory_order_release);
	}
	s = &c->sock[c->count];
	xs_lock_init(&s->lock, XS_RANK_CONN);
	c->count++;
out:
	xs_lock_drop(&pool_lock);
	return s;
}

static void work_fn(struct xs_work *w)
{
	struct xs_sock *s = (struct xs_sock *)((char *)w - offsetof(struct xs_sock, work));
	struct xs_crit cs;
	bool wanted;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (s->timer_at && s->timer_at <= xs_now_ns()) {
		s->timer_at = 0;
		s->timed = true;
	}
	wanted = s->ready_wanted;
	xs_conn_leave(s);
	xs_conn_report(s);
	if (wanted)
		xs_ready_try(s);
	xs_crit_leave(&cs);
	xs_obj_put(&s->obj);
}

static void timer_fn(struct xs_timer *t)
{
	xs_drive_soon((struct xs_sock *)((char *)t - offsetof(struct xs_sock, timer)));
}

void xs_drive_soon(struct xs_sock *s)
{
	if (atomic_load_explicit(&s->work.posted, memory_order_relaxed))
		return;
	xs_conn_hold(s); /* work_fn gives it back, or we if it was posted meanwhile */
	if (!xs_progress_post(&s->work))
		xs_obj_put(&s->obj);
}

static void drive_at(struct xs_sock *s, uint64_t when)
{
	if (!s->timer_at || s->timer_at > when) {
		s->timer_at = when;
		xs_timer_set(&s->timer, when);
	}
}

void xs_drive_in(struct xs_sock *s, unsigned ms)
{
	drive_at(s, xs_now_ns() + ms * XS_NS_PER_MS);
}

void xs_rest_soon(struct xs_sock *s)
{
	uint64_t now;

	if (s->resting)
		return;
	s->resting = true;
	/* All of them at once: the progress thread isn't woken for each. */
	now = xs_now_ns() + REST_LEAST_NS;
	drive_at(s, (now / REST_NS + 1) * REST_NS);
}

static uint64_t cookie_of(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return xs_real.getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) < 0 ? 0 : cookie;
}

/* All but memory, lock and reference count, which stay. */
static void clear(struct xs_sock *s)
{
	size_t from = offsetof(struct xs_sock, managed);

	memset((char *)s + from, 0, sizeof(*s) - from);
	xs_s_init(&s->tx);
	xs_r_init(&s->rx);
	s->work.fn = work_fn;
	s->timer.fn = timer_fn;
	s->tx_why = s->rx_why = XS_R_NEW;
}

struct xs_sock *xs_conn_new(int fd, int family, enum xs_role role)
{
	int saved = errno, err;
	struct xs_obj *old;
	struct xs_sock *s;
	struct xs_crit cs;

	if (xs_fdtable_other_process())
		return NULL;
	xs_crit_enter(&cs);
	s = take();
	if (s) {
		clear(s);
		s->fd = fd;
		s->family = family;
		s->role = role;
		s->cookie = cookie_of(fd);
		xs_obj_init(&s->obj, XS_FD_SOCK, conn_free);
		old = xs_fdtable_set(fd, &s->obj, &err);
		if (old)
			xs_fd_stale(old, fd);
		xs_obj_put(&s->obj); /* the table's reference counts */
		if (err)
			s = NULL;
	}
	xs_crit_leave(&cs);
	errno = saved;
	return s;
}

void xs_conn_enter(struct xs_sock *s)
{
	xs_lock_take(&s->lock);
	if (s->ringed)
		xs_fast_stop(s);
}

void xs_conn_leave(struct xs_sock *s)
{
	s->settled = xs_drive_steady(s);
	if (!s->settled)
		xs_drive(s);
	if (s->ringed)
		xs_fast_go_on(s);
	xs_lock_drop(&s->lock);
}

void xs_conn_leave_quiet(struct xs_sock *s)
{
	if (!s->settled || s->rx.state != XS_R_PLANE || s->tx.state != XS_S_SWD) {
		xs_conn_leave(s);
		return;
	}
	xs_debug_rule(xs_drive_steady(s), "a settled connection has something due");
	if (s->ringed)
		xs_fast_go_on(s);
	xs_lock_drop(&s->lock);
}

bool xs_conn_fresh(struct xs_sock *s)
{
	return s->fd >= 0 && s->cookie && cookie_of(s->fd) == s->cookie;
}

bool xs_conn_name(struct xs_sock *s)
{
	socklen_t ll = sizeof(s->local), pl = sizeof(s->peer);

	if (s->named)
		return true;
	if (xs_real.getsockname(s->fd, (struct sockaddr *)&s->local, &ll) < 0 ||
	    xs_real.getpeername(s->fd, (struct sockaddr *)&s->peer, &pl) < 0)
		return false;
	s->named = true;
	if (!s->row) {
		s->row = xs_stats_row();
		xs_stats_name(s->row, s->fd, s->role == XS_ROLE_CONNECTED ? 1 : 2,
			      (struct sockaddr *)&s->local, (struct sockaddr *)&s->peer);
		xs_conn_publish(s);
	}
	return true;
}

void xs_conn_finish(struct xs_sock *s, const char *end)
{
	bool open = s->rx.state == XS_R_OPEN || s->rx.state == XS_R_PLANE;

	xs_heirs_release(s);
	xs_fast_end(s);
	if (s->chan) { /* data that may still come is for nobody */
		xs_chan_ops(s->chan)->close(s->chan, s->peer_rst || s->error || (open && !s->eof));
		s->chan = NULL;
	}
	xs_timer_cancel(&s->timer);
	if (s->row && s->named) {
		atomic_store(&s->end, end);
		s->named = false;
	}
	s->gone = s->eof = true;
	xs_ready_unwant(s);
	xs_wake(s, ~0u);
	s->pairing = XS_PAIR_NEVER;
	s->tx.linked = s->rx.linked = false;
}

static _Atomic unsigned reporting;

void xs_conn_report(struct xs_sock *s)
{
	const char *end;

	if (!atomic_load_explicit(&s->end, memory_order_relaxed))
		return;
	atomic_fetch_add(&reporting, 1);
	end = atomic_exchange(&s->end, NULL);
	if (end)
		xs_stats_report(s->row, end);
	atomic_fetch_sub(&reporting, 1);
}

bool xs_conn_reporting(void)
{
	return atomic_load(&reporting) != 0;
}

void xs_conn_each(void (*fn)(struct xs_sock *s, void *arg), void *arg)
{
	struct chunk *c = atomic_load_explicit(&chunks, memory_order_acquire);

	for (; c; c = c->next) {
		for (unsigned i = 0; i < c->count; i++) {
			struct xs_sock *s = &c->sock[i];
			uint32_t refs = atomic_load(&s->obj.refs);

			if (!(refs & XS_OBJ_LIVE))
				continue;
			xs_conn_hold(s);
			if (atomic_load(&s->obj.refs) & XS_OBJ_LIVE)
				fn(s, arg);
			xs_obj_put(&s->obj);
		}
	}
}

void xs_conn_fork_child(struct xs_sock *s)
{
	xs_lock_init(&s->lock, XS_RANK_CONN);
	atomic_store(&s->end, NULL); /* the owner reports it */
	xs_fast_fork_child(s);
}

void xs_conn_pool_fork_child(void)
{
	atomic_store(&reporting, 0);
	xs_lock_init(&pool_lock, XS_RANK_LEAF);
}

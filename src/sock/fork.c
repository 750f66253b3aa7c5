/* SPDX-License-Identifier: MIT */
/*
 * fork.h. Before the fork each socket is marked as shared. In the child nobody holds a lock, the
 * progress thread isn't there and nothing of the planes is: all of that is forgotten, and what
 * stays are descriptors and objects. Data that another thread was about to change at that moment is
 * either rebuilt (the epoll index, ready lists) or changed in an order that leaves it usable at
 * each step.
 */
#include "sock/fork.h"

#include <pthread.h>

#include "base/highfd.h"
#include "base/log.h"
#include "base/real.h"
#include "engine/pool.h"
#include "sock/epollset.h"
#include "sock/heirs.h"
#include "sock/pairing.h"
#include "sock/sock.h"

/*
 * Never waits: an allocator's fork handler may have run before ours and hold what the lock's holder
 * needs. Who has the lock now sees the marks late at worst: a stream that is just being paired is
 * the owner's or nobody's, whichever the child finds.
 */
static void share_one(struct xs_sock *s, void *arg) XS_NO_TSA
{
	bool locked = xs_lock_try(&s->lock);

	(void)arg;
	s->shared = true;
	if (!s->chan && s->role != XS_ROLE_LISTENER && s->role != XS_ROLE_NONE && !s->pin) {
		s->pin = s->tx_why = s->rx_why = XS_R_FORKED;
		xs_conn_publish(s);
	}
	if (locked)
		xs_lock_drop(&s->lock); /* nothing is due by that */
}

/* From prepare to its two ends: no handler runs while the engine's lock is held for the fork. */
static _Thread_local struct xs_crit forking __attribute__((tls_model("initial-exec")));

static void prepare(void)
{
	xs_crit_enter(&forking);
	xs_conn_each(share_one, NULL);
	xs_progress_fork_prepare();
	xs_heirs_fork_prepare();
}

static void after_parent(void)
{
	xs_heirs_fork_parent();
	xs_progress_fork_parent();
	xs_crit_leave(&forking);
}

static void child_one(struct xs_sock *s, void *arg)
{
	(void)arg;
	xs_conn_fork_child(s);
	s->waiters = NULL;
	s->work.posted = false;
	s->timer.when = 0;
	s->timer_at = 0;
	s->row = NULL;
	s->named = false;
	s->ready_wanted = s->child_asks = false;
	atomic_store(&s->listening, 0);
	atomic_store(&s->hidden, XS_R_NONE);
	s->leaving = s->exiting = false;
	atomic_store(&s->rx_kernel, 0);
	atomic_store(&s->tx_kernel, 0);
	atomic_store(&s->watching, 0);
	s->in_tuples = false;
	s->foreign = s->foreign || (s->chan && s->word && !s->orphan && s->fd >= 0);
	s->chan = NULL;
	xs_s_init(&s->tx);
	xs_r_init(&s->rx);
	atomic_store(&s->managed, s->foreign ? XS_MANAGED_RX | XS_MANAGED_TX : 0);
	if (s->orphan && s->fd >= 0) { /* the duplicate is the parent's business */
		xs_highfd_gone(s->fd);
		xs_real.close(s->fd);
		s->fd = -1;
	}
	s->orphan = false;
	if (s->pairing != XS_PAIR_NONE || s->role >= XS_ROLE_CONNECTED)
		s->pairing = XS_PAIR_NEVER;
}

static void after_child(void)
{
	xs_lock_forget_all();
	xs_log_fork_child();
	xs_fdtable_begin();
	xs_byte_fork_child();
	xs_conn_pool_fork_child();
	xs_tuples_fork_child();
	xs_stats_fork_child();
	xs_heirs_fork_child();
	xs_drive_fork_child();
	xs_conn_each(child_one, NULL);
	xs_ep_fork_child();
	xs_pair_fork_child();
	xs_pool_fork_child();
	xs_progress_fork_child();
	xs_crit_leave(&forking);
}

void xs_proc_fork_begin(void)
{
	prepare();
}

void xs_proc_fork_end(bool child)
{
	if (child)
		after_child();
	else
		after_parent();
}

void xs_fork_init(void)
{
	xs_fdtable_begin();
	xs_ep_taken = xs_heirs_ring;
	pthread_atfork(prepare, after_parent, after_child);
}

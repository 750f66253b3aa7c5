/* SPDX-License-Identifier: MIT */
/* Conduits: life, the poller that serves them all, the operations' table. */
#include "testplane.h"

#include "base/highfd.h"
#include "base/log.h"
#include "base/rawsys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define MOST 256

static struct xs_lock tp_lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct xs_conduit *conduits; /* tp_lock */
static unsigned conduits_n;	    /* progress thread */

/* --- polling --------------------------------------------------------------------------------- */
static unsigned snapshot(struct xs_conduit **all)
{
	unsigned n = 0;

	xs_lock_take(&tp_lock);
	for (struct xs_conduit *c = conduits; c && n < MOST; c = c->next) {
		tp_conduit_hold(c);
		all[n++] = c;
	}
	xs_lock_drop(&tp_lock);
	return n;
}

static int poll_all(struct xs_poller *p)
{
	struct xs_conduit *all[MOST];
	struct epoll_event ev;
	unsigned n;

	if (xs_sys(__NR_epoll_pwait, p->fd, &ev, 1, 0, NULL, 0) <= 0)
		return 0;
	n = snapshot(all);
	for (unsigned i = 0; i < n; i++) {
		xs_lock_take(&all[i]->poll_lock);
		if (!atomic_load(&all[i]->failed))
			tp_receive(all[i]);
		xs_lock_drop(&all[i]->poll_lock);
		tp_conduit_drop(all[i]);
	}
	return (int)n;
}

/* The set is level-triggered: always armed. */
static void nothing(struct xs_poller *p)
{
	(void)p;
}

static struct xs_poller poller = {.fd = -1, .poll = poll_all, .arm = nothing, .disarm = nothing};

void tp_want_out(struct tp_lane *l, bool on)
{
	struct epoll_event ev = {.events = EPOLLIN | (on ? EPOLLOUT : 0u)};

	xs_sys(__NR_epoll_ctl, poller.fd, EPOLL_CTL_MOD, l->fd, &ev);
}

static void watch(struct xs_conduit *c)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (poller.fd < 0) {
		poller.fd = xs_highfd((int)xs_sys(__NR_epoll_create1, EPOLL_CLOEXEC));
		xs_poller_add(&poller);
	}
	xs_lock_take(&tp_lock);
	c->next = conduits;
	conduits = c;
	xs_lock_drop(&tp_lock);
	conduits_n++;
	for (int i = 0; i < XS_LANES; i++)
		xs_sys(__NR_epoll_ctl, poller.fd, EPOLL_CTL_ADD, c->lane[i].fd, &ev);
}

static void unwatch(struct xs_conduit *c)
{
	struct xs_conduit **at = &conduits;

	xs_lock_take(&tp_lock);
	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	xs_lock_drop(&tp_lock);
	for (int i = 0; i < XS_LANES; i++)
		xs_sys(__NR_close, c->lane[i].fd);
	if (--conduits_n)
		return;
	xs_poller_remove(&poller);
	xs_sys(__NR_close, poller.fd);
	poller.fd = -1;
}

/* --- life ------------------------------------------------------------------------------------ */
void tp_conduit_hold(struct xs_conduit *c)
{
	atomic_fetch_add(&c->refs, 1);
}

void tp_conduit_drop(struct xs_conduit *c)
{
	if (atomic_fetch_sub(&c->refs, 1) == 1)
		free(c);
}

void tp_conduit_fail(struct xs_conduit *c)
{
	if (!atomic_exchange(&c->failed, true))
		xs_progress_post(&c->work);
}

static void bury(struct xs_work *w)
{
	struct xs_conduit *c = (struct xs_conduit *)((char *)w - offsetof(struct xs_conduit, work));

	for (int i = 0; i < XS_LANES; i++)
		tp_lane_close(&c->lane[i]);
	xs_lock_take(&c->poll_lock); /* nobody delivers any more */
	if (c->again) {
		free(c->again);
		c->again = NULL;
		tp_conduit_drop(c);
	}
	xs_lock_drop(&c->poll_lock);
	unwatch(c);
	if (atomic_load(&c->rnr))
		XS_LOG(ERROR, "bug: test plane: rnr");
	xs_link_down(c->link, c->why);
}

/* Progress thread, from connect or accept. */
static void begin(struct xs_work *w)
{
	struct xs_conduit *c = (struct xs_conduit *)((char *)w - offsetof(struct xs_conduit, work));

	c->work.fn = bury;
	watch(c);
	if (atomic_load(&c->failed)) { /* once: who failed it may have posted this already */
		xs_progress_post(w);
		return;
	}
	atomic_store(&c->up, true);
	xs_link_up(c->link);
}

struct xs_conduit *tp_conduit_new(int small_fd, int bulk_fd)
{
	struct xs_conduit *c = calloc(1, sizeof(*c));

	if (!c)
		abort();
	atomic_store(&c->refs, 1);
	c->why = XS_R_LINK_LOST;
	xs_lock_init(&c->poll_lock, XS_RANK_LINK);
	for (int i = 0; i < XS_LANES; i++) {
		struct tp_lane *l = &c->lane[i];

		xs_lock_init(&l->lock, XS_RANK_LANE);
		l->c = c;
		l->lane = (enum xs_lane)i;
		l->fd = i == XS_LANE_SMALL ? small_fd : bulk_fd;
		l->timer.fn = tp_lane_timer;
	}
	atomic_store(&c->lane[XS_LANE_SMALL].entries, (int32_t)(tp_faults.small + TP_RESERVE));
	atomic_store(&c->lane[XS_LANE_BULK].entries, (int32_t)tp_faults.bulk);
	return c;
}

void tp_conduit_start(struct xs_conduit *c, struct xs_link *l)
{
	c->link = l;
	c->work.fn = begin;
	xs_progress_post(&c->work);
}

void tp_conduits_cut(void)
{
	struct xs_conduit *all[MOST];
	unsigned n = snapshot(all);

	for (unsigned i = 0; i < n; i++) {
		tp_conduit_fail(all[i]);
		tp_conduit_drop(all[i]);
	}
}

void tp_conduits_fork_child(void)
{
	for (struct xs_conduit *c = conduits; c; c = c->next)
		for (int i = 0; i < XS_LANES; i++)
			xs_sys(__NR_close, c->lane[i].fd);
	if (poller.fd >= 0)
		xs_sys(__NR_close, poller.fd);
	poller.fd = -1;
	conduits = NULL;
	conduits_n = 0;
	xs_lock_init(&tp_lock, XS_RANK_LEAF);
}

/* --- operations ------------------------------------------------------------------------------ */
static enum xs_reason possible(const struct sockaddr *local, const struct sockaddr *peer)
{
	(void)local;
	(void)peer;
	return XS_R_NONE;
}

static void entries(struct xs_conduit *c, uint32_t n[XS_LANES], uint32_t size[XS_LANES])
{
	(void)c;
	n[XS_LANE_SMALL] = tp_faults.small;
	n[XS_LANE_BULK] = tp_faults.bulk;
	size[XS_LANE_SMALL] = TP_SMALL_SIZE;
	size[XS_LANE_BULK] = TP_BULK_SIZE;
}

static uint64_t completed(struct xs_conduit *c, enum xs_lane lane)
{
	return atomic_load(&c->lane[lane].completed);
}

static void info(struct xs_conduit *c, struct xs_link_info *i)
{
	i->wire_posts = atomic_load(&c->segments);
	i->wire_rnr = atomic_load(&c->rnr);
}

static void fork_child(void)
{
	tp_conduits_fork_child();
	tp_meet_fork_child();
}

const struct xs_carrier_ops tp_ops = {
	.name = "test",
	.plane = XS_PLANE_TEST,
	.proven = true,
	.possible = possible,
	.listen = tp_listen,
	.unlisten = tp_unlisten,
	.connect = tp_connect,
	.entries = entries,
	.post = tp_post,
	.completed = completed,
	.inline_max = TP_INLINE,
	.rx_done = tp_rx_done,
	.info = info,
	.disconnect = tp_conduit_fail,
	.destroy = tp_conduit_drop,
	.fork_child = fork_child,
};

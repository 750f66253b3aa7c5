/* SPDX-License-Identifier: MIT */
/*
 * The life of a conduit: two queue pairs, one per lane, to one peer process.
 *
 * Both queue pairs are made by us and walked through INIT, RTR and RTS with the attributes that the
 * cm computed, but for the times: the cm's defaults mean 655 ms per RNR and many seconds until a
 * dead peer is noticed.
 *
 * The end is one path, whatever its cause (error completion, event, the cm, the link itself): the
 * lanes take no more, the queue pairs go to ERROR, and the conduit waits until the device has said
 * that no receive entry will be used any more (LAST_WQE_REACHED), a last request, posted in ERROR,
 * has completed behind all others and the completion queue was seen empty after that. A second is
 * the bound, for devices that don't tell. Then the queue pairs are destroyed and the link hears of
 * it.
 */
#include "base/clock.h"
#include "base/log.h"
#include "link/rc/rc.h"

#include <stdlib.h>
#include <string.h>

#define CONNECT_NS (10 * XS_NS_PER_S)
#define DRAIN_NS XS_NS_PER_S
#define DRAIN_STEP_NS (2 * XS_NS_PER_MS)
#define MIN_RNR_TIMER 12 /* 0.64 ms */
#define RETRY_COUNT 6
#define RNR_RETRY 6
#define ACK_TIMEOUT 14 /* 67 ms nominal, about 0.5 s until the last retry */

static void set_state(struct xs_conduit *c, enum xs_rc_state to)
{
	static const char *const name[] = {"new", "connecting", "up", "draining", "down"};
	int from = atomic_load(&c->state);

	XS_LOG(DEBUG, "rc: conduit %p %s -> %s", (void *)c, name[from], name[to]);
	atomic_store(&c->state, (int)to);
}

/* --- the end ---------------------------------------------------------------------------------- */
void xs_conduit_hold(struct xs_conduit *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

void xs_conduit_drop(struct xs_conduit *c)
{
	if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (int i = 0; i < XS_LANES; i++)
		xs_lane_free(&c->lane[i]);
	if (c->dev)
		xs_dev_put(c->dev);
	free(c);
}

static void bury(struct xs_conduit *c)
{
	struct xs_link *link = c->link;

	for (int i = 0; i < XS_LANES; i++) {
		struct xs_rc_lane *l = &c->lane[i];

		if (l->qp) {
			xs_dev_table_del(c->dev, l->qp->qp_num);
			if (xs_verbs_qp_destroy(l))
				XS_LOG(ERROR, "rc: a queue pair can't be destroyed");
		}
		if (l->id)
			xs_cm_free(l->id);
		l->id = NULL;
	}
	xs_timer_cancel(&c->timer);
	if (c->dev)
		xs_dev_leave(c->dev, c);
	set_state(c, XS_RC_DOWN);
	if (link)
		xs_link_down(link, (enum xs_reason)atomic_load(&c->failed));
	else
		xs_conduit_drop(c); /* refused: it never had a link */
}

static bool drained(const struct xs_conduit *c)
{
	for (int i = 0; i < XS_LANES; i++) {
		struct xs_rc_lane *l = (struct xs_rc_lane *)&c->lane[i];

		if (l->connected && (!l->last_wqe || !xs_lane_idle(l)))
			return false;
	}
	return true;
}

/* Looks whether the conduit can be buried, else comes back. */
static void drain(struct xs_conduit *c)
{
	uint64_t now = xs_now_ns();

	if (!c->dev) {
		bury(c);
		return;
	}
	xs_poll_once();
	if (!c->empty_mark && (drained(c) || now >= c->drain_until)) {
		if (now >= c->drain_until)
			XS_LOG(WARN, "rc: conduit %p doesn't drain, given up", (void *)c);
		/* A poll that is under way may have looked before: the one after it counts. */
		c->empty_mark = atomic_load(&c->dev->empties) + 2;
		xs_poll_once();
		xs_poll_once();
	}
	if (c->empty_mark && atomic_load(&c->dev->empties) >= c->empty_mark) {
		bury(c);
		return;
	}
	xs_timer_set(&c->timer, now + DRAIN_STEP_NS);
}

static void begin_drain(struct xs_conduit *c)
{
	set_state(c, XS_RC_DRAINING);
	for (int i = 0; i < XS_LANES; i++) {
		struct xs_rc_lane *l = &c->lane[i];

		xs_lane_close(l);
		if (l->qp)
			xs_verbs_qp_error(l);
		if (l->connected)
			xs_lane_mark(l);
		if (l->id)
			xs_cm_part(l->id, (enum xs_reason)atomic_load(&c->failed));
	}
	c->drain_until = xs_now_ns() + DRAIN_NS;
	drain(c);
}

static void work(struct xs_work *w)
{
	struct xs_conduit *c = (struct xs_conduit *)((char *)w - offsetof(struct xs_conduit, work));

	if (xs_rc_state_of(c) < XS_RC_DRAINING)
		begin_drain(c);
}

static void timer(struct xs_timer *t)
{
	struct xs_conduit *c =
		(struct xs_conduit *)((char *)t - offsetof(struct xs_conduit, timer));

	if (xs_rc_state_of(c) == XS_RC_DRAINING)
		drain(c);
	else if (xs_rc_state_of(c) < XS_RC_UP)
		xs_conduit_fail(c, XS_R_NO_ROUTE);
}

void xs_conduit_fail(struct xs_conduit *c, enum xs_reason why)
{
	int none = XS_R_NONE;

	if (atomic_compare_exchange_strong(&c->failed, &none, (int)why))
		xs_progress_post(&c->work);
}

/* --- the beginning ---------------------------------------------------------------------------- */
struct xs_conduit *xs_conduit_new(void)
{
	struct xs_conduit *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	atomic_store(&c->refs, 1);
	c->work.fn = work;
	c->timer.fn = timer;
	for (int i = 0; i < XS_LANES; i++) {
		xs_lock_init(&c->lane[i].lock, XS_RANK_LANE);
		c->lane[i].c = c;
		c->lane[i].lane = (enum xs_lane)i;
	}
	xs_timer_set(&c->timer, xs_now_ns() + CONNECT_NS);
	return c;
}

enum xs_reason xs_conduit_build(struct xs_conduit *c, struct ibv_context *theirs)
{
	enum xs_reason why = XS_R_NONE;
	struct xs_rc_dev *d = xs_dev_get(theirs, &why);

	if (d)
		why = xs_dev_join(d, c);
	for (int i = 0; i < XS_LANES && !why; i++) {
		struct xs_rc_lane *l = &c->lane[i];

		if (xs_lane_init(l, c, (enum xs_lane)i))
			why = atomic_load(&d->refused) ? XS_R_MEMLOCK : XS_R_NO_MEMORY;
		else if (xs_verbs_qp_make(l) || !xs_dev_table_add(d, l))
			why = XS_R_NO_QP;
	}
	if (!why)
		set_state(c, XS_RC_CONNECTING);
	return why;
}

static int walk(struct xs_rc_lane *l, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr;
	int mask, r;

	memset(&attr, 0, sizeof(attr));
	r = xs_cm_qp_attr(l->id, to, &attr, &mask);
	if (r)
		return r;
	if (to == IBV_QPS_INIT) {
		attr.qp_access_flags = 0;
		l->port = attr.port_num;
	} else if (to == IBV_QPS_RTR) {
		attr.min_rnr_timer = MIN_RNR_TIMER;
		l->gid_index = attr.ah_attr.grh.sgid_index;
		xs_verbs_gid(l->c->dev, l->port, l->gid_index, &l->gid);
	} else {
		attr.timeout = ACK_TIMEOUT;
		attr.retry_cnt = RETRY_COUNT;
		attr.rnr_retry = RNR_RETRY;
	}
	r = xs_verbs_qp_modify(l, &attr, mask);
	if (!r && to == IBV_QPS_RTR)
		XS_LOG(DEBUG, "rc: lane %d path mtu %d", l->lane, 128 << attr.path_mtu);
	return r;
}

enum xs_reason xs_conduit_connect_lane(struct xs_rc_lane *l)
{
	static const enum ibv_qp_state path[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

	for (unsigned i = 0; i < sizeof(path) / sizeof(path[0]); i++) {
		int r = walk(l, path[i]);

		if (r) {
			XS_LOG(WARN, "rc: queue pair to state %d: error %d", path[i], -r);
			return XS_R_NO_QP;
		}
		l->connected = true;
	}
	return XS_R_NONE;
}

void xs_conduit_lane_ready(struct xs_rc_lane *l)
{
	struct xs_conduit *c = l->c;

	l->ready = true;
	if (!c->lane[XS_LANE_SMALL].ready || !c->lane[XS_LANE_BULK].ready ||
	    xs_rc_state_of(c) != XS_RC_CONNECTING || atomic_load(&c->failed))
		return;
	xs_timer_cancel(&c->timer);
	set_state(c, XS_RC_UP);
	xs_link_up(c->link);
	atomic_store(&c->open, true);
	xs_dev_kick(c->dev);
}

/* --- asynchronous events ---------------------------------------------------------------------- */
static bool gid_changed(struct xs_rc_dev *d, struct xs_rc_lane *l)
{
	union ibv_gid now;

	return !xs_verbs_gid(d, l->port, l->gid_index, &now) ||
	       memcmp(&now, &l->gid, sizeof(now)) != 0;
}

static bool hit(struct xs_rc_dev *d, struct xs_rc_lane *l, const struct xs_rc_event *ev)
{
	if (!l->connected)
		return false;
	switch (ev->type) {
	case IBV_EVENT_PORT_ERR:
		return l->port == ev->port;
	case IBV_EVENT_GID_CHANGE:
		return l->port == ev->port && gid_changed(d, l);
	default:
		return false;
	}
}

static void qp_event(struct xs_rc_lane *l, const struct xs_rc_event *ev)
{
	struct xs_conduit *c = l->c;

	if (ev->type == IBV_EVENT_QP_LAST_WQE_REACHED) {
		l->last_wqe = true;
		if (xs_rc_state_of(c) == XS_RC_DRAINING)
			xs_timer_set(&c->timer, xs_now_ns());
		else
			xs_conduit_fail(c, XS_R_LINK_LOST);
	} else if (ev->type == IBV_EVENT_QP_FATAL || ev->type == IBV_EVENT_QP_REQ_ERR ||
		   ev->type == IBV_EVENT_QP_ACCESS_ERR) {
		xs_conduit_fail(c, XS_R_LINK_LOST);
	}
}

void xs_conduit_event(struct xs_rc_dev *d, const struct xs_rc_event *ev)
{
	XS_LOG(DEBUG, "rc: %s: %s", d->name, ev->name);
	if (ev->qp) {
		qp_event(ev->qp->qp_context, ev);
		return;
	}
	if (ev->type == IBV_EVENT_DEVICE_FATAL || ev->type == IBV_EVENT_CQ_ERR ||
	    ev->type == IBV_EVENT_SRQ_ERR)
		xs_dev_break(d);
	for (struct xs_conduit *c = d->conduits; c; c = c->next)
		if (hit(d, &c->lane[XS_LANE_SMALL], ev) || hit(d, &c->lane[XS_LANE_BULK], ev))
			xs_conduit_fail(c, XS_R_LINK_LOST);
}

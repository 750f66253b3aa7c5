/* SPDX-License-Identifier: MIT */
/*
 * A device: one context, protection domain, completion queue and channel, and a shared receive
 * queue per lane, for all links of the process. It's opened with the first link and closed by a
 * change of credentials, or when it serves no link and is broken, or too many receive entries count
 * as lost (rq.c).
 *
 * Queue pairs are found by number in an open-addressed table that only the progress thread changes;
 * a completion names a queue pair, so an entry that a poller needs can't go away under it: it's
 * taken out after the queue pair's last completion was polled.
 */
#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/rawsys.h"
#include "link/rc/rc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#define SMALL_MAX 4096
#define BULK_MAX 512
#define SMALL_WANT 256
#define SMALL_LEAST 24
#define BULK_LEAST 2
#define LOST_LIMIT 8
#define SQ_ROOM (256 + 64) /* completion queue entries per conduit: lane.c's depths */

static struct xs_rc_dev *devices;

/* --- is there one? ---------------------------------------------------------------------------- */
/* Has the directory an entry? Any thread, no libc stream. */
static bool look(void)
{
	char buf[1024];
	long fd = xs_sys(__NR_openat, AT_FDCWD, "/sys/class/infiniband",
			 O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	bool found = false;
	long n;

	if (fd < 0)
		return false;
	while (!found && (n = xs_sys(__NR_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n && !found;) {
			const struct dirent64 *e = (const void *)(buf + at);

			found = e->d_name[0] != '.';
			at += e->d_reclen;
		}
	}
	xs_sys(__NR_close, fd);
	return found;
}

bool xs_dev_present(void)
{
	static _Atomic uint64_t looked;
	static _Atomic bool present;
	uint64_t now = xs_now_ns(), last = atomic_load(&looked);

	if ((!last || now - last > XS_NS_PER_S) &&
	    atomic_compare_exchange_strong(&looked, &last, now))
		atomic_store(&present, look());
	return atomic_load(&present);
}

/* --- the table of queue pairs ----------------------------------------------------------------- */
static uint32_t place(uint32_t qpn, uint32_t probe)
{
	return (qpn * 2654435761u + probe) % XS_RC_TABLE;
}

bool xs_dev_table_add(struct xs_rc_dev *d, struct xs_rc_lane *l)
{
	for (uint32_t probe = 0; probe < XS_RC_TABLE; probe++) {
		uint32_t at = place(l->qp->qp_num, probe);

		if (atomic_load(&d->table_qpn[at]) > 1)
			continue;
		atomic_store(&d->table[at], l);
		atomic_store(&d->table_qpn[at], l->qp->qp_num);
		return true;
	}
	return false;
}

static uint32_t find(struct xs_rc_dev *d, uint32_t qpn)
{
	for (uint32_t probe = 0; probe < XS_RC_TABLE; probe++) {
		uint32_t at = place(qpn, probe);
		uint32_t there = atomic_load_explicit(&d->table_qpn[at], memory_order_acquire);

		if (there == qpn)
			return at;
		if (!there)
			break;
	}
	return XS_RC_TABLE;
}

void xs_dev_table_del(struct xs_rc_dev *d, uint32_t qpn)
{
	uint32_t at = find(d, qpn);

	if (at < XS_RC_TABLE)
		atomic_store(&d->table_qpn[at], 1);
}

struct xs_rc_lane *xs_dev_lane(struct xs_rc_dev *d, uint32_t qpn)
{
	uint32_t at = find(d, qpn);

	return at < XS_RC_TABLE ? atomic_load_explicit(&d->table[at], memory_order_acquire) : NULL;
}

/* --- callbacks -------------------------------------------------------------------------------- */
static int pool_reg(void *device, void *addr, size_t len, uint32_t *key, void **handle)
{
	struct ibv_mr *mr;
	int r = xs_verbs_register(device, addr, len, &mr);

	if (r) {
		atomic_store(&((struct xs_rc_dev *)device)->refused, true);
		return r;
	}
	*key = mr->lkey;
	*handle = mr;
	return 0;
}

static void pool_dereg(void *device, void *handle)
{
	(void)device;
	xs_verbs_deregister(handle);
}

static struct xs_rc_dev *of_poller(struct xs_poller *p)
{
	return (struct xs_rc_dev *)((char *)p - offsetof(struct xs_rc_dev, poller));
}

static void arm(struct xs_poller *p)
{
	xs_verbs_arm(of_poller(p));
}

static void disarm(struct xs_poller *p)
{
	xs_verbs_disarm(of_poller(p));
}

static void async_event(struct xs_fdwatch *w, uint32_t events)
{
	struct xs_rc_dev *d = (struct xs_rc_dev *)((char *)w - offsetof(struct xs_rc_dev, async));
	struct xs_rc_event ev;

	(void)events;
	while (xs_verbs_event(d, &ev))
		xs_conduit_event(d, &ev);
}

static void early_again(struct xs_timer *t)
{
	struct xs_rc_dev *d =
		(struct xs_rc_dev *)((char *)t - offsetof(struct xs_rc_dev, early_timer));

	xs_poll_once(); /* another thread may be at it: look again */
	if (atomic_load(&d->has_early))
		xs_timer_set(t, xs_now_ns() + XS_NS_PER_MS);
}

void xs_dev_kick(struct xs_rc_dev *d)
{
	if (atomic_load(&d->has_early))
		xs_timer_set(&d->early_timer, xs_now_ns());
}

/* --- opening and closing ---------------------------------------------------------------------- */
static uint64_t memory_budget(void)
{
	uint64_t budget = xs_config()->pool_max;
	struct rlimit lim;

	if (xs_verbs_may_lock() || xs_sys(__NR_prlimit64, 0, RLIMIT_MEMLOCK, 0, &lim) < 0)
		return budget;
	return lim.rlim_cur < budget ? lim.rlim_cur : budget;
}

static enum xs_slab bulk_slab(uint64_t budget)
{
	uint64_t chunk = xs_config()->chunk;

	if (chunk > budget / 64)
		chunk = budget / 64;
	if (chunk >= 1 << 20)
		return XS_SLAB_1M;
	return chunk >= 256 << 10 ? XS_SLAB_256K : XS_SLAB_64K;
}

static void init_rq(struct xs_rc_dev *d, enum xs_lane lane, enum xs_slab slab, uint32_t max)
{
	struct xs_rc_rq *q = &d->rq[lane];

	xs_lock_init(&q->lock, XS_RANK_LANE);
	q->dev = d;
	q->lane = lane;
	q->slab = slab;
	q->max = max;
	q->batch = lane == XS_LANE_SMALL ? 16 : 1;
	q->slack = lane == XS_LANE_SMALL ? 32 : 0;
}

static struct xs_rc_dev *alloc_dev(const char *name)
{
	struct xs_rc_dev *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	snprintf(d->name, sizeof(d->name), "%s", name);
	atomic_store(&d->refs, 1);
	d->budget = memory_budget();
	init_rq(d, XS_LANE_SMALL, XS_SLAB_4K, SMALL_MAX);
	init_rq(d, XS_LANE_BULK, bulk_slab(d->budget), BULK_MAX);
	d->pool.reg = pool_reg;
	d->pool.dereg = pool_dereg;
	d->pool.device = d;
	d->early_end = &d->early;
	d->early_timer.fn = early_again;
	d->poller.poll = xs_lane_poll;
	d->poller.arm = arm;
	d->poller.disarm = disarm;
	d->async.fn = async_event;
	return d;
}

void xs_dev_put(struct xs_rc_dev *d)
{
	if (atomic_fetch_sub(&d->refs, 1) != 1)
		return;
	for (int i = 0; i < XS_LANES; i++)
		xs_rq_free(&d->rq[i]);
	free(d);
}

/* Received memory may still be held: it stays until the last conduit is freed. */
static void close_dev(struct xs_rc_dev *d)
{
	xs_timer_cancel(&d->early_timer);
	if (d->polled)
		xs_poller_remove(&d->poller);
	if (d->watched)
		xs_progress_unwatch(&d->async);
	xs_lane_drop_early(d);
	for (int i = 0; i < XS_LANES; i++)
		xs_rq_close(&d->rq[i]);
	xs_verbs_free_queues(d);
	if (d->attached)
		xs_pool_detach(&d->pool);
	if (d->ctx)
		xs_verbs_close(d);
	d->ctx = NULL;
	xs_dev_put(d);
}

static enum xs_reason reason_of(int err)
{
	switch (-err) {
	case ENOMEM:
		return XS_R_NO_MEMORY;
	case EMFILE:
	case ENFILE:
		return XS_R_NO_DESCRIPTOR;
	case EOPNOTSUPP:
		return XS_R_NO_QP;
	default:
		return XS_R_NO_DEVICE;
	}
}

static enum xs_reason start(struct xs_rc_dev *d)
{
	int err;

	d->ctx = xs_verbs_open(d->name, &err);
	if (!d->ctx)
		return reason_of(err);
	err = xs_verbs_setup(d);
	if (err)
		return reason_of(err);
	err = xs_pool_attach(&d->pool);
	d->attached = err == 0;
	if (err)
		return XS_R_MEMLOCK;
	d->poller.fd = d->channel->fd;
	err = xs_poller_add(&d->poller);
	d->polled = err >= 0;
	if (err < 0)
		return reason_of(err);
	d->async.fd = d->ctx->async_fd;
	err = xs_progress_watch(&d->async, EPOLLIN);
	d->watched = err >= 0;
	return err < 0 ? reason_of(err) : XS_R_NONE;
}

static void forget(struct xs_rc_dev *d)
{
	struct xs_rc_dev **at = &devices;

	while (*at && *at != d)
		at = &(*at)->next;
	if (*at)
		*at = d->next;
	XS_LOG(INFO, "rc: device %s closed", d->name);
	close_dev(d);
}

static void end_broken(struct xs_work *w)
{
	struct xs_rc_dev *d, *next;

	(void)w;
	for (d = devices; d; d = next) {
		next = d->next;
		if (!atomic_load(&d->broken))
			continue;
		for (struct xs_conduit *c = d->conduits; c; c = c->next)
			xs_conduit_fail(c, XS_R_LINK_LOST);
		if (!d->links)
			forget(d);
	}
}

void xs_dev_break(struct xs_rc_dev *d)
{
	static struct xs_work work = {.fn = end_broken};

	atomic_store(&d->broken, true);
	xs_progress_post(&work);
}

void xs_dev_gone(struct ibv_context *theirs)
{
	for (struct xs_rc_dev *d = devices; d; d = d->next)
		if (strcmp(d->name, theirs->device->name) == 0)
			xs_dev_break(d);
	xs_verbs_let_go(theirs);
}

struct xs_rc_dev *xs_dev_get(struct ibv_context *theirs, enum xs_reason *why)
{
	const char *name = theirs->device->name;
	struct xs_rc_dev *d;

	xs_verbs_hide(theirs);
	for (d = devices; d; d = d->next)
		if (strcmp(d->name, name) == 0)
			break;
	if (d && !atomic_load(&d->broken))
		return d;
	if (d && d->links) {
		*why = XS_R_RETRY; /* it closes with its last link */
		return NULL;
	}
	if (d)
		forget(d);
	d = alloc_dev(name);
	*why = d ? start(d) : XS_R_NO_MEMORY;
	if (*why) {
		XS_LOG(WARN, "rc: device %s can't be used: %s", name, xs_reason_name(*why));
		if (d)
			close_dev(d);
		return NULL;
	}
	d->next = devices;
	devices = d;
	XS_LOG(INFO, "rc: device %s opened, completion queue of %u, chunks of %zu", name, d->cqe,
	       xs_slab_size(d->rq[XS_LANE_BULK].slab));
	return d;
}

void xs_dev_close_all(void)
{
	while (devices)
		forget(devices);
}

/* --- conduits come and go --------------------------------------------------------------------- */
static enum xs_reason grow_cq(struct xs_rc_dev *d)
{
	uint32_t want = d->cqe * 2 > d->cqe_max ? d->cqe_max : d->cqe * 2;

	if (d->links >= XS_RC_LINKS)
		return XS_R_NO_QP;
	if (d->cqe_used + SQ_ROOM <= d->cqe)
		return XS_R_NONE;
	if (xs_verbs_resize(d, want) || d->cqe_used + SQ_ROOM > d->cqe)
		return XS_R_NO_QP;
	return XS_R_NONE;
}

/* A conduit's receive memory: an eighth of what may be registered, at most 1 MiB + 4 MiB. */
static enum xs_reason promise(struct xs_rc_dev *d, struct xs_conduit *c)
{
	uint64_t share = d->budget / 8;
	uint32_t bulk_size = (uint32_t)xs_slab_size(d->rq[XS_LANE_BULK].slab);
	uint64_t small = share / 5 / 4096, bulk = share * 4 / 5 / bulk_size;

	small = small > SMALL_WANT ? SMALL_WANT : small < SMALL_LEAST ? SMALL_LEAST : small;
	if (bulk > (4u << 20) / bulk_size)
		bulk = (4u << 20) / bulk_size;
	if (bulk < BULK_LEAST)
		bulk = BULK_LEAST;
	c->entries[XS_LANE_SMALL] =
		xs_rq_promise(&d->rq[XS_LANE_SMALL], (uint32_t)small, SMALL_LEAST);
	if (c->entries[XS_LANE_SMALL])
		c->entries[XS_LANE_BULK] =
			xs_rq_promise(&d->rq[XS_LANE_BULK], (uint32_t)bulk, BULK_LEAST);
	if (c->entries[XS_LANE_BULK])
		return XS_R_NONE;
	return atomic_load(&d->refused) ? XS_R_MEMLOCK : XS_R_NO_MEMORY;
}

enum xs_reason xs_dev_join(struct xs_rc_dev *d, struct xs_conduit *c)
{
	enum xs_reason why = grow_cq(d);

	if (why)
		return why;
	atomic_fetch_add(&d->refs, 1);
	c->dev = d;
	c->next = d->conduits;
	d->conduits = c;
	d->links++;
	d->cqe_used += SQ_ROOM;
	return promise(d, c);
}

void xs_dev_leave(struct xs_rc_dev *d, struct xs_conduit *c)
{
	struct xs_conduit **at = &d->conduits;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	d->links--;
	d->cqe_used -= SQ_ROOM;
	for (int i = 0; i < XS_LANES; i++)
		xs_rq_release(&d->rq[i], c->entries[i], c->lane[i].ready);
	if (!d->links && (d->rq[XS_LANE_BULK].lost > LOST_LIMIT || atomic_load(&d->broken)))
		forget(d);
}

/* --- fork ------------------------------------------------------------------------------------- */
/* The child makes no verbs calls: they'd succeed, and take the parent's objects away. */
void xs_dev_fork_child(void)
{
	for (struct xs_rc_dev *d = devices; d; d = d->next) {
		xs_sys(__NR_close, d->channel->fd);
		xs_sys(__NR_close, d->ctx->cmd_fd);
		xs_sys(__NR_close, d->ctx->async_fd);
	}
	devices = NULL;
}

/* SPDX-License-Identifier: MIT */
/*
 * All calls of libibverbs. The device is opened by us, apart from librdmacm's own opening of it:
 * after a change of credentials it must be closed and opened again (an RDMA file refuses write()
 * then), and librdmacm never closes its own.
 *
 * Descriptors are moved to high numbers in the libraries' public structures right after they were
 * made.
 */
#include "base/highfd.h"
#include "base/log.h"
#include "base/rawsys.h"
#include "link/rc/rc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <string.h>

#define ACK_EVENTS 16

static int as_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

static void nonblock(int fd)
{
	long flags = xs_sys(__NR_fcntl, fd, F_GETFL, 0);

	xs_sys(__NR_fcntl, fd, F_SETFL, flags | O_NONBLOCK);
}

static void move_high(int *fd)
{
	int moved = xs_highfd(*fd);

	if (moved >= 0)
		*fd = moved;
}

/* --- the device ------------------------------------------------------------------------------- */
void xs_verbs_hide(struct ibv_context *ctx)
{
	if (ctx->cmd_fd < 512)
		move_high(&ctx->cmd_fd);
	if (ctx->async_fd < 512)
		move_high(&ctx->async_fd);
}

/* The numbers stay taken: librdmacm will close them some day. */
void xs_verbs_let_go(struct ibv_context *theirs)
{
	long null = xs_sys(__NR_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);

	if (null < 0)
		return;
	xs_sys(__NR_dup3, null, theirs->cmd_fd, O_CLOEXEC);
	xs_sys(__NR_dup3, null, theirs->async_fd, O_CLOEXEC);
	xs_sys(__NR_close, null);
}

struct ibv_context *xs_verbs_open(const char *name, int *err)
{
	struct ibv_device **list = xs_ibv.get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	*err = list ? -ENODEV : as_errno();
	for (int i = 0; list && list[i] && !ctx; i++) {
		if (strcmp(xs_ibv.get_device_name(list[i]), name) != 0)
			continue;
		xs_ibv.fork_init();
		ctx = xs_ibv.open_device(list[i]);
		*err = ctx ? 0 : as_errno();
	}
	if (list)
		xs_ibv.free_device_list(list);
	if (!ctx)
		return NULL;
	xs_verbs_hide(ctx);
	nonblock(ctx->async_fd);
	return ctx;
}

void xs_verbs_close(struct xs_rc_dev *d)
{
	if (d->pd)
		xs_ibv.dealloc_pd(d->pd);
	d->pd = NULL;
	xs_ibv.close_device(d->ctx);
}

static int make_srq(struct xs_rc_dev *d, struct xs_rc_rq *q)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = q->max, .max_sge = 1}};

	q->srq = xs_ibv.create_srq(d->pd, &attr);
	return q->srq ? 0 : as_errno();
}

static void limits(struct xs_rc_dev *d, const struct ibv_device_attr *a)
{
	for (int i = 0; i < XS_LANES; i++)
		if (a->max_srq_wr > 0 && d->rq[i].max > (uint32_t)a->max_srq_wr)
			d->rq[i].max = (uint32_t)a->max_srq_wr;
	d->cqe_max = a->max_cqe > 0 ? (uint32_t)a->max_cqe : 1024;
}

static int setup_queues(struct xs_rc_dev *d)
{
	int r;

	d->channel = xs_ibv.create_comp_channel(d->ctx);
	if (!d->channel)
		return as_errno();
	move_high(&d->channel->fd);
	nonblock(d->channel->fd);
	d->cq = xs_ibv.create_cq(d->ctx, (int)d->cqe, NULL, d->channel, 0);
	if (!d->cq)
		return as_errno();
	d->cqe = (uint32_t)d->cq->cqe;
	r = make_srq(d, &d->rq[XS_LANE_SMALL]);
	return r ? r : make_srq(d, &d->rq[XS_LANE_BULK]);
}

int xs_verbs_setup(struct xs_rc_dev *d)
{
	struct ibv_device_attr attr;
	int r = xs_ibv.query_device(d->ctx, &attr);

	if (r)
		return -r;
	if (attr.max_srq <= 1)
		return -EOPNOTSUPP;
	limits(d, &attr);
	d->cqe_used = d->rq[XS_LANE_SMALL].max + d->rq[XS_LANE_BULK].max;
	d->cqe = d->cqe_used + 1024;
	if (d->cqe > d->cqe_max)
		d->cqe = d->cqe_max;
	d->pd = xs_ibv.alloc_pd(d->ctx);
	if (!d->pd)
		return as_errno();
	return setup_queues(d);
}

void xs_verbs_free_queues(struct xs_rc_dev *d)
{
	if (d->cq) {
		if (d->unacked)
			xs_ibv.ack_cq_events(d->cq, d->unacked);
		xs_ibv.destroy_cq(d->cq);
	}
	if (d->channel)
		xs_ibv.destroy_comp_channel(d->channel);
	d->cq = NULL;
	d->channel = NULL;
}

void xs_verbs_free_srq(struct ibv_srq *srq)
{
	xs_ibv.destroy_srq(srq);
}

int xs_verbs_resize(struct xs_rc_dev *d, uint32_t cqe)
{
	int r = xs_ibv.resize_cq(d->cq, (int)cqe);

	if (!r)
		d->cqe = (uint32_t)d->cq->cqe;
	atomic_store(&d->armed, false);
	return r > 0 ? -r : r < 0 ? as_errno() : 0;
}

bool xs_verbs_gid(struct xs_rc_dev *d, uint8_t port, int index, union ibv_gid *gid)
{
	return xs_ibv.query_gid(d->ctx, port, index, gid) == 0;
}

/* --- memory ----------------------------------------------------------------------------------- */
struct reg_job {
	struct xs_rc_dev *dev;
	void *addr;
	size_t len;
	struct ibv_mr *mr;
	int err;
};

static void reg(struct reg_job *j)
{
	j->mr = xs_ibv.reg_mr(j->dev->pd, j->addr, j->len, IBV_ACCESS_LOCAL_WRITE);
	j->err = j->mr ? 0 : as_errno();
}

/* True: CAP_IPC_LOCK is permitted but not effective; with `raise` it now is, for this thread. */
static bool spare_ipc_lock(bool raise)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct cap[_LINUX_CAPABILITY_U32S_3];
	const uint32_t bit = 1u << CAP_IPC_LOCK;

	if (xs_sys(__NR_capget, &head, cap) < 0)
		return false;
	if (!(cap[0].permitted & bit) || (cap[0].effective & bit))
		return false;
	cap[0].effective |= bit;
	return !raise || xs_sys(__NR_capset, &head, cap) == 0;
}

/*
 * A thread of its own: capset gives the calling thread new credentials, and a thread whose
 * credentials aren't those that opened the device can't post on it any more.
 */
static void *reg_main(void *arg)
{
	if (spare_ipc_lock(true))
		reg(arg);
	return NULL;
}

int xs_verbs_register(struct xs_rc_dev *d, void *addr, size_t len, struct ibv_mr **mr)
{
	struct reg_job j = {.dev = d, .addr = addr, .len = len};
	pthread_t t;

	reg(&j);
	if (j.err && spare_ipc_lock(false) && pthread_create(&t, NULL, reg_main, &j) == 0)
		pthread_join(t, NULL);
	if (j.err)
		return j.err;
	*mr = j.mr;
	return 0;
}

bool xs_verbs_may_lock(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct cap[_LINUX_CAPABILITY_U32S_3];

	return xs_sys(__NR_capget, &head, cap) == 0 && (cap[0].permitted & (1u << CAP_IPC_LOCK));
}

void xs_verbs_deregister(struct ibv_mr *mr)
{
	xs_ibv.dereg_mr(mr);
}

/* --- queue pairs ------------------------------------------------------------------------------ */
int xs_verbs_qp_make(struct xs_rc_lane *l)
{
	struct xs_rc_dev *d = l->c->dev;
	struct ibv_qp_init_attr attr = {
		.qp_context = l,
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.srq = d->rq[l->lane].srq,
		.cap = {.max_send_wr = l->depth, .max_send_sge = 2, .max_inline_data = XS_RC_SLOT},
		.qp_type = IBV_QPT_RC,
	};

	l->qp = xs_ibv.create_qp(d->pd, &attr);
	if (!l->qp) { /* the device can't take so much inline: then none */
		attr.cap.max_inline_data = 0;
		l->qp = xs_ibv.create_qp(d->pd, &attr);
	}
	if (!l->qp)
		return as_errno();
	d->inline_max = attr.cap.max_inline_data;
	return 0;
}

int xs_verbs_qp_modify(struct xs_rc_lane *l, struct ibv_qp_attr *attr, int mask)
{
	int r = xs_ibv.modify_qp(l->qp, attr, mask);

	return r > 0 ? -r : r < 0 ? as_errno() : 0;
}

int xs_verbs_qp_query(struct xs_rc_lane *l, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_init_attr init;
	int r = xs_ibv.query_qp(l->qp, attr, mask, &init);

	return r > 0 ? -r : r < 0 ? as_errno() : 0;
}

void xs_verbs_qp_error(struct xs_rc_lane *l)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	xs_ibv.modify_qp(l->qp, &attr, IBV_QP_STATE);
}

int xs_verbs_qp_destroy(struct xs_rc_lane *l)
{
	int r = xs_ibv.destroy_qp(l->qp);

	l->qp = NULL;
	return -r;
}

/* --- the data path ---------------------------------------------------------------------------- */
int xs_verbs_post_send(struct xs_rc_lane *l, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int r = ibv_post_send(l->qp, wr, bad);

	return r > 0 ? -r : r < 0 ? as_errno() : 0;
}

int xs_verbs_post_recv(struct xs_rc_rq *q, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;
	int r = ibv_post_srq_recv(q->srq, wr, &bad);

	return r > 0 ? -r : r < 0 ? as_errno() : 0;
}

int xs_verbs_poll(struct xs_rc_dev *d, struct ibv_wc *wc, int n)
{
	return ibv_poll_cq(d->cq, n, wc);
}

static void take_event(struct xs_rc_dev *d)
{
	struct ibv_cq *cq;
	void *ctx;

	d->fired = false;
	if (xs_ibv.get_cq_event(d->channel, &cq, &ctx) == 0)
		d->unacked++;
	if (d->unacked < ACK_EVENTS)
		return;
	xs_ibv.ack_cq_events(d->cq, d->unacked);
	d->unacked = 0;
}

void xs_verbs_arm(struct xs_rc_dev *d)
{
	if (atomic_exchange(&d->armed, true))
		return;
	if (d->fired)
		take_event(d);
	ibv_req_notify_cq(d->cq, 0);
}

/* The event itself is read by who arms next: not between an arrival and the program. */
void xs_verbs_disarm(struct xs_rc_dev *d)
{
	if (d->fired)
		take_event(d);
	d->fired = true;
	atomic_store(&d->armed, false);
}

const char *xs_verbs_status(enum ibv_wc_status s)
{
	return xs_ibv.wc_status_str(s);
}

/* --- asynchronous events ---------------------------------------------------------------------- */
static void describe(const struct ibv_async_event *e, struct xs_rc_event *ev)
{
	ev->type = e->event_type;
	ev->name = xs_ibv.event_type_str(e->event_type);
	ev->qp = NULL;
	ev->port = 0;
	switch (e->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		ev->qp = e->element.qp;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		ev->port = (uint8_t)e->element.port_num;
		break;
	default:
		break;
	}
}

bool xs_verbs_event(struct xs_rc_dev *d, struct xs_rc_event *ev)
{
	struct ibv_async_event e;

	if (xs_ibv.get_async_event(d->ctx, &e) != 0)
		return false;
	describe(&e, ev);
	xs_ibv.ack_async_event(&e); /* at once: destroying waits for it */
	return true;
}

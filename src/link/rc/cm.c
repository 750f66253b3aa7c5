/* SPDX-License-Identifier: MIT */
/*
 * All calls of librdmacm. Everything happens in the progress thread, on one event channel; what the
 * events mean is in meet.c.
 *
 * An event is copied and acknowledged before it is acted on: destroying an id waits for its events.
 */
#include "link/rc/cm.h"
#include "base/clock.h"
#include "base/highfd.h"
#include "base/log.h"
#include "base/rawsys.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define RESOLVE_MS 2000
#define AGAIN_NS (5 * XS_NS_PER_S)
#define BACKLOG 64
#define ACK_TIMEOUT 14
#define RETRY_COUNT 6

struct xs_rdv {
	struct xs_rc_id id; /* without an id: closed with all, or its device has gone */
	struct sockaddr_storage at;
	bool lost; /* the latter */
	struct xs_rdv *next;
};

static struct rdma_event_channel *channel;
static struct xs_fdwatch watch;
static struct xs_rdv *rendezvous;
static bool forked; /* librdmacm can't be used any more in this process */

/* --- the channel ------------------------------------------------------------------------------ */
static void on_channel(struct xs_fdwatch *w, uint32_t events);

enum xs_reason xs_cm_open(void)
{
	int fd;

	if (forked)
		return XS_R_FORKED;
	if (channel)
		return XS_R_NONE;
	if (!xs_dl_open())
		return XS_R_NO_LIBRARY;
	channel = xs_rdma.create_event_channel();
	if (!channel)
		return errno == EMFILE || errno == ENFILE ? XS_R_NO_DESCRIPTOR : XS_R_NO_DEVICE;
	fd = xs_highfd(channel->fd);
	if (fd >= 0)
		channel->fd = fd;
	xs_sys(__NR_fcntl, channel->fd, F_SETFL,
	       xs_sys(__NR_fcntl, channel->fd, F_GETFL, 0) | O_NONBLOCK);
	watch.fd = channel->fd;
	watch.fn = on_channel;
	if (xs_progress_watch(&watch, EPOLLIN) < 0) {
		xs_rdma.destroy_event_channel(channel);
		channel = NULL;
		return XS_R_NO_DESCRIPTOR;
	}
	return XS_R_NONE;
}

/* --- ids -------------------------------------------------------------------------------------- */
void xs_cm_free(struct xs_rc_id *i)
{
	xs_meet_forget(i);
	if (i->id)
		xs_rdma.destroy_id(i->id);
	free(i);
}

void xs_cm_refuse(struct xs_rc_id *i, enum xs_reason why)
{
	struct xs_cm_refusal say = {.version = XS_WIRE_VERSION, .reason = (uint16_t)why};

	memcpy(say.mark, XS_CM_MARK, sizeof(say.mark));
	xs_rdma.reject(i->id, &say, sizeof(say));
}

void xs_cm_part(struct xs_rc_id *i, enum xs_reason why)
{
	if (!i->id)
		return;
	if (i->requested)
		xs_rdma.disconnect(i->id);
	else if (i->role == XS_CM_PASSIVE)
		xs_cm_refuse(i, why);
}

int xs_cm_qp_attr(struct xs_rc_id *i, enum ibv_qp_state state, struct ibv_qp_attr *attr, int *mask)
{
	attr->qp_state = state;
	return xs_rdma.init_qp_attr(i->id, attr, mask) ? -errno : 0;
}

static void set_ack_timeout(struct xs_rc_id *i)
{
	uint8_t timeout = ACK_TIMEOUT;

	xs_rdma.set_option(i->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			   sizeof(timeout));
}

static struct rdma_conn_param param_of(const struct xs_rc_id *i)
{
	return (struct rdma_conn_param){
		.private_data = &i->req,
		.private_data_len = sizeof(i->req),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = RETRY_COUNT,
		.rnr_retry_count = RETRY_COUNT,
		.srq = 1,
		.qp_num = i->lane->qp->qp_num,
	};
}

int xs_cm_resolve_addr(struct xs_rc_id *i, struct sockaddr_storage *local,
		       struct sockaddr_storage *peer)
{
	if (xs_rdma.create_id(channel, &i->id, i, RDMA_PS_TCP)) {
		i->id = NULL;
		return -errno;
	}
	return xs_rdma.resolve_addr(i->id, (struct sockaddr *)local, (struct sockaddr *)peer,
				    RESOLVE_MS)
		       ? -errno
		       : 0;
}

int xs_cm_resolve_route(struct xs_rc_id *i)
{
	set_ack_timeout(i);
	return xs_rdma.resolve_route(i->id, RESOLVE_MS) ? -errno : 0;
}

int xs_cm_request(struct xs_rc_id *i)
{
	struct rdma_conn_param param = param_of(i);

	if (xs_rdma.connect(i->id, &param))
		return -errno;
	i->requested = true;
	return 0;
}

int xs_cm_accept(struct xs_rc_id *i)
{
	struct rdma_conn_param param = param_of(i);

	if (xs_rdma.accept(i->id, &param))
		return -errno;
	i->requested = true;
	return 0;
}

int xs_cm_establish(struct xs_rc_id *i)
{
	return xs_rdma.establish(i->id) ? -errno : 0;
}

static void copy_addr(const struct sockaddr *from, struct sockaddr_storage *to)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, from,
	       from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in));
}

void xs_cm_addresses(const struct xs_rc_id *i, struct sockaddr_storage *local,
		     struct sockaddr_storage *peer)
{
	copy_addr(rdma_get_local_addr(i->id), local);
	copy_addr(rdma_get_peer_addr(i->id), peer);
}

/* --- the rendezvous --------------------------------------------------------------------------- */
static enum xs_reason bind_error(int err)
{
	switch (err) {
	case EADDRINUSE:
		return XS_R_PREFORK;
	case EACCES:
		return XS_R_SETID; /* a low port, or the credentials have changed */
	default:
		return XS_R_NO_ROUTE;
	}
}

static enum xs_reason open_rdv(struct xs_rdv *r)
{
	enum xs_reason why;

	if (xs_rdma.create_id(channel, &r->id.id, &r->id, RDMA_PS_TCP)) {
		r->id.id = NULL;
		return XS_R_NO_DESCRIPTOR;
	}
	if (!xs_rdma.bind_addr(r->id.id, (struct sockaddr *)&r->at) &&
	    !xs_rdma.listen(r->id.id, BACKLOG))
		return XS_R_NONE;
	why = bind_error(errno);
	XS_LOG(INFO, "rc: no rendezvous: %s", xs_reason_name(why));
	xs_rdma.destroy_id(r->id.id);
	r->id.id = NULL;
	return why;
}

/* Those whose device went away: it, or another one with the address, may be there now. */
static void listen_again(struct xs_timer *t)
{
	bool more = false;

	for (struct xs_rdv *r = rendezvous; r; r = r->next) {
		if (r->lost)
			r->lost = channel && open_rdv(r) != XS_R_NONE;
		more |= r->lost;
	}
	if (more)
		xs_timer_set(t, xs_now_ns() + AGAIN_NS);
}

static void device_gone(struct xs_rdv *r)
{
	static struct xs_timer timer = {.fn = listen_again};

	XS_LOG(INFO, "rc: the rendezvous' device is gone");
	xs_rdma.destroy_id(r->id.id);
	r->id.id = NULL;
	r->lost = true;
	xs_timer_set(&timer, xs_now_ns() + AGAIN_NS);
}

enum xs_reason xs_cm_listen(const struct sockaddr_storage *bound,
			    const struct sockaddr_storage *local, struct xs_rdv **out)
{
	enum xs_reason why = xs_cm_open();
	struct xs_rdv *r;

	(void)local; /* the device comes with each request */
	if (why)
		return why;
	r = calloc(1, sizeof(*r));
	if (!r)
		return XS_R_NO_MEMORY;
	r->at = *bound;
	why = open_rdv(r);
	if (why) {
		free(r);
		return why;
	}
	r->next = rendezvous;
	rendezvous = r;
	*out = r;
	return XS_R_NONE;
}

void xs_cm_unlisten(struct xs_rdv *r)
{
	struct xs_rdv **at = &rendezvous;

	while (*at && *at != r)
		at = &(*at)->next;
	if (*at)
		*at = r->next;
	if (r->id.id)
		xs_rdma.destroy_id(r->id.id);
	free(r);
}

/* --- events ----------------------------------------------------------------------------------- */
struct event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	size_t len;
	uint8_t data[64];
};

/* Copied and acknowledged: destroying an id waits for its events. */
static bool next_event(struct event *e)
{
	struct rdma_cm_event *ev;

	if (!channel || xs_rdma.get_cm_event(channel, &ev))
		return false;
	e->type = ev->event;
	e->status = ev->status;
	e->id = ev->id;
	e->len = 0;
	if ((ev->event == RDMA_CM_EVENT_CONNECT_REQUEST || ev->event == RDMA_CM_EVENT_REJECTED) &&
	    ev->param.conn.private_data) {
		e->len = ev->param.conn.private_data_len;
		if (e->len > sizeof(e->data))
			e->len = sizeof(e->data);
		memcpy(e->data, ev->param.conn.private_data, e->len);
	}
	xs_rdma.ack_cm_event(ev);
	return true;
}

static void requested(const struct event *e)
{
	struct xs_rc_id *i = calloc(1, sizeof(*i));

	if (!i) {
		xs_rdma.reject(e->id, NULL, 0);
		xs_rdma.destroy_id(e->id);
		return;
	}
	i->role = XS_CM_PASSIVE;
	i->id = e->id;
	i->id->context = i;
	if (e->len >= sizeof(i->req))
		memcpy(&i->req, e->data, sizeof(i->req));
	set_ack_timeout(i);
	xs_meet_requested(i);
}

/* Why a peer of ours has refused; NONE: it said nothing that we know. */
static enum xs_reason refusal(const struct event *e)
{
	struct xs_cm_refusal said;

	if (e->type != RDMA_CM_EVENT_REJECTED || e->len < sizeof(said))
		return XS_R_NONE;
	memcpy(&said, e->data, sizeof(said));
	if (memcmp(said.mark, XS_CM_MARK, sizeof(said.mark)) != 0)
		return XS_R_NONE;
	if (said.version != XS_WIRE_VERSION)
		return XS_R_VERSION;
	return said.reason < XS_R_COUNT ? (enum xs_reason)said.reason : XS_R_NONE;
}

static void on_channel(struct xs_fdwatch *w, uint32_t events)
{
	struct event e;

	(void)w;
	(void)events;
	while (next_event(&e)) {
		struct xs_rc_id *i = e.id->context;

		XS_LOG(DEBUG, "rc: cm says %s, status %d", xs_rdma.event_str(e.type), e.status);
		if (e.type == RDMA_CM_EVENT_DEVICE_REMOVAL && e.id->verbs)
			xs_dev_gone(e.id->verbs);
		if (e.type == RDMA_CM_EVENT_CONNECT_REQUEST)
			requested(&e);
		else if (i->role == XS_CM_LISTENER && e.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			device_gone((struct xs_rdv *)i);
		else if (i->role != XS_CM_LISTENER)
			xs_meet_event(i, e.type, refusal(&e));
	}
}

/* --- the end ---------------------------------------------------------------------------------- */
/* Listeners stay as empty shells until their owner lets them go. */
void xs_cm_close_all(void)
{
	xs_meet_close();
	for (struct xs_rdv *r = rendezvous; r; r = r->next) {
		if (r->id.id)
			xs_rdma.destroy_id(r->id.id);
		r->id.id = NULL;
		r->lost = false;
	}
	if (!channel)
		return;
	xs_progress_unwatch(&watch);
	xs_rdma.destroy_event_channel(channel);
	channel = NULL;
}

/* librdmacm keeps devices open whose descriptors are gone here: it can't be used any more. */
void xs_cm_fork_child(void)
{
	if (!channel)
		return;
	xs_sys(__NR_close, channel->fd);
	channel = NULL;
	forked = true;
}

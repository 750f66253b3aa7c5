/* SPDX-License-Identifier: MIT */
/*
 * Connecting the two queue pairs of a conduit: what the cm's events mean.
 *
 * An id stands for one queue pair; the two of a conduit carry the same random token in their
 * private data, which is how the accepting side puts them together. librdmacm is told the queue
 * pair's number only: the queue pairs are ours.
 *
 *   connecting:  resolve address -> resolve route -> (device known: build) -> connect
 *                -> response: INIT, RTR, RTS, establish -> ready
 *   accepting:   request (both lanes) -> xs_link_incoming() -> build -> INIT, RTR, RTS -> accept
 *                -> established -> ready
 *
 * The accepting side posts nothing before ESTABLISHED; the connecting side's queue pairs are in RTS
 * before it says establish, and the peer's were before it accepted.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "link/rc/cm.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define HALF_NS (5 * XS_NS_PER_S)
#define MAX_HALVES 64

static void half_timer(struct xs_timer *t);

static struct xs_rc_id *halves; /* requests whose other lane hasn't asked yet */
static unsigned halves_n;
static struct xs_timer halves_timer = {.fn = half_timer};

/* --- the connecting side ---------------------------------------------------------------------- */
/* An address as rdma_cm wants it: a mapped one as IPv4. */
static void plain(const struct sockaddr_storage *in, struct sockaddr_storage *out)
{
	const struct sockaddr_in6 *six = (const void *)in;
	struct sockaddr_in *four = (void *)out;

	*out = *in;
	if (in->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		return;
	memset(out, 0, sizeof(*out));
	four->sin_family = AF_INET;
	four->sin_port = six->sin6_port;
	memcpy(&four->sin_addr, six->sin6_addr.s6_addr + 12, 4);
}

static void clear_port(struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = 0;
	else
		((struct sockaddr_in *)a)->sin_port = 0;
}

static int resolve(struct xs_rc_lane *l, struct sockaddr_storage *local,
		   struct sockaddr_storage *peer, const uint8_t *token)
{
	struct xs_rc_id *i = calloc(1, sizeof(*i));

	if (!i)
		return -ENOMEM;
	i->role = XS_CM_ACTIVE;
	i->lane = l;
	i->req.version = XS_WIRE_VERSION;
	i->req.lane = (uint8_t)l->lane;
	memcpy(i->req.token, token, sizeof(i->req.token));
	l->id = i;
	return xs_cm_resolve_addr(i, local, peer);
}

enum xs_reason xs_cm_connect(struct xs_conduit *c, const struct sockaddr_storage *local,
			     const struct sockaddr_storage *peer)
{
	struct sockaddr_storage from, to;
	enum xs_reason why = xs_cm_open();
	uint8_t token[16];

	if (why)
		return why;
	if (xs_random(token, sizeof(token)))
		return XS_R_INTERNAL;
	plain(local, &from);
	plain(peer, &to);
	clear_port(&from);
	for (int i = 0; i < XS_LANES; i++) {
		int r = resolve(&c->lane[i], &from, &to, token);

		if (r) {
			XS_LOG(INFO, "rc: address can't be resolved: error %d", -r);
			return r == -ENOMEM ? XS_R_NO_MEMORY : XS_R_NO_ROUTE;
		}
	}
	return XS_R_NONE;
}

static enum xs_reason route_resolved(struct xs_rc_id *i)
{
	struct xs_conduit *c = i->lane->c;
	enum xs_reason why = XS_R_NONE;

	if (xs_rc_state_of(c) == XS_RC_NEW)
		why = xs_conduit_build(c, i->id->verbs);
	if (why)
		return why;
	if (strcmp(c->dev->name, i->id->verbs->device->name) != 0)
		return XS_R_NO_ROUTE; /* the route changed between the two lanes */
	return xs_cm_request(i) ? XS_R_NO_ROUTE : XS_R_NONE;
}

static enum xs_reason responded(struct xs_rc_id *i)
{
	enum xs_reason why = xs_conduit_connect_lane(i->lane);

	if (why)
		return why;
	if (xs_cm_establish(i))
		return XS_R_NO_ROUTE;
	xs_conduit_lane_ready(i->lane);
	return XS_R_NONE;
}

/* --- the accepting side ----------------------------------------------------------------------- */
void xs_meet_forget(struct xs_rc_id *i)
{
	struct xs_rc_id **at = &halves;

	while (*at && *at != i)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = i->next;
	halves_n--;
}

static void turn_away(struct xs_rc_id *i, enum xs_reason why)
{
	XS_LOG(INFO, "rc: a request is refused: %s", xs_reason_name(why));
	xs_cm_refuse(i, why);
	xs_cm_free(i);
}

static void half_timer(struct xs_timer *t)
{
	uint64_t now = xs_now_ns();
	struct xs_rc_id *i, *next;

	for (i = halves; i; i = next) {
		next = i->next;
		if (i->deadline <= now)
			turn_away(i, XS_R_RETRY);
	}
	if (halves)
		xs_timer_set(t, now + HALF_NS);
}

void xs_meet_close(void)
{
	while (halves)
		turn_away(halves, XS_R_RETRY);
}

static enum xs_reason accept_lane(struct xs_rc_lane *l)
{
	enum xs_reason why = xs_conduit_connect_lane(l);

	if (why)
		return why;
	return xs_cm_accept(l->id) ? XS_R_NO_ROUTE : XS_R_NONE;
}

static void take_lane(struct xs_conduit *c, struct xs_rc_id *i)
{
	i->lane = &c->lane[i->req.lane];
	i->lane->id = i;
}

/* Both lanes of a conduit have asked. */
static void join(struct xs_rc_id *a, struct xs_rc_id *b)
{
	struct xs_conduit *c = xs_conduit_new();
	struct sockaddr_storage peer, local;
	enum xs_reason why;

	if (!c) {
		turn_away(a, XS_R_NO_MEMORY);
		turn_away(b, XS_R_NO_MEMORY);
		return;
	}
	take_lane(c, a);
	take_lane(c, b);
	xs_cm_addresses(a, &local, &peer);
	c->link = xs_link_incoming(&xs_rc_ops, c, &peer, &local);
	why = c->link ? xs_conduit_build(c, a->id->verbs) : XS_R_NO_MEMORY;
	if (!why)
		why = accept_lane(a->lane);
	if (!why)
		why = accept_lane(b->lane);
	if (why)
		xs_conduit_fail(c, why);
}

static struct xs_rc_id *other_half(const struct xs_rc_id *mine)
{
	for (struct xs_rc_id *i = halves; i; i = i->next)
		if (i->req.lane != mine->req.lane &&
		    memcmp(i->req.token, mine->req.token, sizeof(mine->req.token)) == 0)
			return i;
	return NULL;
}

/* Nothing is kept of a request from where nobody is trusted. */
static enum xs_reason acceptable(const struct xs_rc_id *i)
{
	struct sockaddr_storage peer, local;

	if (i->req.version != XS_WIRE_VERSION)
		return XS_R_VERSION;
	if (i->req.lane >= XS_LANES)
		return XS_R_INTERNAL;
	if (halves_n >= MAX_HALVES)
		return XS_R_RETRY;
	xs_cm_addresses(i, &local, &peer);
	return xs_link_admit(&xs_rc_ops, &peer);
}

void xs_meet_requested(struct xs_rc_id *i)
{
	enum xs_reason why = acceptable(i);
	struct xs_rc_id *other;

	if (why) {
		turn_away(i, why);
		return;
	}
	other = other_half(i);
	if (other) {
		xs_meet_forget(other);
		join(i, other);
		return;
	}
	i->deadline = xs_now_ns() + HALF_NS;
	i->next = halves;
	halves = i;
	halves_n++;
	xs_timer_set(&halves_timer, halves_n == 1 ? i->deadline : halves_timer.when);
}

/* --- events ----------------------------------------------------------------------------------- */
static enum xs_reason addr_resolved(struct xs_rc_id *i)
{
	return xs_cm_resolve_route(i) ? XS_R_NO_ROUTE : XS_R_NONE;
}

static enum xs_reason established(struct xs_rc_id *i)
{
	xs_conduit_lane_ready(i->lane);
	return XS_R_NONE;
}

struct rule {
	enum rdma_cm_event_type type;
	enum xs_reason (*act)(struct xs_rc_id *i); /* a reason: the conduit fails */
	enum xs_reason why;			   /* without act */
};

static const struct rule rules[] = {
	{RDMA_CM_EVENT_ADDR_RESOLVED, addr_resolved, XS_R_NONE},
	{RDMA_CM_EVENT_ROUTE_RESOLVED, route_resolved, XS_R_NONE},
	{RDMA_CM_EVENT_CONNECT_RESPONSE, responded, XS_R_NONE},
	{RDMA_CM_EVENT_ESTABLISHED, established, XS_R_NONE},
	{RDMA_CM_EVENT_ADDR_ERROR, NULL, XS_R_NO_ROUTE},
	{RDMA_CM_EVENT_ROUTE_ERROR, NULL, XS_R_NO_ROUTE},
	{RDMA_CM_EVENT_CONNECT_ERROR, NULL, XS_R_NO_ROUTE},
	{RDMA_CM_EVENT_UNREACHABLE, NULL, XS_R_NO_ROUTE},
	{RDMA_CM_EVENT_REJECTED, NULL, XS_R_NO_SHIM},
	{RDMA_CM_EVENT_DISCONNECTED, NULL, XS_R_LINK_LOST},
	{RDMA_CM_EVENT_DEVICE_REMOVAL, NULL, XS_R_LINK_LOST},
};

static void half_event(struct xs_rc_id *i, enum xs_reason why)
{
	if (why)
		xs_cm_free(i);
}

void xs_meet_event(struct xs_rc_id *i, enum rdma_cm_event_type type, enum xs_reason refusal)
{
	for (unsigned n = 0; n < sizeof(rules) / sizeof(rules[0]); n++) {
		const struct rule *r = &rules[n];
		enum xs_reason why = refusal ? refusal : r->why;

		if (r->type != type)
			continue;
		if (!i->lane) {
			half_event(i, why);
			return;
		}
		if (atomic_load(&i->lane->c->failed))
			return;
		if (r->act)
			why = r->act(i);
		if (why)
			xs_conduit_fail(i->lane->c, why);
		return;
	}
}

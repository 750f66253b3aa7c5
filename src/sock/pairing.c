/* SPDX-License-Identifier: MIT */
/*
 * When a connection has proved worth it, and finding its other end. The connecting end asks; the
 * accepting end waits to be found under its 4-tuple. All but the policy's look at a call's result
 * runs in the progress thread.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "base/real.h"
#include "link/link.h"
#include "sock/conn.h"
#include "sock/heirs.h"
#include "sock/pairing.h"

#define BUCKETS 4096
#define TRANSFER_CHECK 16 /* calls between two looks at the byte threshold */

static struct xs_lock tuples_lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct xs_sock *tuples[BUCKETS];

/* --- tuples of accepted connections ---------- */

static unsigned bucket(const struct xs_wire_addr *local, const struct xs_wire_addr *peer)
{
	uint32_t h = 2166136261u;

	for (int i = 12; i < 16; i++)
		h = (h ^ local->ip[i] ^ (uint32_t)(peer->ip[i] << 8)) * 16777619u;
	h = (h ^ local->port) * 16777619u;
	h = (h ^ peer->port) * 16777619u;
	return (h ^ h >> 15) % BUCKETS;
}

static unsigned bucket_of(const struct xs_sock *s)
{
	struct xs_wire_addr local, peer;

	xs_pair_addr(&s->local, &local);
	xs_pair_addr(&s->peer, &peer);
	return bucket(&local, &peer);
}

void xs_tuple_add(struct xs_sock *s)
{
	unsigned b = bucket_of(s);

	if (s->in_tuples)
		return;
	s->in_tuples = true;
	xs_conn_hold(s);
	xs_lock_take(&tuples_lock);
	s->tuple_next = tuples[b];
	tuples[b] = s;
	xs_lock_drop(&tuples_lock);
}

void xs_tuple_del(struct xs_sock *s)
{
	struct xs_sock **at = &tuples[bucket_of(s)];

	if (!s->in_tuples)
		return;
	s->in_tuples = false;
	xs_lock_take(&tuples_lock);
	while (*at && *at != s)
		at = &(*at)->tuple_next;
	if (*at)
		*at = s->tuple_next;
	s->tuple_next = NULL;
	xs_lock_drop(&tuples_lock);
	xs_obj_put(&s->obj);
}

static struct xs_sock *tuple_find(const struct xs_wire_addr *local, const struct xs_wire_addr *peer)
{
	struct xs_wire_addr l, p;
	struct xs_sock *s;

	xs_lock_take(&tuples_lock);
	for (s = tuples[bucket(local, peer)]; s; s = s->tuple_next) {
		xs_pair_addr(&s->local, &l);
		xs_pair_addr(&s->peer, &p);
		if (!memcmp(&l, local, sizeof(l)) && !memcmp(&p, peer, sizeof(p))) {
			xs_conn_hold(s);
			break;
		}
	}
	xs_lock_drop(&tuples_lock);
	return s;
}

void xs_tuples_fork_child(void)
{
	xs_lock_init(&tuples_lock, XS_RANK_LEAF);
	memset(tuples, 0, sizeof(tuples));
}

/* --- what pairing asks ---------- */

static void *find(const struct xs_wire_addr *local, const struct xs_wire_addr *peer,
		  enum xs_reason *why)
{
	struct xs_sock *s = tuple_find(local, peer);
	struct xs_crit cs;

	*why = XS_R_NONE;
	if (!s)
		return NULL;
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (s->pin)
		*why = s->pin;
	else if (s->pairing ==
		 XS_PAIR_DONE) /* it hasn't given up the old link yet: ask again [12] */
		*why = XS_R_RETRY;
	else if (s->pairing == XS_PAIR_NEVER || s->fd < 0)
		*why = s->rx_why;
	else
		*why = xs_policy_excluded(s);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	if (!*why)
		return s;
	xs_obj_put(&s->obj);
	return NULL;
}

static enum xs_reason counts(void *user, struct xs_proof *p)
{
	struct xs_sock *s = user;
	bool connected = s->role == XS_ROLE_CONNECTED;
	enum xs_reason why = XS_R_TUPLE;
	uint64_t consumed;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (xs_conn_fresh(s) && !s->orphan)
		why = xs_twin_written(s->fd, connected, &p->written, &p->acked);
	if (!why)
		why = xs_twin_received(s->fd, connected, &p->received, &consumed);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	return why;
}

static void paired(void *user, struct xs_chan *c, const uint8_t *secret)
{
	struct xs_chan_base *base = (struct xs_chan_base *)c;
	struct xs_sock *s = user;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (s->pairing == XS_PAIR_DONE || s->fd < 0 || s->orphan) {
		xs_chan_ops(c)->close(c, false);
	} else {
		s->chan = c;
		xs_fast_begin(s);
		s->pairing = XS_PAIR_DONE;
		s->link_gone = s->complete = false;
		atomic_store_explicit(&s->watching, 0, memory_order_relaxed);
		memcpy(s->secret, secret, sizeof(s->secret));
		if (s->sndbuf)
			xs_chan_ops(c)->tx_limit(c, s->sndbuf);
		s->tx_why = s->rx_why = XS_R_POLICY;
		xs_s_link_up(&s->tx);
		xs_r_link_up(&s->rx);
		xs_heirs_begin(s);
		if (s->row && s->named) /* else its last line is being printed */
			xs_stats_pair(s->row, xs_chan_ops(c)->id(c), base->link_id,
				      XS_WIRE_VERSION);
		XS_LOG(INFO, "fd=%d paired over %s link %llu", s->fd, base->ops->name,
		       (unsigned long long)base->link_id);
	}
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	xs_stats_watch(xs_pair_request);
}

static void refused(void *user, enum xs_reason why, uint32_t retry_ms)
{
	struct xs_sock *s = user;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (s->pairing == XS_PAIR_ASKING) {
		s->tx_why = s->rx_why = why;
		s->pairing = retry_ms ? XS_PAIR_NONE : XS_PAIR_NEVER;
		s->pair_at = retry_ms ? xs_now_ns() + retry_ms * XS_NS_PER_MS : 0;
		if (!retry_ms)
			atomic_store_explicit(&s->watching, 0, memory_order_relaxed);
		XS_LOG(INFO, "fd=%d stays on the kernel: %s", s->fd, xs_reason_name(why));
		xs_conn_publish(s);
	}
	xs_conn_leave(s);
	xs_crit_leave(&cs);
}

/* What an accepted connection that waits to be asked for shows; one that has moved before shows
 * why it's back. */
static void show(struct xs_sock *s, enum xs_reason why)
{
	if (s->role != XS_ROLE_ACCEPTED || s->pairing != XS_PAIR_NONE || s->pin ||
	    xs_reason_class(s->rx_why) == XS_CLASS_TRANSIENT)
		return;
	s->tx_why = s->rx_why = why ? why : XS_R_NEW;
	xs_conn_publish(s);
}

static void turned_down(void *user, enum xs_reason why)
{
	struct xs_sock *s = user;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	show(s, why);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
}

struct hiding {
	const struct xs_wire_addr *local, *peer;
	enum xs_reason why;
};

static void hide_listener(struct xs_sock *s, void *arg)
{
	const struct hiding *h = arg;
	struct xs_wire_addr local;

	if (atomic_load(&s->listening) != 2)
		return;
	xs_pair_addr(&s->local, &local);
	if (!memcmp(&local, h->local, sizeof(local)))
		atomic_store(&s->hidden, (uint8_t)h->why);
}

static bool covers(const struct xs_wire_addr *bound, const struct xs_wire_addr *local)
{
	static const uint8_t any[16];
	bool wild = !memcmp(bound->ip, any, 10) && !memcmp(bound->ip + 12, any, 4);

	return bound->port == local->port && (wild || !memcmp(bound->ip, local->ip, 16));
}

static void hide_accepted(struct xs_sock *s, void *arg)
{
	const struct hiding *h = arg;
	struct xs_wire_addr local, peer;

	xs_conn_enter(s);
	if (s->in_tuples) {
		xs_pair_addr(&s->local, &local);
		xs_pair_addr(&s->peer, &peer);
		if (covers(h->local, &local) &&
		    (!h->peer || !memcmp(h->peer->ip, peer.ip, sizeof(peer.ip))))
			show(s, h->why);
	}
	xs_conn_leave(s);
}

/* The listener first: what it accepts from now on takes the reason from there. */
static void hidden(const struct xs_wire_addr *local, const struct xs_wire_addr *peer,
		   enum xs_reason why)
{
	struct hiding h = {local, peer, why};
	struct xs_crit cs;

	xs_crit_enter(&cs);
	if (!peer)
		xs_conn_each(hide_listener, &h);
	xs_conn_each(hide_accepted, &h);
	xs_crit_leave(&cs);
}

const struct xs_pair_events xs_conn_pairing = {
	.find = find,
	.counts = counts,
	.paired = paired,
	.refused = refused,
	.turned_down = turned_down,
	.hidden = hidden,
	.chan = &xs_conn_events,
};

/* --- policy ---------- */

static bool worth(struct xs_sock *s)
{
	uint64_t moved = atomic_load_explicit(&s->tx_twin, memory_order_relaxed) +
			 atomic_load_explicit(&s->rx_twin, memory_order_relaxed);

	if (xs_conf.policy == XS_POLICY_EAGER &&
	    atomic_load_explicit(&s->rx_twin, memory_order_relaxed))
		return true;
	return moved >= xs_conf.after_bytes ||
	       atomic_load_explicit(&s->turns, memory_order_relaxed) >= xs_conf.after_rtts;
}

/* The connecting end: worth it, so ask. Locked. */
static void start(struct xs_sock *s)
{
	enum xs_reason why;

	if (s->pairing != XS_PAIR_NONE || s->pin || s->fd < 0 || !xs_conn_name(s))
		return;
	if (s->pair_at && xs_now_ns() < s->pair_at)
		return;
	s->pair_at = 0;
	why = xs_policy_excluded(s);
	if (!why)
		why = xs_pair_possible((struct sockaddr *)&s->local, (struct sockaddr *)&s->peer);
	if (why) {
		s->tx_why = s->rx_why = why;
		s->pairing = XS_PAIR_NEVER;
		atomic_store_explicit(&s->watching, 0, memory_order_relaxed);
		XS_LOG(INFO, "fd=%d stays on the kernel: %s", s->fd, xs_reason_name(why));
	} else {
		s->tx_why = s->rx_why = XS_R_PAIRING;
		s->pairing = XS_PAIR_ASKING;
		if (xs_pair_ask(s, &s->local, &s->peer) < 0) {
			s->tx_why = s->rx_why = XS_R_NO_MEMORY;
			s->pairing = XS_PAIR_NEVER;
		}
	}
	xs_conn_publish(s);
}

void xs_policy_look(struct xs_sock *s, bool wrote)
{
	uint8_t last = atomic_exchange_explicit(&s->last_was_write, wrote, memory_order_relaxed);
	struct xs_crit cs;
	int saved = errno;

	if (last && !wrote)
		atomic_fetch_add_explicit(&s->turns, 1, memory_order_relaxed);
	if (!worth(s))
		return;
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (s->role == XS_ROLE_CONNECTED)
		start(s);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	errno = saved;
}

void xs_policy_begin(struct xs_sock *s)
{
	bool off =
		xs_conf.mode == XS_MODE_OFF || xs_conf.policy == XS_POLICY_OFF || !xs_conf.planes.n;

	s->tx_why = s->rx_why = off ? XS_R_OFF : XS_R_NEW;
	s->pairing = off ? XS_PAIR_NEVER : XS_PAIR_NONE;
	if (off)
		return;
	atomic_store_explicit(&s->watching, s->role == XS_ROLE_CONNECTED, memory_order_relaxed);
}

/* --- `xshim return` ---------- */

static void return_one(struct xs_sock *s, void *arg)
{
	int fd = *(int *)arg;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if ((fd < 0 || s->fd == fd) && s->named && s->fd >= 0) {
		s->pin = XS_R_OFF;
		s->rx.pinned = true;
		xs_return_tx(s, XS_R_OFF);
		xs_return_rx(s, XS_R_OFF);
		if (!s->chan)
			s->tx_why = s->rx_why = XS_R_OFF;
		xs_conn_publish(s);
	}
	xs_conn_leave(s);
	xs_crit_leave(&cs);
}

void xs_pair_request(int fd)
{
	xs_conn_each(return_one, &fd);
}

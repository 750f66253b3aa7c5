/* SPDX-License-Identifier: MIT */
/*
 * Destinations: one record per carrier and address that connections of ours have asked for (and
 * address of ours, which is what a link of rc proves). It
 * leads to the link that serves the address, or collects the asks until there is one. A refused
 * link is tried a few times more (the listener's rendezvous opens just after its first accept),
 * then the address counts as having no shim for a while.
 */
#include "link/pairing.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 6 /* the peer may still be opening its device: some seconds on a slow machine */
#define FIRST_DELAY_MS 10 /* quadruples */
#define NEG_FIRST (10 * XS_NS_PER_S)
#define NEG_MOST (60 * XS_NS_PER_S)
#define BUCKETS 256
#define NEGS 1024

struct neg {
	struct xs_wire_addr addr;
	unsigned carrier;
	enum xs_reason why;
	uint64_t until, span;
};

static struct xs_dest *dests[BUCKETS];
static struct xs_lock lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct neg negs[NEGS]; /* lock; one place per hash: a newer address takes an older one's */

static uint32_t hash(const struct xs_wire_addr *a, unsigned carrier)
{
	uint32_t h = 2166136261u ^ carrier;

	for (size_t i = 0; i < sizeof(a->ip); i++)
		h = (h ^ a->ip[i]) * 16777619u;
	h = (h ^ a->port) * 16777619u;
	return h ^ h >> 15;
}

static bool same(const struct xs_wire_addr *a, const struct xs_wire_addr *b)
{
	return a->port == b->port && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

/* --- the negative cache ---------------------------------------------------------------------- */
enum xs_reason xs_neg_find(unsigned carrier, const struct xs_wire_addr *peer)
{
	struct neg *n = &negs[hash(peer, carrier) % NEGS];
	enum xs_reason why = XS_R_NONE;

	xs_lock_take(&lock);
	if (n->until && n->carrier == carrier && same(&n->addr, peer) && xs_now_ns() < n->until)
		why = n->why;
	xs_lock_drop(&lock);
	return why;
}

void xs_neg_add(unsigned carrier, const struct xs_wire_addr *peer, enum xs_reason why)
{
	struct neg *n = &negs[hash(peer, carrier) % NEGS];

	xs_lock_take(&lock);
	if (n->carrier != carrier || !same(&n->addr, peer))
		n->span = 0;
	n->span = !n->span ? NEG_FIRST : n->span * 2 < NEG_MOST ? n->span * 2 : NEG_MOST;
	n->addr = *peer;
	n->carrier = carrier;
	n->why = why;
	n->until = xs_now_ns() + n->span;
	xs_lock_drop(&lock);
}

void xs_neg_clear(const struct xs_wire_addr *peer)
{
	xs_lock_take(&lock);
	for (unsigned i = 0; i < NEGS; i++)
		if (negs[i].until && !memcmp(negs[i].addr.ip, peer->ip, sizeof(peer->ip)))
			negs[i].until = negs[i].span = 0;
	xs_lock_drop(&lock);
}

void xs_negs_fork_child(void)
{
	xs_lock_init(&lock, XS_RANK_LEAF);
}

/* --- destinations ---------------------------------------------------------------------------- */
static void try_again(struct xs_timer *t);

static bool same_local(const struct xs_dest *d, const struct xs_ask *a)
{
	struct xs_wire_addr one, two;

	xs_pair_addr(&d->local, &one);
	xs_pair_addr(&a->local, &two);
	return xs_carriers[a->carrier]->proven || !memcmp(one.ip, two.ip, sizeof(one.ip));
}

static struct xs_dest *dest_of(struct xs_ask *a)
{
	struct xs_wire_addr addr;
	struct xs_dest *d, **bucket;

	xs_pair_addr(&a->peer, &addr);
	bucket = &dests[hash(&addr, a->carrier) % BUCKETS];
	for (d = *bucket; d; d = d->next)
		if (d->carrier == a->carrier && same(&d->addr, &addr) && same_local(d, a))
			return d;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->carrier = a->carrier;
	d->addr = addr;
	d->local = a->local;
	d->peer = a->peer;
	d->timer.fn = try_again;
	d->next = *bucket;
	*bucket = d;
	return d;
}

/* All that wait are told; each may come back at once with another carrier. */
static void fail(struct xs_dest *d, enum xs_reason why)
{
	struct xs_ask *a, *next;

	XS_LOG(INFO, "%s: no link to port %u: %s", xs_carriers[d->carrier]->name, d->addr.port,
	       xs_reason_name(why));
	d->tries = 0;
	xs_neg_add(d->carrier, &d->addr, why);
	a = d->asks;
	d->asks = NULL;
	for (; a; a = next) {
		next = a->waiting;
		a->dest = NULL;
		xs_ask_next_carrier(a, why);
	}
}

static void connect_to(struct xs_dest *d)
{
	enum xs_reason why = XS_R_NONE;

	d->link = xs_link_connect(xs_carriers[d->carrier], &d->local, &d->peer, d, &why);
	if (!d->link)
		fail(d, why);
}

static void try_again(struct xs_timer *t)
{
	struct xs_dest *d = (struct xs_dest *)((char *)t - offsetof(struct xs_dest, timer));

	if (!d->link && d->asks)
		connect_to(d);
}

void xs_dest_ask(struct xs_ask *a)
{
	struct xs_dest *d = dest_of(a);

	if (!d) {
		xs_ask_next_carrier(a, XS_R_NO_MEMORY);
		return;
	}
	if (d->link && xs_link_state_of(d->link) == XS_LINK_UP) {
		xs_ask_send(a, d->link);
		return;
	}
	if (d->link && xs_link_state_of(d->link) >= XS_LINK_DYING)
		d->link = NULL;
	a->state = XS_ASK_LINK;
	a->dest = d;
	a->waiting = d->asks;
	d->asks = a;
	if (!d->link && !d->timer.when)
		connect_to(d);
}

void xs_dest_forget_ask(struct xs_ask *a)
{
	struct xs_ask **at;

	if (!a->dest)
		return;
	at = &a->dest->asks;
	while (*at && *at != a)
		at = &(*at)->waiting;
	if (*at)
		*at = a->waiting;
	a->dest = NULL;
}

static void serve(struct xs_dest *d, struct xs_link *l)
{
	struct xs_ask *a = d->asks, *next;

	d->asks = NULL;
	d->tries = 0;
	for (; a; a = next) {
		next = a->waiting;
		a->dest = NULL;
		xs_ask_send(a, l);
	}
}

void xs_dest_link_up(struct xs_link *l)
{
	if (l->dest && l->dest->link == l)
		serve(l->dest, l);
}

void xs_dest_link_moved(struct xs_link *from, struct xs_link *to)
{
	if (!from->dest || from->dest->link != from)
		return;
	from->dest->link = to;
	serve(from->dest, to);
}

/* A link of ours never came to be. */
static void refused(struct xs_dest *d, enum xs_reason why)
{
	bool again = why == XS_R_NO_SHIM || why == XS_R_LINK_LOST || why == XS_R_RETRY;

	if (!d->asks)
		return;
	if (!again || ++d->tries >= TRIES) {
		fail(d, why == XS_R_LINK_LOST ? XS_R_NO_SHIM : why);
		return;
	}
	xs_timer_set(&d->timer,
		     xs_now_ns() + (FIRST_DELAY_MS << 2 * (d->tries - 1)) * XS_NS_PER_MS);
}

void xs_dest_link_gone(struct xs_link *l, bool was_up, enum xs_reason why)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct xs_dest *d = dests[i]; d; d = d->next)
			if (d->link == l) /* l's own, or those that were moved to it */
				d->link = NULL;
	if (!l->dest || l->dest->link)
		return;
	if (!was_up)
		refused(l->dest, why);
	else if (l->dest->asks && !l->dest->timer.when)
		connect_to(l->dest);
}

void xs_dests_fork_child(void)
{
	memset(dests, 0, sizeof(dests));
}

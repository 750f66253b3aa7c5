/* SPDX-License-Identifier: MIT */
/*
 * Links: one per pair of processes, shared by all connections between them.
 *
 * The progress thread makes, moves and ends them; it alone calls the carrier's connect, disconnect
 * and destroy. The polling thread only notes in `due` what the peer has said and lets the progress
 * thread settle it.
 *
 *   connect or incoming -> CONNECTING -> xs_link_up: HELLO is sent -> HELLO -> the peer's HELLO: UP
 *   BYE, a broken rule, our own close -> DYING (disconnect) -> xs_link_down, also without being
 * asked -> DEAD
 *
 * A process learns from HELLO whom it has reached. If an older link to the same process is up, the
 * side that connected moves its asks there and closes the new one; both sides might do so to each
 * other's when they connect at the same time, so an older link counts only if it was up before this
 * one was begun, or if our name is the greater of the two.
 *
 * A peer that never says HELLO, and a link that has had no channel for a minute, are closed. A new
 * link from a process to which an older one is up may mean that the peer has lost the older one,
 * where we, who send nothing, haven't noticed: something is said on it.
 *
 * The end: when the carrier says that nothing is in flight, each channel dies under its
 * connection's lock, and only then the conduit is destroyed: nobody posts to a channel that's dead.
 * A channel lives until its owner closes it, and holds the record.
 */
#include "link/pairing.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/crit.h"
#include "base/log.h"
#include "base/rand.h"
#include "link/trust.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HELLO_NS (10 * XS_NS_PER_S)
#define IDLE_NS (60 * XS_NS_PER_S)

static struct xs_lock lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct xs_link *links, *spare; /* lock */
static uint64_t links_made;	      /* lock */
static uint8_t process[16];
static bool named;

static const struct {
	const char *name;
	unsigned from; /* bits of the states that may come before */
} states[] = {
	[XS_LINK_CONNECTING] = {"connecting", 1u << XS_LINK_DEAD},
	[XS_LINK_HELLO] = {"hello", 1u << XS_LINK_CONNECTING},
	[XS_LINK_UP] = {"up", 1u << XS_LINK_HELLO},
	[XS_LINK_DYING] = {"dying",
			   1u << XS_LINK_CONNECTING | 1u << XS_LINK_HELLO | 1u << XS_LINK_UP},
	[XS_LINK_DEAD] = {"dead", 1u << XS_LINK_CONNECTING | 1u << XS_LINK_HELLO |
					  1u << XS_LINK_UP | 1u << XS_LINK_DYING},
};

static bool xs_link_state(struct xs_link *l, enum xs_link_state to)
{
	int from = xs_link_state_of(l);

	if (!(states[to].from & 1u << from)) {
		XS_LOG(ERROR, "bug: link %llu %s can't become %s", (unsigned long long)l->id,
		       states[from].name, states[to].name);
		return false;
	}
	XS_LOG(DEBUG, "link %llu %s -> %s", (unsigned long long)l->id, states[from].name,
	       states[to].name);
	atomic_store_explicit(&l->state, (int)to, memory_order_release);
	return true;
}

const uint8_t *xs_link_process(void)
{
	if (!named && xs_random(process, sizeof(process)) == 0)
		named = true;
	return process;
}

/* --- records --------------------------------------------------------------------------------- */
static void work_fn(struct xs_work *w)
{
	struct xs_link *l = (struct xs_link *)((char *)w - offsetof(struct xs_link, work));

	xs_link_settle(l);
	if (xs_link_state_of(l) < XS_LINK_DYING)
		xs_link_serve(l);
}

/* The connecting side goes first, or both would. */
static uint64_t idle_ns(const struct xs_link *l)
{
	return l->accepted ? IDLE_NS * 3 / 2 : IDLE_NS;
}

static void timer_fn(struct xs_timer *t)
{
	struct xs_link *l = (struct xs_link *)((char *)t - offsetof(struct xs_link, timer));
	int state = xs_link_state_of(l);
	uint64_t since;

	xs_lock_take(&l->lock);
	since = l->idle_since;
	xs_lock_drop(&l->lock);
	if (state == XS_LINK_HELLO)
		xs_link_close(l, XS_R_NO_SHIM);
	else if (state == XS_LINK_UP && since && xs_now_ns() - since >= idle_ns(l))
		xs_link_close(l, XS_R_LINK_LOST);
	else if (state == XS_LINK_UP && since)
		xs_timer_set(t, since + idle_ns(l));
}

void xs_link_idle(struct xs_link *l)
{
	if (xs_link_state_of(l) == XS_LINK_UP)
		xs_timer_set(&l->timer, xs_now_ns() + idle_ns(l));
}

static struct xs_link *take_record(void)
{
	struct xs_link *l;

	xs_lock_take(&lock);
	l = spare;
	if (l)
		spare = l->next;
	xs_lock_drop(&lock);
	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (l) {
		xs_lock_init(&l->lock, XS_RANK_LEAF);
		l->work.fn = work_fn;
		l->timer.fn = timer_fn;
	}
	return l;
}

/* All but what late upcalls may look at begins anew. */
static void clear(struct xs_link *l)
{
	memset(&l->hello, 0, sizeof(l->hello));
	l->max[0] = l->max[1] = 0;
	l->end = XS_R_NONE;
	l->late = 0;
	l->behind = false;
	l->up_at = l->idle_since = 0;
	atomic_store(&l->due, 0);
	atomic_store(&l->serve_due, false);
	atomic_store(&l->credit_due, false);
	atomic_store(&l->dropped, 0);
	atomic_store(&l->held, 0);
	for (int i = 0; i < XS_LANES; i++) {
		l->granted[i] = l->posted[i] = l->said[i] = 0;
		l->full[i] = false;
		l->entries[i] = 0;
		atomic_store(&l->freed[i], 0);
	}
}

static struct xs_link *new_link(const struct xs_carrier_ops *ops, bool accepted,
				const struct sockaddr_storage *local,
				const struct sockaddr_storage *peer)
{
	struct xs_link *l = take_record();

	if (!l)
		return NULL;
	atomic_store(&l->state, XS_LINK_DEAD);
	xs_lock_take(&l->lock);
	clear(l);
	xs_lock_drop(&l->lock);
	l->ops = ops;
	l->accepted = accepted;
	l->local = *local;
	l->peer = *peer;
	l->dest = NULL;
	l->made_at = xs_now_ns();
	atomic_store(&l->refs, 1);
	xs_link_state(l, XS_LINK_CONNECTING);
	xs_lock_take(&lock);
	l->id = ++links_made;
	l->next = links;
	links = l;
	xs_lock_drop(&lock);
	return l;
}

void xs_link_hold(struct xs_link *l)
{
	atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
}

void xs_link_put(struct xs_link *l)
{
	if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1)
		return;
	xs_lock_take(&lock);
	l->next = spare;
	spare = l;
	xs_lock_drop(&lock);
}

static void unlist(struct xs_link *l)
{
	struct xs_link **at = &links;

	xs_lock_take(&lock);
	while (*at && *at != l)
		at = &(*at)->next;
	if (*at)
		*at = l->next;
	xs_lock_drop(&lock);
}

void xs_link_each(void (*fn)(struct xs_link *l, void *arg), void *arg)
{
	struct xs_link *l, *next;

	for (l = links; l; l = next) { /* only this thread changes the list */
		next = l->next;
		fn(l, arg);
	}
}

unsigned xs_link_count(void)
{
	unsigned n = 0;

	for (struct xs_link *l = links; l; l = l->next)
		n++;
	return n;
}

void xs_links_look(void (*fn)(struct xs_link *l, struct xs_conduit *c, void *arg), void *arg)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_lock_take(&lock);
	for (struct xs_link *l = links; l; l = l->next) {
		struct xs_conduit *c = atomic_load(&l->conduit);

		if (c)
			fn(l, c, arg);
	}
	xs_lock_drop(&lock);
	xs_crit_leave(&cs);
}

/* --- the beginning --------------------------------------------------------------------------- */
struct xs_link *xs_link_connect(const struct xs_carrier_ops *ops,
				const struct sockaddr_storage *local,
				const struct sockaddr_storage *peer, struct xs_dest *dest,
				enum xs_reason *why)
{
	struct xs_link *l = new_link(ops, false, local, peer);
	struct xs_conduit *c = NULL;

	*why = XS_R_NO_MEMORY;
	if (!l)
		return NULL;
	l->dest = dest;
	*why = ops->connect(l, local, peer, &c);
	if (*why) {
		unlist(l);
		xs_link_state(l, XS_LINK_DEAD);
		xs_link_put(l);
		return NULL;
	}
	atomic_store(&l->conduit, c);
	return l;
}

enum xs_reason xs_link_admit(const struct xs_carrier_ops *ops, const struct sockaddr_storage *peer)
{
	if (xs_config()->auth_key_file[0])
		return XS_R_KEY;
	if (ops->proven || xs_trust_allows((const struct sockaddr *)peer))
		return XS_R_NONE;
	XS_LOG(WARN, "%s: a peer isn't trusted", ops->name);
	return XS_R_UNTRUSTED;
}

struct xs_link *xs_link_incoming(const struct xs_carrier_ops *ops, struct xs_conduit *c,
				 const struct sockaddr_storage *peer,
				 const struct sockaddr_storage *local)
{
	struct xs_link *l = new_link(ops, true, local, peer);

	if (l)
		atomic_store(&l->conduit, c);
	return l;
}

void xs_link_up(struct xs_link *l)
{
	struct xs_hello hello = {.version = XS_WIRE_VERSION};
	struct xs_seghdr h = {.kind = XS_K_HELLO, .length = sizeof(hello)};
	uint32_t size[XS_LANES];
	uint64_t seq;

	if (!xs_link_state(l, XS_LINK_HELLO))
		return;
	l->ops->entries(atomic_load(&l->conduit), l->entries, size);
	memcpy(hello.process, xs_link_process(), sizeof(hello.process));
	hello.small_entries = l->entries[XS_LANE_SMALL];
	hello.bulk_entries = l->entries[XS_LANE_BULK];
	hello.small_size = size[XS_LANE_SMALL];
	hello.bulk_size = size[XS_LANE_BULK];
	xs_timer_set(&l->timer, xs_now_ns() + HELLO_NS);
	if (xs_link_post(l, XS_LANE_SMALL, &h, &hello, XS_POST_NOW, &seq))
		xs_link_close(l, XS_R_LINK_LOST);
}

static bool same_ip(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	struct xs_wire_addr one, two;

	xs_pair_addr(a, &one);
	xs_pair_addr(b, &two);
	return !memcmp(one.ip, two.ip, sizeof(one.ip));
}

/* A carrier that doesn't prove the peer's user proves its host: an ask is believed on a link
 * between its own two addresses only (answer.c). Anybody may have heard a process's name: where
 * users are known, the same name is the same process only in the same user's hands. */
static bool same_hosts(const struct xs_link *a, const struct xs_link *b)
{
	if (a->ops->same_user)
		return a->ops->same_user(atomic_load(&a->conduit), atomic_load(&b->conduit));
	return a->ops->proven || (same_ip(&a->local, &b->local) && same_ip(&a->peer, &b->peer));
}

static bool same_process(const struct xs_link *a, const struct xs_link *b)
{
	return a != b && a->ops == b->ops && xs_link_state_of(a) == XS_LINK_UP &&
	       xs_link_state_of(b) == XS_LINK_UP &&
	       !memcmp(a->hello.process, b->hello.process, sizeof(process));
}

/* An older link to the same process that l's asks can move to. */
static struct xs_link *older(struct xs_link *l)
{
	bool greater = memcmp(xs_link_process(), l->hello.process, sizeof(process)) > 0;

	if (l->accepted || !memcmp(xs_link_process(), l->hello.process, sizeof(process)))
		return NULL;
	for (struct xs_link *o = links; o; o = o->next)
		if (same_process(o, l) && same_hosts(o, l) &&
		    (!o->accepted || greater || o->up_at < l->made_at))
			return o;
	return NULL;
}

static void hello_came(struct xs_link *l)
{
	struct xs_link *o;

	if (l->hello.version != XS_WIRE_VERSION) {
		xs_link_close(l, XS_R_VERSION);
		return;
	}
	if (l->hello.small_size <= XS_SEG_HEADER + XS_SAY_MAX ||
	    l->hello.bulk_size <= XS_SEG_HEADER + XS_SAY_MAX || !l->hello.small_entries ||
	    !l->hello.bulk_entries) {
		xs_link_close(l, XS_R_INTERNAL);
		return;
	}
	if (!xs_link_state(l, XS_LINK_UP))
		return;
	l->up_at = xs_now_ns();
	xs_lock_take(&l->lock);
	l->idle_since = l->chans_n ? 0 : l->up_at;
	xs_lock_drop(&l->lock);
	xs_link_idle(l);
	for (o = links; l->accepted && o; o = o->next)
		if (same_process(o, l))
			xs_credit_probe(o);
	XS_LOG(INFO, "link %llu: %s, %s", (unsigned long long)l->id, l->ops->name,
	       l->accepted ? "accepted" : "connected");
	o = older(l);
	if (o) {
		xs_pair_link_moved(l, o);
		xs_link_close(l, XS_R_LINK_LOST);
	} else {
		xs_pair_link_up(l);
	}
}

/* --- the end --------------------------------------------------------------------------------- */
void xs_link_close(struct xs_link *l, enum xs_reason why)
{
	struct xs_seghdr bye = {.kind = XS_K_BYE};
	int was = xs_link_state_of(l);

	if (was >= XS_LINK_DYING)
		return;
	if (was == XS_LINK_UP)
		xs_link_say(l, &bye, NULL);
	l->end = why;
	xs_link_state(l, XS_LINK_DYING);
	l->ops->disconnect(atomic_load(&l->conduit));
}

/* The first channel of l that isn't dead; entered. */
static bool enter_first(struct xs_link *l, struct xs_entered *e)
{
	struct xs_id_key key = {0, 0};
	struct xs_chan *c;

	do {
		xs_lock_take(&l->lock);
		c = l->chans;
		if (c) {
			key = c->key;
			*e = (struct xs_entered){c, c->base.events, c->base.user};
			e->events->hold(e->user);
		}
		xs_lock_drop(&l->lock);
	} while (c && !xs_id_enter_held(key, e));
	return c != NULL;
}

void xs_link_down(struct xs_link *l, enum xs_reason why)
{
	struct xs_conduit *c = atomic_load(&l->conduit);
	int was = xs_link_state_of(l);
	bool was_up = l->up_at != 0;
	struct xs_entered e;

	if (was == XS_LINK_DEAD)
		return;
	if (l->end)
		why = l->end;
	if (!why)
		why = XS_R_LINK_LOST;
	xs_link_state(l, XS_LINK_DEAD);
	XS_LOG(INFO, "link %llu: %s", (unsigned long long)l->id, xs_reason_name(why));
	unlist(l);
	xs_timer_cancel(&l->timer);
	while (enter_first(l, &e)) {
		xs_segchan_die(e.chan, why);
		xs_id_leave(&e);
	}
	xs_link_reap(l, true);
	xs_link_say_forget(l);
	xs_pair_link_gone(l, was_up, why == XS_R_PEER_KILLED ? XS_R_LINK_LOST : why);
	xs_lock_take(&l->lock);
	atomic_store(&l->conduit, NULL);
	xs_lock_drop(&l->lock);
	xs_link_count_gone(l, c);
	l->ops->destroy(c);
	xs_link_put(l);
}

void xs_link_settle(struct xs_link *l)
{
	unsigned due = atomic_exchange(&l->due, 0);
	int state = xs_link_state_of(l);

	if (due & XS_DUE_HELLO && state == XS_LINK_HELLO)
		hello_came(l);
	if (due & XS_DUE_BYE)
		xs_link_close(l, XS_R_LINK_LOST);
	if (due & XS_DUE_BAD)
		xs_link_close(l, XS_R_INTERNAL);
}

int xs_link_post(struct xs_link *l, enum xs_lane lane, const struct xs_seghdr *h,
		 const void *payload, unsigned flags, uint64_t *seq)
{
	struct xs_conduit *c = atomic_load_explicit(&l->conduit, memory_order_acquire);
	int state = xs_link_state_of(l);

	if (!c || (state != XS_LINK_HELLO && state != XS_LINK_UP))
		return -ENOTCONN;
	return l->ops->post(c, lane, h, payload, flags, seq);
}

void xs_links_fork_child(void)
{
	xs_lock_init(&lock, XS_RANK_LEAF);
	links = spare = NULL;
	xs_link_info_fork_child();
	xs_link_poll_fork_child();
	named = false;
}

/* SPDX-License-Identifier: MIT */
/*
 * The connecting end's asks. An ask tries the carriers in their order; where one has a link to the
 * connection's peer, PAIR_ASK goes out with a snapshot of the kernel's counts, and the answer
 * decides. A connection that the peer hasn't accepted yet is asked for again a few times.
 */
#include "link/pairing.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/rand.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 256
#define TRIES 6
#define FIRST_DELAY_MS 5 /* quadruples */
#define COUNTS_MS 5
#define LOST_MS 1000
#define BUSY_MS 20000 /* the peer can't take another link now */
#define ANSWER_MS 10000

static struct xs_ask *asks[BUCKETS];

/* --- records --------------------------------------------------------------------------------- */
static void unlist(struct xs_ask *a)
{
	struct xs_ask **at = &asks[a->nonce % BUCKETS];

	while (*at && *at != a)
		at = &(*at)->next;
	if (*at)
		*at = a->next;
}

static void finish(struct xs_ask *a)
{
	unlist(a);
	xs_dest_forget_ask(a);
	xs_timer_cancel(&a->timer);
	if (a->key.id)
		xs_id_drop(a->key);
	xs_pair_ev->chan->release(a->user);
	free(a);
}

static void refuse(struct xs_ask *a, enum xs_reason why, uint32_t retry_ms)
{
	xs_pair_ev->refused(a->user, why, retry_ms);
	finish(a);
}

static void later(struct xs_ask *a, uint32_t ms)
{
	a->state = XS_ASK_RETRY;
	a->link = NULL;
	xs_timer_set(&a->timer, xs_now_ns() + ms * XS_NS_PER_MS);
}

static void not_accepted(struct xs_ask *a)
{
	if (a->tries < TRIES)
		later(a, FIRST_DELAY_MS << 2 * a->tries++);
	else
		refuse(a, XS_R_NOT_ACCEPTED, 0);
}

/* --- the way to a link ----------------------------------------------------------------------- */
static void try_carriers(struct xs_ask *a)
{
	const struct sockaddr *local = (const struct sockaddr *)&a->local;
	const struct sockaddr *peer = (const struct sockaddr *)&a->peer;
	enum xs_reason why;

	for (; xs_pair_in_order(a->turn, &a->carrier); a->turn++) {
		why = xs_pair_carrier(a->carrier, local, peer);
		if (!why) {
			xs_dest_ask(a);
			return;
		}
		a->why = xs_pair_told(a->why, why);
	}
	refuse(a, a->why, a->why == XS_R_RETRY ? BUSY_MS : 0);
}

static void on_timer(struct xs_timer *t)
{
	struct xs_ask *a = (struct xs_ask *)((char *)t - offsetof(struct xs_ask, timer));

	if (a->state == XS_ASK_RETRY)
		xs_dest_ask(a);
	else if (a->state == XS_ASK_SENT) /* it doesn't answer: a late answer finds nobody */
		refuse(a, XS_R_NO_SHIM, BUSY_MS);
}

void xs_ask_begin(struct xs_ask *a)
{
	a->timer.fn = on_timer;
	a->why = XS_R_RULE;
	if (xs_random(&a->nonce, sizeof(a->nonce)) || xs_random(a->secret, sizeof(a->secret))) {
		refuse(a, XS_R_INTERNAL, 0);
		return;
	}
	a->next = asks[a->nonce % BUCKETS];
	asks[a->nonce % BUCKETS] = a;
	if (xs_config()->auth_key_file[0])
		refuse(a, XS_R_KEY, 0);
	else if (xs_id_take(&a->key))
		refuse(a, XS_R_NO_MEMORY, 0);
	else
		try_carriers(a);
}

void xs_ask_next_carrier(struct xs_ask *a, enum xs_reason why)
{
	a->why = xs_pair_told(a->why, why);
	a->turn++;
	try_carriers(a);
}

/* Nothing is told to a process that isn't the connection's other end. */
static enum xs_reason trust(const struct xs_link *l, const struct xs_pair_ask *ask)
{
	if (!l->ops->owns)
		return XS_R_NONE;
	return l->ops->owns(atomic_load(&l->conduit), &ask->answerer, &ask->asker);
}

void xs_ask_send(struct xs_ask *a, struct xs_link *l)
{
	struct xs_seghdr h = {.kind = XS_K_PAIR_ASK, .length = sizeof(struct xs_pair_ask)};
	struct xs_pair_ask ask = {
		.id = a->key.id, .generation = a->key.generation, .nonce = a->nonce};
	enum xs_reason why;

	xs_pair_addr(&a->local, &ask.asker);
	xs_pair_addr(&a->peer, &ask.answerer);
	why = trust(l, &ask);
	if (why == XS_R_NOT_ACCEPTED) {
		not_accepted(a);
		return;
	}
	if (why) {
		xs_ask_next_carrier(a, why);
		return;
	}
	why = xs_pair_ev->counts(a->user, &ask.proof);
	if (why == XS_R_RETRY && a->tries++ < TRIES) {
		later(a, COUNTS_MS);
		return;
	}
	if (why) {
		refuse(a, why, 0);
		return;
	}
	a->heard = ask.proof.received > 0;
	memcpy(ask.secret, a->secret, sizeof(ask.secret));
	a->state = XS_ASK_SENT;
	a->link = l;
	xs_timer_set(&a->timer, xs_now_ns() + ANSWER_MS * XS_NS_PER_MS);
	xs_link_say(l, &h, &ask);
}

/* --- answers --------------------------------------------------------------------------------- */
static void say_done(struct xs_link *l, const struct xs_pair_answer *an, enum xs_reason why)
{
	struct xs_seghdr h = {.kind = XS_K_PAIR_DONE, .length = sizeof(struct xs_pair_done)};
	struct xs_pair_done done = {
		.id = an->id, .generation = an->generation, .reason = (uint16_t)why};

	xs_link_say(l, &h, &done);
}

/* The peer's counts were taken between our two: it is the same connection if they fit. */
static enum xs_reason proven(struct xs_ask *a, const struct xs_proof *theirs)
{
	struct xs_proof now;
	enum xs_reason why = xs_pair_ev->counts(a->user, &now);

	if (why)
		return why;
	if (theirs->received > now.written || theirs->acked > now.received)
		return XS_R_PROOF;
	return XS_R_NONE;
}

static void paired(struct xs_ask *a, const struct xs_pair_answer *an)
{
	struct xs_id_key peer = {an->id, an->generation};
	enum xs_reason why = proven(a, &an->proof);
	struct xs_link *l = a->link;
	struct xs_chan *c = NULL;

	if (!why) {
		c = xs_segchan_new(l, a->key, peer, xs_pair_ev->chan, a->user, false);
		why = c ? XS_R_NONE : XS_R_NO_MEMORY;
	}
	if (why) {
		say_done(l, an, why == XS_R_RETRY ? XS_R_LINK_LOST : why);
		refuse(a, why, why == XS_R_RETRY ? LOST_MS : 0);
		return;
	}
	a->key.id = 0; /* the channel's now */
	xs_pair_ev->paired(a->user, c, a->secret);
	say_done(l, an, XS_R_NONE);
	finish(a);
}

static struct xs_ask *find(struct xs_link *l, uint64_t nonce)
{
	struct xs_ask *a = asks[nonce % BUCKETS];

	while (a && (a->nonce != nonce || a->state != XS_ASK_SENT || a->link != l))
		a = a->next;
	return a;
}

void xs_ask_answered(struct xs_link *l, const struct xs_pair_answer *an)
{
	struct xs_ask *a = find(l, an->nonce);
	enum xs_reason why = an->reason < XS_R_COUNT ? (enum xs_reason)an->reason : XS_R_INTERNAL;

	if (!a) { /* forgotten meanwhile */
		if (!an->reason)
			say_done(l, an, XS_R_LINK_LOST);
		return;
	}
	if (why == XS_R_NOT_ACCEPTED && a->heard)
		why = XS_R_PREFORK; /* it's another process's that has accepted it */
	if (!why)
		paired(a, an);
	else if (why == XS_R_NOT_ACCEPTED)
		not_accepted(a);
	else if (l->ops->owns && (why == XS_R_UNTRUSTED || why == XS_R_USERNS ||
				  why == XS_R_NO_DIAG || why == XS_R_TUPLE))
		xs_ask_next_carrier(a, why);
	else
		refuse(a, why, xs_reason_class(why) == XS_CLASS_FINAL ? 0 : an->retry_ms);
}

/* --- ends ------------------------------------------------------------------------------------ */
void xs_ask_forget(void *user)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		for (struct xs_ask *a = asks[i]; a; a = a->next) {
			if (a->user != user)
				continue;
			finish(a);
			return;
		}
	}
}

void xs_ask_link_gone(struct xs_link *l, enum xs_reason why)
{
	struct xs_ask *a, *next;

	for (unsigned i = 0; i < BUCKETS; i++) {
		for (a = asks[i]; a; a = next) {
			next = a->next;
			if (a->state == XS_ASK_SENT && a->link == l)
				refuse(a, why, LOST_MS);
		}
	}
}

void xs_asks_fork_child(void)
{
	memset(asks, 0, sizeof(asks));
}

/* SPDX-License-Identifier: MIT */
/*
 * Pairing: finding the shim at the other end of a connection.
 *
 *   asker                                   answerer
 *   PAIR_ASK {tuple, id, secret, counts} ->  finds the connection, compares counts, makes a channel
 *   compares counts, makes a channel     <-  PAIR_ANSWER {id, counts} or a reason
 *   PAIR_DONE                            ->  from here on the answerer's channel speaks
 *
 * The answerer's channel is corked until PAIR_DONE, or any segment of the asker's, has come: before
 * that the asker couldn't tell for whom a segment is. (Both lanes might bring it; messages of the
 * connection follow PAIR_ANSWER on the small lane only after the round trip.)
 *
 * Proof that both ends mean the same TCP connection: what one kernel says is acknowledged, the
 * other must have received; what one has received, the other must have written by now. Each end
 * compares the other's snapshot with counts of its own that it reads later.
 *
 * All of it runs in the progress thread. Calls and messages come through an inbox. Files: ask.c,
 * answer.c, dest.c, listen.c.
 */
#include "link/pairing.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/crit.h"
#include "base/log.h"
#include "link/trust.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_NS (2 * XS_NS_PER_S)
#define FROM_PEERS_MAX 16384 /* an ask that's dropped is asked again in its time */

enum item_kind { ITEM_ASK, ITEM_FORGET, ITEM_LISTEN, ITEM_PEER_ASK, ITEM_PEER_ANSWER };

struct item {
	struct item *next;
	enum item_kind kind;
	void *user;
	struct xs_ask *ask;
	struct sockaddr_storage bound, local;
	struct xs_link *link; /* with a reference */
	union {
		struct xs_pair_ask ask;
		struct xs_pair_answer answer;
	} said;
};

static void work_fn(struct xs_work *w);

const struct xs_pair_events *xs_pair_ev;
static struct xs_lock lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct item *head, **end = &head; /* lock */
static struct xs_work work = {.fn = work_fn};

static struct xs_cond closed;
static _Atomic uint32_t from_peers; /* items in the inbox that came from peers */
static enum xs_reason closing;	    /* lock: all links are to be closed */

void xs_pair_init(const struct xs_pair_events *ev)
{
	xs_pair_ev = ev;
}

bool xs_pair_addr(const struct sockaddr_storage *ss, struct xs_wire_addr *w)
{
	memset(w, 0, sizeof(*w));
	if (!xs_prefix_ip((const struct sockaddr *)ss, w->ip))
		return false;
	w->port = ntohs(ss->ss_family == AF_INET ? ((const struct sockaddr_in *)ss)->sin_port
						 : ((const struct sockaddr_in6 *)ss)->sin6_port);
	return true;
}

/* --- what's possible ------------------------------------------------------------------------- */
static enum xs_reason carrier_possible(unsigned i, const struct sockaddr *local,
				       const struct sockaddr *peer)
{
	const struct xs_carrier_ops *ops = xs_carriers[i];
	enum xs_reason why;

	if (!xs_config_plane((enum xs_conf_plane)ops->plane))
		return XS_R_RULE;
	why = ops->possible(local, peer);
	if (!why && !ops->proven && !xs_trust_allows(peer))
		why = XS_R_UNTRUSTED;
	return why;
}

enum xs_reason xs_pair_carrier(unsigned i, const struct sockaddr *local,
			       const struct sockaddr *peer)
{
	struct sockaddr_storage ss = {.ss_family = 0};
	struct xs_wire_addr w;
	enum xs_reason why = carrier_possible(i, local, peer);

	if (why)
		return why;
	memcpy(&ss, peer,
	       peer->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					  : sizeof(struct sockaddr_in6));
	xs_pair_addr(&ss, &w);
	return xs_neg_find(i, &w);
}

bool xs_pair_in_order(unsigned turn, unsigned *carrier)
{
	const struct xs_conf_planes *p = &xs_config()->planes;

	for (unsigned i = 0; i < p->n; i++)
		for (unsigned c = 0; xs_carriers[c]; c++)
			if ((unsigned)xs_carriers[c]->plane == p->order[i] && !turn--) {
				*carrier = c;
				return true;
			}
	return false;
}

/* Of two carriers' refusals the one that says more: what this machine lacks says nothing where
 * another carrier got further. */
enum xs_reason xs_pair_told(enum xs_reason had, enum xs_reason now)
{
	bool lacks = now == XS_R_NO_LIBRARY || now == XS_R_NO_DEVICE || now == XS_R_NO_ROUTE;

	if (now == XS_R_RULE)
		return had;
	return lacks && had != XS_R_RULE && had != XS_R_NO_ROUTE ? had : now;
}

enum xs_reason xs_pair_possible(const struct sockaddr *local, const struct sockaddr *peer)
{
	enum xs_reason why = XS_R_RULE, one; /* no carrier is among `planes` */

	if (local->sa_family != AF_INET && local->sa_family != AF_INET6)
		return XS_R_NOT_TCP;
	if (xs_config()->auth_key_file[0])
		return XS_R_KEY;
	for (unsigned i = 0; xs_carriers[i]; i++) {
		one = xs_pair_carrier(i, local, peer);
		if (!one)
			return XS_R_NONE;
		why = xs_pair_told(why, one);
	}
	return why;
}

/* --- the inbox ------------------------------------------------------------------------------- */
static void put(struct item *i)
{
	xs_lock_take(&lock);
	i->next = NULL;
	*end = i;
	end = &i->next;
	xs_lock_drop(&lock);
	xs_progress_post(&work);
}

static struct item *get(void)
{
	struct item *i;

	xs_lock_take(&lock);
	i = head;
	if (i) {
		head = i->next;
		if (!head)
			end = &head;
	}
	xs_lock_drop(&lock);
	return i;
}

int xs_pair_ask(void *user, const struct sockaddr_storage *local,
		const struct sockaddr_storage *peer)
{
	struct item *i = calloc(1, sizeof(*i));
	struct xs_ask *a = calloc(1, sizeof(*a));

	if (!i || !a) {
		free(i);
		free(a);
		return -ENOMEM;
	}
	xs_pair_ev->chan->hold(user);
	a->user = user;
	a->local = *local;
	a->peer = *peer;
	i->kind = ITEM_ASK;
	i->ask = a;
	put(i);
	return 0;
}

/* Without memory the ask ends in its own time: paired() and refused() look at the connection. */
void xs_pair_forget(void *user)
{
	struct item *i = calloc(1, sizeof(*i));

	if (!i)
		return;
	i->kind = ITEM_FORGET;
	i->user = user;
	put(i);
}

void xs_pair_listen(const struct sockaddr_storage *bound, const struct sockaddr_storage *local)
{
	struct item *i = calloc(1, sizeof(*i));
	struct xs_crit cs;

	if (!i)
		return;
	i->kind = ITEM_LISTEN;
	i->bound = *bound;
	i->local = *local;
	xs_crit_enter(&cs);
	put(i);
	xs_crit_leave(&cs);
}

/* Polling thread. */
void xs_pair_message(struct xs_link *l, const struct xs_seghdr *h, const void *payload)
{
	bool ask = h->kind == XS_K_PAIR_ASK;
	struct xs_pair_done done;
	struct item *i;

	if (h->kind == XS_K_PAIR_DONE && h->length == sizeof(done)) {
		memcpy(&done, payload, sizeof(done));
		xs_answer_done(l, &done);
		return;
	}
	if (h->length != (ask ? sizeof(i->said.ask) : sizeof(i->said.answer)) ||
	    h->kind == XS_K_PAIR_DONE) {
		xs_link_drop(l);
		return;
	}
	i = atomic_load(&from_peers) < FROM_PEERS_MAX ? calloc(1, sizeof(*i)) : NULL;
	if (!i) {
		xs_link_drop(l);
		return;
	}
	atomic_fetch_add(&from_peers, 1);
	i->kind = ask ? ITEM_PEER_ASK : ITEM_PEER_ANSWER;
	memcpy(&i->said, payload, h->length);
	i->link = l;
	xs_link_hold(l);
	put(i);
}

static void close_one(struct xs_link *l, void *arg)
{
	xs_link_close(l, *(enum xs_reason *)arg);
}

/* All links closed: the devices too. */
static void close_look(void)
{
	enum xs_reason why;

	xs_lock_take(&lock);
	why = closing;
	xs_lock_drop(&lock);
	if (!why)
		return;
	xs_listen_pause();
	xs_link_each(close_one, &why);
	if (xs_link_count())
		return; /* xs_pair_link_gone() comes here again */
	for (unsigned i = 0; xs_carriers[i]; i++)
		if (xs_carriers[i]->close_devices)
			xs_carriers[i]->close_devices();
	xs_lock_take(&lock);
	closing = XS_R_NONE;
	xs_cond_tell(&closed);
	xs_lock_drop(&lock);
}

static void from_peer(struct item *i)
{
	struct xs_link *l = i->link;

	atomic_fetch_sub(&from_peers, 1);
	xs_link_settle(l); /* HELLO came before */
	if (xs_link_state_of(l) == XS_LINK_UP) {
		if (i->kind == ITEM_PEER_ASK)
			xs_answer(l, &i->said.ask);
		else
			xs_ask_answered(l, &i->said.answer);
	}
	xs_link_put(l);
}

static void work_fn(struct xs_work *w)
{
	struct item *i;

	(void)w;
	while ((i = get()) != NULL) {
		switch (i->kind) {
		case ITEM_ASK:
			xs_ask_begin(i->ask);
			break;
		case ITEM_FORGET:
			xs_ask_forget(i->user);
			break;
		case ITEM_LISTEN:
			xs_listen_open(&i->bound, &i->local);
			break;
		default:
			from_peer(i);
		}
		free(i);
	}
	close_look();
}

/* --- from link.c ----------------------------------------------------------------------------- */
void xs_pair_link_up(struct xs_link *l)
{
	xs_dest_link_up(l);
}

void xs_pair_link_moved(struct xs_link *from, struct xs_link *to)
{
	xs_dest_link_moved(from, to);
}

/* A peer's try has failed here: what it was about is one of its connections. */
static void incoming_failed(const struct xs_link *l, enum xs_reason why)
{
	struct xs_wire_addr local, peer;

	xs_pair_addr(&l->local, &local);
	xs_pair_addr(&l->peer, &peer);
	xs_pair_ev->hidden(&local, &peer, why);
}

void xs_pair_link_gone(struct xs_link *l, bool was_up, enum xs_reason why)
{
	if (l->accepted && !was_up && xs_reason_class(why) == XS_CLASS_FINAL)
		incoming_failed(l, why);
	xs_ask_link_gone(l, why);
	xs_dest_link_gone(l, was_up, why);
	xs_progress_post(&work);
}

/* --- closing, fork --------------------------------------------------------------------------- */
void xs_pair_close_all(enum xs_reason why) XS_NO_TSA
{
	uint64_t now = xs_now_ns(), until = now + CLOSE_NS;
	struct xs_crit cs;

	if (!xs_progress_running())
		return;
	xs_crit_enter(&cs);
	xs_lock_take(&lock);
	closing = why;
	xs_lock_drop(&lock);
	xs_progress_post(&work);
	xs_lock_take(&lock);
	for (; closing && now < until; now = xs_now_ns())
		xs_cond_wait(&closed, &lock, until - now);
	xs_lock_drop(&lock);
	xs_crit_leave(&cs);
}

void xs_pair_fork_child(void)
{
	xs_lock_init(&lock, XS_RANK_LEAF);
	closed = (struct xs_cond){0};
	head = NULL;
	end = &head;
	closing = XS_R_NONE;
	atomic_store(&from_peers, 0);
	atomic_store(&work.posted, false); /* a thread was about to post it, maybe */
	for (unsigned i = 0; xs_carriers[i]; i++)
		if (xs_carriers[i]->fork_child)
			xs_carriers[i]->fork_child();
	xs_ids_fork_child();
	xs_links_fork_child();
	xs_asks_fork_child();
	xs_dests_fork_child();
	xs_negs_fork_child();
	xs_listens_fork_child();
	xs_trust_fork_child();
}

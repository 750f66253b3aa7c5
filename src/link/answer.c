/* SPDX-License-Identifier: MIT */
/* The accepting end: answers PAIR_ASK. */
#include "link/pairing.h"

#include "base/config.h"
#include "base/log.h"
#include "link/trust.h"

#include <netinet/in.h>
#include <string.h>

#define RETRY_MS 100 /* the connection hasn't given up its old link yet */
#define COUNTS_MS 5

static void say(struct xs_link *l, const struct xs_pair_ask *ask, enum xs_reason why,
		const struct xs_pair_answer *found)
{
	struct xs_seghdr h = {.kind = XS_K_PAIR_ANSWER, .length = sizeof(struct xs_pair_answer)};
	struct xs_pair_answer an = {
		.nonce = ask->nonce, .asker_id = ask->id, .reason = (uint16_t)why};

	if (!why) {
		an.id = found->id;
		an.generation = found->generation;
		an.proof = found->proof;
	} else if (why == XS_R_RETRY) {
		an.retry_ms = RETRY_MS;
	} else if (why == XS_R_NOT_ACCEPTED) {
		an.retry_ms = COUNTS_MS;
	}
	xs_link_say(l, &h, &an);
}

/* Our kernel's counts were read after the asker's. */
static enum xs_reason proven(void *user, const struct xs_proof *theirs, struct xs_proof *ours)
{
	enum xs_reason why = xs_pair_ev->counts(user, ours);

	if (!why && (theirs->acked > ours->received || theirs->received > ours->written))
		why = XS_R_PROOF;
	return why;
}

/* A carrier that knows the peer's user lets it ask for that user's connections. Another one has
 * proved the address of the link's other end: a host that's trusted can ask for connections of its
 * own, not for those of another one. */
static enum xs_reason trust(const struct xs_link *l, const struct xs_pair_ask *ask)
{
	struct xs_wire_addr proved;

	if (l->ops->owns)
		return l->ops->owns(atomic_load(&l->conduit), &ask->asker, &ask->answerer);
	if (l->ops->proven)
		return XS_R_NONE;
	xs_pair_addr(&l->peer, &proved);
	return !memcmp(proved.ip, ask->asker.ip, sizeof(proved.ip)) &&
			       xs_trust_allows((const struct sockaddr *)&l->peer)
		       ? XS_R_NONE
		       : XS_R_UNTRUSTED;
}

/* Makes the channel and gives it to the connection. */
static enum xs_reason join(struct xs_link *l, const struct xs_pair_ask *ask, void *user,
			   struct xs_pair_answer *an)
{
	struct xs_id_key peer = {ask->id, ask->generation}, key;
	struct xs_entered e;
	struct xs_chan *c;

	if (xs_id_take(&key))
		return XS_R_NO_MEMORY;
	c = xs_segchan_new(l, key, peer, xs_pair_ev->chan, user, true);
	if (!c) {
		xs_id_drop(key);
		return XS_R_NO_MEMORY;
	}
	an->id = key.id;
	an->generation = key.generation;
	xs_pair_ev->paired(user, c, ask->secret);
	if (!xs_id_enter(key, &e, NULL))
		return XS_R_TUPLE; /* it was closed meanwhile */
	xs_id_leave(&e);
	return XS_R_NONE;
}

void xs_answer(struct xs_link *l, const struct xs_pair_ask *ask)
{
	struct xs_pair_answer an = {.nonce = 0};
	enum xs_reason why = XS_R_NONE;
	void *user;

	xs_neg_clear(&ask->asker);
	if (xs_config()->auth_key_file[0])
		why = XS_R_KEY;
	else
		why = trust(l, ask);
	if (why) {
		say(l, ask, why, NULL);
		return;
	}
	user = xs_pair_ev->find(&ask->answerer, &ask->asker, &why);
	if (!user) {
		say(l, ask, why ? why : XS_R_NOT_ACCEPTED, NULL);
		return;
	}
	why = proven(user, &ask->proof, &an.proof);
	if (!why)
		why = join(l, ask, user, &an);
	if (why)
		xs_pair_ev->turned_down(user, why);
	say(l, ask, why, &an);
	xs_pair_ev->chan->release(user);
}

void xs_answer_done(struct xs_link *l, const struct xs_pair_done *done)
{
	struct xs_id_key key = {done->id, done->generation};
	struct xs_entered e;

	if (!xs_id_enter(key, &e, NULL))
		return;
	if (e.chan->link == l && done->reason && e.chan->corked)
		xs_segchan_die(e.chan, done->reason < XS_R_COUNT ? (enum xs_reason)done->reason
								 : XS_R_INTERNAL);
	else if (e.chan->link == l)
		xs_segchan_uncork(e.chan);
	xs_id_leave(&e);
}

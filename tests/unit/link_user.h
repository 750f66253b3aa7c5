/* SPDX-License-Identifier: MIT */
/* An owner of channels for the link's tests: a connection's two ends without kernel or switching.
 */
#ifndef XS_TESTS_UNIT_LINK_USER_H
#define XS_TESTS_UNIT_LINK_USER_H

#include "base/clock.h"
#include "base/config.h"
#include "base/crit.h"
#include "base/lock.h"
#include "check.h"
#include "link/link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define CONNS 6
/* The rendezvous has a name of the machine: runs at the same time must not meet. */
#define PORT (20000 + (unsigned)getpid() % 20000)

struct user {
	struct xs_lock lock;
	struct xs_cond news;
	_Atomic int refs;
	struct sockaddr_storage local, peer;
	int number; /* of the connection; its two ends differ in `side` */
	int side;
	struct xs_chan *chan;
	uint8_t secret[16];
	bool dead, fin;
	int deaths;
	enum xs_reason refused;
	bool want_ack;
	uint64_t acked, consumed, fin_at, total;
	bool skewed; /* its kernel counts don't fit */
};

static struct user users[CONNS][2];

static inline uint8_t byte_at(const struct user *u, int side, uint64_t offset)
{
	return (uint8_t)(offset * 31 + (offset >> 8) * 7 + (uint64_t)u->number * 13 +
			 (uint64_t)side);
}

/* --- the owner's events ---------------------------------------------------------------------- */
static void lock(void *user)
{
	xs_lock_take(&((struct user *)user)->lock);
}

static void unlock(void *user)
{
	xs_lock_drop(&((struct user *)user)->lock);
}

static void hold(void *user)
{
	((struct user *)user)->refs++;
}

static void release(void *user)
{
	((struct user *)user)->refs--;
}

static void message(void *user, const struct xs_msg *m)
{
	struct user *u = user;

	if (m->kind != XS_K_ACK || m->epoch != 1)
		return;
	if (m->offset > u->acked)
		u->acked = m->offset;
	xs_chan_ops(u->chan)->tx_acked(u->chan, u->acked);
	xs_cond_tell(&u->news);
}

static bool segment(void *user, const struct xs_arrival *a)
{
	struct user *u = user;

	if (a->fin) {
		u->fin = true;
		u->fin_at = a->offset;
	}
	if (a->flags & XS_F_WANT_ACK)
		u->want_ack = true;
	return a->epoch == 1;
}

static void news(void *user)
{
	xs_cond_tell(&((struct user *)user)->news);
}

static void dead(void *user, enum xs_reason why)
{
	struct user *u = user;

	(void)why;
	u->dead = true;
	u->deaths++;
	xs_cond_tell(&u->news);
}

static const struct xs_chan_events events = {
	.lock = lock,
	.unlock = unlock,
	.hold = hold,
	.release = release,
	.message = message,
	.segment = segment,
	.arrived = news,
	.room = news,
	.dead = dead,
};

/* --- what pairing asks ----------------------------------------------------------------------- */
static void *find(const struct xs_wire_addr *local, const struct xs_wire_addr *peer,
		  enum xs_reason *why)
{
	static _Atomic int asked;

	*why = XS_R_NONE;
	if (local->port != PORT || peer->port < 1000 || peer->port >= 1000 + CONNS)
		return NULL;
	if (asked++ < 3)
		return NULL; /* not accepted yet */
	hold(&users[peer->port - 1000][1]);
	return &users[peer->port - 1000][1];
}

static enum xs_reason counts(void *user, struct xs_proof *p)
{
	struct user *u = user;

	p->acked = u->skewed ? 30 : 0;
	p->written = 20;
	p->received = 0; /* or somebody would have accepted it already */
	return XS_R_NONE;
}

static void paired(void *user, struct xs_chan *c, const uint8_t *secret)
{
	struct user *u = user;

	lock(u);
	u->chan = c;
	memcpy(u->secret, secret, sizeof(u->secret));
	xs_chan_ops(c)->rx_open(c, 1, 0);
	xs_chan_ops(c)->tx_open(c, 1, 0);
	xs_cond_tell(&u->news);
	unlock(u);
}

static void refused(void *user, enum xs_reason why, uint32_t retry_ms)
{
	struct user *u = user;

	(void)retry_ms;
	lock(u);
	u->refused = why;
	xs_cond_tell(&u->news);
	unlock(u);
}

static void turned_down(void *user, enum xs_reason why)
{
	(void)user;
	(void)why;
}

static void hidden(const struct xs_wire_addr *local, const struct xs_wire_addr *peer,
		   enum xs_reason why)
{
	(void)local;
	(void)peer;
	(void)why;
}

static const struct xs_pair_events pairing = {
	.find = find,
	.counts = counts,
	.paired = paired,
	.refused = refused,
	.turned_down = turned_down,
	.hidden = hidden,
	.chan = &events,
};

static void set_addr(struct sockaddr_storage *ss, unsigned port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ss;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in->sin_port = htons((uint16_t)port);
}

#endif

/* SPDX-License-Identifier: MIT */
/* A carrier that only writes down what is posted, and the peer at its other end, for the tests of
 * channels and links. */
#ifndef XS_TESTS_UNIT_LINK_FAKE_H
#define XS_TESTS_UNIT_LINK_FAKE_H

#include "link_user.h"

#include "engine/pool.h"
#include "link/pairing.h"

#include <errno.h>
#include <stdlib.h>

#define SMALL 8u
#define BULK 4u
#define LOG_MAX 4096

struct xs_conduit {
	int unused;
};

static struct posted {
	struct xs_seghdr h;
	enum xs_lane lane;
	unsigned flags;
	uint8_t payload[XS_SAY_MAX]; /* of the link's own messages */
} out[LOG_MAX];
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER; /* the progress thread posts too */
static _Atomic unsigned out_n;
static unsigned seen, given_back, destroyed, disconnected;
static _Atomic uint64_t lane_posted[XS_LANES], lane_completed[XS_LANES];
static bool queue_full;
static struct xs_conduit conduit;

static void entries(struct xs_conduit *c, uint32_t n[XS_LANES], uint32_t size[XS_LANES])
{
	(void)c;
	n[XS_LANE_SMALL] = SMALL;
	n[XS_LANE_BULK] = BULK;
	size[XS_LANE_SMALL] = 4096;
	size[XS_LANE_BULK] = 65536;
}

static int post(struct xs_conduit *c, enum xs_lane lane, const struct xs_seghdr *h, const void *p,
		unsigned flags, uint64_t *seq)
{
	(void)c;
	if (queue_full)
		return -EAGAIN;
	pthread_mutex_lock(&out_lock);
	if (out_n < LOG_MAX) {
		out[out_n] = (struct posted){*h, lane, flags, {0}};
		if (!h->id && h->length)
			memcpy(out[out_n].payload, p, h->length);
		out_n++;
	}
	*seq = ++lane_posted[lane];
	pthread_mutex_unlock(&out_lock);
	return 0;
}

static uint64_t completed(struct xs_conduit *c, enum xs_lane lane)
{
	(void)c;
	return lane_completed[lane];
}

static void rx_done(struct xs_rxbuf *buf)
{
	given_back++;
	free(buf->payload);
	free(buf);
}

static void disconnect(struct xs_conduit *c)
{
	(void)c;
	disconnected++;
}

static void destroy(struct xs_conduit *c)
{
	(void)c;
	destroyed++;
}

static const struct xs_carrier_ops fake = {
	.name = "test",
	.plane = XS_PLANE_TEST,
	.proven = true,
	.entries = entries,
	.post = post,
	.completed = completed,
	.inline_max = 128,
	.rx_done = rx_done,
	.disconnect = disconnect,
	.destroy = destroy,
};
static struct xs_carrier_ops unproven; /* the same, but it proves the host alone */
const struct xs_carrier_ops *const xs_carriers[] = {&fake, &unproven, NULL};

static struct xs_link *link_;
static struct user *me;

/* --- the peer -------------------------------------------------------------------------------- */
static void peer_says(struct xs_seghdr h, enum xs_lane lane, const void *p, uint32_t n)
{
	struct xs_rxbuf *buf = calloc(1, sizeof(*buf));

	buf->payload = malloc(n + 1);
	buf->length = h.length = n;
	buf->lane = (uint8_t)lane;
	if (n)
		memcpy(buf->payload, p, n);
	if (!xs_link_segment(link_, lane, &h, buf)) {
		free(buf->payload);
		free(buf);
	}
	xs_link_batch_end(link_);
}

static struct xs_seghdr to_me(uint8_t kind, uint64_t offset)
{
	return (struct xs_seghdr){.id = me->chan->key.id,
				  .epoch = 1,
				  .kind = kind,
				  .generation = me->chan->key.generation,
				  .offset = offset};
}

/* The next posted segment that isn't a CREDIT. */
static const struct posted *next(void)
{
	while (seen < out_n && out[seen].h.kind == XS_K_CREDIT)
		seen++;
	return seen < out_n ? &out[seen++] : NULL;
}

static bool nothing_more(void)
{
	return next() == NULL;
}

static void join_by(const struct xs_carrier_ops *ops)
{
	struct xs_hello hello = {.version = XS_WIRE_VERSION,
				 .small_entries = SMALL,
				 .bulk_entries = BULK,
				 .small_size = 4096,
				 .bulk_size = 65536,
				 .process = "peer"};
	struct sockaddr_storage addr;
	const struct posted *p;

	set_addr(&addr, 1);
	out_n = seen = 0;
	link_ = xs_link_incoming(ops, &conduit, &addr, &addr);
	xs_link_up(link_);
	p = next();
	CHECK(p && p->h.kind == XS_K_HELLO && p->h.length == sizeof(hello));
	peer_says((struct xs_seghdr){.kind = XS_K_HELLO}, XS_LANE_SMALL, &hello, sizeof(hello));
	xs_link_settle(link_);
	CHECK_EQ(xs_link_state_of(link_), XS_LINK_UP);
}

static void join_up(void)
{
	join_by(&fake);
}

static void open_channel(void)
{
	struct xs_id_key key, peer = {77, 5};

	me = &users[0][0];
	memset(me, 0, sizeof(*me));
	xs_lock_init(&me->lock, XS_RANK_CONN);
	me->news = (struct xs_cond){0};
	CHECK_EQ(xs_id_take(&key), 0);
	me->chan = xs_segchan_new(link_, key, peer, &events, me, false);
	lock(me);
	xs_chan_ops(me->chan)->tx_open(me->chan, 1, 1000);
	xs_chan_ops(me->chan)->rx_open(me->chan, 1, 0);
	unlock(me);
}

static void close_me(bool reset)
{
	lock(me);
	xs_chan_ops(me->chan)->close(me->chan, reset);
	unlock(me);
}

#endif

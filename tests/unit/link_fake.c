/* SPDX-License-Identifier: MIT */
/*
 * A channel over a carrier that only writes down what is posted, so that every step is seen: flags,
 * lanes, credits, a full send queue, windows, memory, late segments, nonsense from the peer.
 */
#include "link_fake.h"

#include "base/real.h"

static void credit(uint64_t small, uint64_t bulk)
{
	peer_says((struct xs_seghdr){.kind = XS_K_CREDIT, .offset = small, .ack = bulk},
		  XS_LANE_SMALL, NULL, 0);
}

static ssize_t put(size_t n, unsigned flags)
{
	static uint8_t bytes[2u << 20];
	struct iovec iov = {bytes, n};
	ssize_t r;

	lock(me);
	r = xs_chan_ops(me->chan)->tx_put(me->chan, &iov, 1, 0, flags);
	unlock(me);
	return r;
}

static void ack(uint64_t offset)
{
	peer_says(to_me(XS_K_ACK, offset), XS_LANE_SMALL, NULL, 0);
}

/* --- steps ----------------------------------------------------------------------------------- */
static void test_flags(void)
{
	const struct posted *p;

	CHECK_EQ(put(10, XS_F_FIRST), 10);
	p = next();
	CHECK(p && p->lane == XS_LANE_SMALL && p->h.flags == XS_F_FIRST && p->h.offset == 1000 &&
	      p->h.id == 77 && p->h.generation == 5 && p->h.epoch == 1 && p->h.length == 10);
	CHECK_EQ(put(10, XS_F_CONFIRMED), 10);
	p = next();
	CHECK(p && p->h.flags == XS_F_CONFIRMED && p->h.offset == 1010);
	CHECK_EQ(put(5000, 0), 5000); /* in chunks of a quarter of the window */
	p = next();
	CHECK(p && p->lane == XS_LANE_BULK && p->h.length == 4096 && p->h.flags & XS_F_WANT_ACK);
	p = next();
	CHECK(p && p->lane == XS_LANE_SMALL && p->h.length == 904);
	CHECK(nothing_more());
}

static void test_window(void)
{
	size_t room = xs_segtx_room(me->chan), window = me->chan->tx.window;
	struct xs_pool_info pool;
	uint64_t at;

	CHECK_EQ(room, 16384 - 5020);
	CHECK_EQ(put(100000, 0), (ssize_t)room);
	CHECK_EQ(put(1, 0), -EAGAIN);
	while (next())
		;
	for (int i = 0; i < 9; i++) { /* it doubles until the limit */
		at = me->chan->tx.end;
		credit(1000000, 1000000);
		ack(at);
		while (next())
			;
		window = window * 2 < 1 << 20 ? window * 2 : 1 << 20;
		CHECK_EQ(me->chan->tx.window, window);
		CHECK_EQ(put(2 << 20, 0), (ssize_t)window);
	}
	for (int i = 0; i < 40; i++)
		credit(1000000, 1000000);
	CHECK_EQ(me->chan->tx.next, me->chan->tx.end);
	ack(me->chan->tx.end);
	CHECK(me->chan->tx.ring.mem == NULL);
	xs_pool_info(&pool);
	CHECK(pool.used > 0); /* posts still read it */
	lane_completed[0] = atomic_load(&lane_posted[0]);
	lane_completed[1] = atomic_load(&lane_posted[1]);
	xs_link_batch_end(link_);
	xs_pool_info(&pool);
	CHECK_EQ(pool.used, 0);
	while (next())
		;
}

static uint64_t used_credits(enum xs_lane lane)
{
	return link_->granted[lane] - link_->posted[lane];
}

static void test_credits(void)
{
	unsigned n = 0;
	const struct posted *p;

	credit(link_->posted[0] + SMALL, link_->posted[1] + BULK);
	CHECK_EQ(used_credits(XS_LANE_SMALL), SMALL);
	for (unsigned i = 0; i < SMALL + 20; i++)
		CHECK_EQ(put(10, 0), 10);
	while (next())
		n++;
	CHECK_EQ(n, SMALL);
	credit(link_->posted[0] + 1, link_->posted[1] + BULK);
	p = next(); /* what waited goes as one */
	CHECK(p && p->h.length == 200);
	CHECK(nothing_more());
	credit(UINT64_MAX / 2, 0); /* nonsense is bounded by what the peer has */
	CHECK_EQ(used_credits(XS_LANE_SMALL), SMALL);
	queue_full = true;
	CHECK_EQ(put(10, 0), 10);
	CHECK(nothing_more());
	CHECK_EQ(used_credits(XS_LANE_SMALL), SMALL);
	queue_full = false;
	CHECK_EQ(put(10, 0), 10); /* still taken for full */
	CHECK(nothing_more());
	xs_link_ready(link_);
	xs_link_batch_end(link_);
	p = next();
	CHECK(p && p->h.length == 20);
	CHECK(nothing_more());
	ack(me->chan->tx.end);
}

static uint64_t told(uint64_t consumed)
{
	uint64_t r;

	lock(me);
	r = xs_chan_ops(me->chan)->rx_ack(me->chan, 1, consumed);
	unlock(me);
	return r;
}

/* Consumption is told by a segment that is posted, not by one that the send queue refused. */
static void test_told(void)
{
	const struct posted *p;

	CHECK(told(500) < 500);
	queue_full = true;
	CHECK_EQ(put(10, 0), 10);
	CHECK(told(500) < 500);
	queue_full = false;
	xs_link_ready(link_);
	xs_link_batch_end(link_);
	p = next();
	CHECK(p && p->h.ack_epoch == 1 && p->h.ack == 500);
	CHECK_EQ(told(500), 500);
	CHECK(told(501) < 501);
	ack(me->chan->tx.end);
}

/* A CREDIT for each half of a lane's entries that is free again. */
static void test_granting(void)
{
	unsigned before = 0, after = 0;

	for (unsigned i = 0; i < out_n; i++)
		before += out[i].h.kind == XS_K_CREDIT;
	for (unsigned i = 0; i < SMALL; i++)
		ack(me->chan->tx.end);
	for (unsigned i = 0; i < out_n; i++)
		after += out[i].h.kind == XS_K_CREDIT;
	CHECK_EQ(after - before, 2);
	CHECK(nothing_more());
}

static void test_holding(void)
{
	static uint8_t bytes[20000];
	uint64_t at = 0;
	size_t len;

	given_back = 0;
	for (unsigned i = 0; i < BULK + 1; i++, at += sizeof(bytes))
		peer_says(to_me(XS_K_DATA, at), XS_LANE_BULK, bytes, sizeof(bytes));
	CHECK_EQ(atomic_load(&link_->held), BULK / 2);
	lock(me);
	CHECK_EQ(xs_chan_ops(me->chan)->rx_avail(me->chan), at);
	xs_chan_ops(me->chan)->rx_advance(me->chan, 20001);
	CHECK_EQ(given_back, 1);
	xs_chan_ops(me->chan)->rx_close(me->chan, 10);
	CHECK_EQ(xs_chan_ops(me->chan)->rx_avail(me->chan), 10);
	xs_chan_ops(me->chan)->rx_advance(me->chan, 10);
	len = xs_chan_ops(me->chan)->rx_avail(me->chan);
	CHECK_EQ(len, 0);
	unlock(me);
	peer_says(to_me(XS_K_DATA, at), XS_LANE_BULK, bytes, sizeof(bytes)); /* closed: dropped */
	CHECK_EQ(xs_segrx_avail(me->chan), 0);
	lock(me);
	xs_chan_ops(me->chan)->rx_open(me->chan, 1, 0);
	unlock(me);
	CHECK_EQ(given_back, BULK / 2);
	CHECK_EQ(atomic_load(&link_->held), 0);
}

static void test_late(void)
{
	struct xs_seghdr h = to_me(XS_K_DATA, 0), r = to_me(XS_K_RETURN_ME, 5);
	const struct posted *p;

	credit(1000000, 1000000);
	close_me(false);
	peer_says(h, XS_LANE_SMALL, "x", 1);
	CHECK(nothing_more());
	r.epoch = 9;
	peer_says(r, XS_LANE_SMALL, NULL, 0);
	p = next();
	CHECK(p && p->h.kind == XS_K_RETURNED && p->h.epoch == 9 && p->h.id == 77);
	r.flags = XS_F_SWITCHED;
	peer_says(r, XS_LANE_SMALL, NULL, 0);
	CHECK(nothing_more());
	open_channel();
	h = to_me(XS_K_DATA, 0);
	close_me(true);
	peer_says(h, XS_LANE_SMALL, "x", 1);
	peer_says(h, XS_LANE_SMALL, "x", 1);
	p = next();
	CHECK(p && p->h.kind == XS_K_PEER_GONE && p->h.generation == 5);
	CHECK(nothing_more());
	h.generation++;
	peer_says(h, XS_LANE_SMALL, "x", 1);
	h.id = 999999;
	peer_says(h, XS_LANE_SMALL, "x", 1);
	CHECK(nothing_more());
}

static void test_nonsense(void)
{
	struct xs_seghdr h;

	open_channel();
	h = to_me(XS_K_DATA, 50);
	peer_says(h, XS_LANE_SMALL, "abc", 3);
	h.offset = 50 + XS_WINDOW_MAX;
	CHECK(!me->dead);
	peer_says(h, XS_LANE_SMALL, "abc", 3);
	CHECK(me->dead);
	CHECK_EQ(put(1, 0), -ENOTCONN);
	peer_says(h, XS_LANE_SMALL, "abc", 3);
	h.kind = 99;
	peer_says(h, XS_LANE_SMALL, NULL, 0);
	close_me(false);
	CHECK_EQ(me->deaths, 1);
	CHECK_EQ(xs_link_state_of(link_), XS_LINK_UP);
}

static void test_messages(void)
{
	struct xs_msg m = {.kind = XS_K_FLUSHED, .epoch = 3};
	const struct xs_chan_ops *ops;
	const struct posted *p;

	open_channel();
	ops = xs_chan_ops(me->chan);
	while (used_credits(XS_LANE_SMALL))
		put(1, 0);
	while (next())
		;
	lock(me);
	ops->send(me->chan, &m);
	m.epoch = 4;
	ops->send(me->chan, &m);
	CHECK(!ops->sent(me->chan, XS_K_FLUSHED));
	ops->tx_fin(me->chan, 0);
	unlock(me);
	CHECK(nothing_more());
	credit(1000000, 1000000);
	p = next();
	CHECK(p && p->h.kind == XS_K_FLUSHED && p->h.epoch == 4 && p->flags & XS_POST_SIGNAL);
	p = next();
	CHECK(p && p->h.kind == XS_K_FIN && p->h.offset == me->chan->tx.end);
	CHECK(!ops->sent(me->chan, XS_K_FLUSHED));
	lane_completed[0] = atomic_load(&lane_posted[0]);
	CHECK(ops->sent(me->chan, XS_K_FLUSHED));
}

int main(void)
{
	struct xs_pool_info pool;
	struct xs_crit cs;

	xs_real_init();
	xs_config_load();
	xs_pair_init(&pairing);
	set_addr(&users[0][0].local, 1);
	xs_crit_enter(&cs);
	join_up();
	open_channel();
	test_flags();
	test_window();
	test_credits();
	test_told();
	test_granting();
	test_holding();
	test_late();
	test_nonsense();
	test_messages();
	put(5000, 0);
	xs_link_down(link_, XS_R_LINK_LOST);
	CHECK_EQ(me->deaths, 1);
	CHECK_EQ(destroyed, 1);
	CHECK_EQ(disconnected, 0);
	lock(me);
	CHECK_EQ(xs_chan_ops(me->chan)->send(me->chan, &(struct xs_msg){.kind = XS_K_ACK}),
		 -ENOTCONN);
	xs_chan_ops(me->chan)->close(me->chan, false);
	unlock(me);
	xs_pool_info(&pool);
	CHECK_EQ(pool.used, 0);
	CHECK_EQ(me->refs, 0);
	xs_crit_leave(&cs);
	return check_done();
}

/* SPDX-License-Identifier: MIT */
/* What the twin says to a reader: a real connection, and a channel that holds what we say it does.
 */
#include "base/crit.h"
#include "base/real.h"
#include "check.h"
#include "sock/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <unistd.h>

static size_t held; /* by the channel, at the consumption */

static size_t rx_avail(struct xs_chan *c)
{
	(void)c;
	return held;
}

static void rx_close(struct xs_chan *c, size_t keep)
{
	(void)c;
	held = keep;
}

static void idle(struct xs_chan *c)
{
	(void)c;
}

static const struct xs_chan_ops ops = {
	.name = "fake", .rx_avail = rx_avail, .rx_close = rx_close, .idle = idle};
static struct xs_chan_base chan = {.ops = &ops};

struct case_ {
	struct xs_sock *s;
	int peer;
	struct xs_return_frame frame;
};

static int dial(int *peer)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK_EQ(bind(l, (struct sockaddr *)&a, n), 0);
	CHECK_EQ(listen(l, 1), 0);
	CHECK_EQ(getsockname(l, (struct sockaddr *)&a, &n), 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&a, n), 0);
	*peer = accept(l, NULL, NULL);
	CHECK(*peer >= 0);
	close(l);
	return fd;
}

/* A stream whose reader stands at C = 1000 on the plane, with X = 0; all but `place` consumed. */
static struct case_ begin(bool confirmed, size_t place)
{
	struct case_ c;
	int fd = dial(&c.peer);

	c.s = xs_conn_new(fd, AF_INET, XS_ROLE_CONNECTED);
	c.s->chan = (struct xs_chan *)&chan;
	memset(c.s->secret, 7, sizeof(c.s->secret));
	c.s->rx = (struct xs_r){.state = XS_R_PLANE,
				.epoch = 1,
				.c = 1000,
				.x_known = true,
				.confirmed = confirmed,
				.linked = true};
	held = place;
	c.frame = (struct xs_return_frame){.epoch = 1, .kept = 500, .a = 900};
	memset(c.frame.secret, 7, sizeof(c.frame.secret));
	return c;
}

static void put(struct case_ *c, const void *bytes, size_t n)
{
	CHECK_EQ(write(c->peer, bytes, n), n);
}

static void end(struct case_ *c)
{
	struct pollfd p = {.fd = c->s->fd, .events = POLLRDHUP};

	CHECK_EQ(shutdown(c->peer, SHUT_WR), 0);
	CHECK_EQ(poll(&p, 1, -1), 1);
}

/* Waits until the twin has n bytes more than it had. */
static void arrive(struct case_ *c, uint32_t n)
{
	struct pollfd p = {.fd = c->s->fd, .events = POLLIN};

	do
		CHECK_EQ(poll(&p, 1, -1), 1);
	while (xs_twin_unread(c->s->fd) < n);
}

static bool look(struct case_ *c)
{
	struct xs_crit cs;
	bool r;

	xs_crit_enter(&cs);
	xs_conn_enter(c->s);
	r = xs_rx_look(c->s);
	xs_lock_drop(&c->s->lock);
	xs_crit_leave(&cs);
	return r;
}

static size_t readable(struct case_ *c)
{
	struct xs_crit cs;
	size_t n;

	xs_crit_enter(&cs);
	xs_conn_enter(c->s);
	n = xs_rx_readable(c->s);
	xs_lock_drop(&c->s->lock);
	xs_crit_leave(&cs);
	return n;
}

static void half_a_frame(void)
{
	struct case_ c = begin(true, 0);

	put(&c, &c.frame, 12);
	arrive(&c, 12);
	CHECK(!look(&c)); /* the rest may come */
	CHECK_EQ(c.s->rx.state, XS_R_PLANE);
	put(&c, (char *)&c.frame + 12, sizeof(c.frame) - 12);
	arrive(&c, sizeof(c.frame));
	CHECK(look(&c));
	CHECK_EQ(c.s->rx.state, XS_R_KERN);
	CHECK_EQ(c.s->rx.t, 900);
	close(c.peer);
}

static void half_a_frame_and_no_more(void)
{
	struct case_ c = begin(true, 0), d = begin(false, 0);

	put(&c, &c.frame, 12);
	end(&c);
	CHECK(look(&c)); /* killed: after CONFIRMED nothing but a frame can be there */
	CHECK_EQ(c.s->error, ECONNRESET);
	CHECK_EQ(c.s->rx_why, XS_R_PEER_KILLED);
	put(&d, &d.frame, 12);
	end(&d);
	CHECK(look(&d)); /* the program's own bytes, by chance the same */
	CHECK_EQ(d.s->error, 0);
	CHECK_EQ(d.s->rx.state, XS_R_KERN);
	close(c.peer);
	close(d.peer);
}

static void announced_once(void)
{
	static const char bytes[500];
	struct case_ c = begin(true, 50);

	put(&c, &c.frame, sizeof(c.frame));
	put(&c, bytes, 120); /* [900, 1020): a hundred repeats, and of the 50 copies 20 */
	arrive(&c, sizeof(c.frame) + 120);
	CHECK(look(&c));
	CHECK_EQ(readable(&c), 50);
	put(&c, bytes, 380); /* [1020, 1400) */
	arrive(&c, 20 + 380);
	CHECK_EQ(readable(&c), 400);
	CHECK_EQ(c.s->rx.t, 1000);
	close(c.peer);
}

static void bare_end(void)
{
	struct case_ c = begin(true, 0), d = begin(true, 0);

	c.s->rx.fin = d.s->rx.fin = c.s->rx.final = d.s->rx.final = 1000;
	c.s->rx.fin_known = d.s->rx.fin_known = c.s->rx.final_known = d.s->rx.final_known = true;
	d.s->rx.asked = true;
	end(&c);
	end(&d);
	CHECK(!look(&c));
	CHECK_EQ(c.s->rx.state, XS_R_PLANE);
	CHECK(look(&d)); /* somebody waits for its return */
	CHECK_EQ(d.s->rx.state, XS_R_KERN);
	CHECK(c.s->eof && d.s->eof);
	close(c.peer);
	close(d.peer);
}

int main(void)
{
	xs_real_init();
	half_a_frame();
	half_a_frame_and_no_more();
	announced_once();
	bare_end();
	return check_done();
}

/* SPDX-License-Identifier: MIT */
/* Posting, sending when due, receiving. */
#include "testplane.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rawsys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MOST_AT_ONCE 32

/* --- sending; the lane's lock is held -------------------------------------------------------- */
static long write_one(struct tp_lane *l, struct tp_request *q)
{
	struct iovec iov[2] = {
		{&q->h, sizeof(q->h)},
		{(void *)(uintptr_t)(q->payload ? q->payload : q->copy), q->h.length}};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};

	return xs_sys(__NR_sendmsg, l->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void set_blocked(struct tp_lane *l, bool on)
{
	if (atomic_exchange(&l->blocked, on) == on)
		return;
	tp_want_out(l, on);
}

/* Sends what's due. */
static void flush(struct tp_lane *l)
{
	uint64_t now = xs_now_ns(), done = atomic_load(&l->completed);

	while (!l->closed && done < l->posted) {
		struct tp_request *q = &l->queue[done % TP_DEPTH];
		uint64_t frozen = atomic_load(&l->c->frozen_until);
		long r;

		if (q->due < frozen)
			q->due = frozen;
		if (q->due > now) {
			xs_timer_set(&l->timer, q->due);
			break;
		}
		r = write_one(l, q);
		if (r == -EAGAIN) {
			set_blocked(l, true);
			break;
		}
		if (r == -EPIPE || r == -ECONNRESET)
			break; /* the peer has gone: what it sent before is read first */
		if (r < 0 || tp_counted(l->c)) {
			tp_conduit_fail(l->c);
			break;
		}
		atomic_store(&l->completed, ++done);
	}
	if (done == l->posted)
		set_blocked(l, false);
	if (l->starved && l->posted - done < TP_DEPTH / 2) {
		l->starved = false;
		xs_link_ready(l->c->link);
	}
}

void tp_lane_timer(struct xs_timer *t)
{
	struct tp_lane *l = (struct tp_lane *)((char *)t - offsetof(struct tp_lane, timer));

	xs_lock_take(&l->lock);
	flush(l);
	xs_lock_drop(&l->lock);
}

static int post_locked(struct tp_lane *l, const struct xs_seghdr *h, const void *payload,
		       uint64_t *seq)
{
	struct tp_request *q = &l->queue[l->posted % TP_DEPTH];
	uint64_t due;

	if (l->closed || atomic_load(&l->c->failed))
		return -ENOTCONN;
	if (l->posted - atomic_load(&l->completed) == TP_DEPTH) {
		l->starved = true;
		return -EAGAIN;
	}
	q->h = *h;
	q->payload = h->length > TP_INLINE ? payload : NULL;
	if (h->length && !q->payload)
		memcpy(q->copy, payload, h->length);
	due = tp_due(l->c, xs_now_ns());
	q->due = due > l->last_due ? due : l->last_due;
	l->last_due = q->due;
	*seq = ++l->posted;
	if (!atomic_load(&l->blocked))
		flush(l);
	return 0;
}

int tp_post(struct xs_conduit *c, enum xs_lane lane, const struct xs_seghdr *h, const void *payload,
	    unsigned flags, uint64_t *seq)
{
	struct tp_lane *l = &c->lane[lane];
	int r;

	(void)flags;
	if (!atomic_load(&c->up))
		return -ENOTCONN;
	xs_lock_take(&l->lock);
	r = post_locked(l, h, payload, seq);
	xs_lock_drop(&l->lock);
	return r;
}

/* What's queued is never sent. */
void tp_lane_close(struct tp_lane *l)
{
	xs_lock_take(&l->lock);
	l->closed = true;
	atomic_store(&l->completed, l->posted);
	xs_lock_drop(&l->lock);
	xs_timer_cancel(&l->timer);
}

/* --- receiving; the conduit's poll lock is held ---------------------------------------------- */
void tp_rx_done(struct xs_rxbuf *buf)
{
	struct tp_rx *rx = (struct tp_rx *)((char *)buf - offsetof(struct tp_rx, buf));
	struct xs_conduit *c = buf->conduit;

	atomic_fetch_add(&c->lane[buf->lane].entries, 1);
	free(rx);
	tp_conduit_drop(c);
}

static struct tp_rx *make(struct xs_conduit *c, int lane, const uint8_t *packet, size_t n)
{
	struct tp_rx *rx = malloc(sizeof(*rx) + n);

	if (!rx)
		abort();
	memcpy(&rx->h, packet, sizeof(rx->h));
	memcpy(rx->mem, packet + sizeof(rx->h), n - sizeof(rx->h));
	rx->buf = (struct xs_rxbuf){rx->mem, (uint32_t)(n - sizeof(rx->h)), (uint8_t)lane, c};
	tp_conduit_hold(c);
	return rx;
}

static void deliver(struct xs_conduit *c, struct tp_rx *rx)
{
	struct tp_lane *l = &c->lane[rx->buf.lane];
	struct xs_seghdr h = rx->h;

	if (atomic_fetch_sub(&l->entries, 1) <= 0) {
		XS_LOG(ERROR, "bug: test plane: lane %d had no entry (rnr)", (int)l->lane);
		atomic_fetch_add(&c->rnr, 1);
		tp_conduit_fail(c);
	}
	if (!xs_link_segment(c->link, l->lane, &h, &rx->buf))
		tp_rx_done(&rx->buf);
}

/* The copy gets an entry of its own, which the peer will be granted. */
static void remember(struct xs_conduit *c, int lane, const uint8_t *packet, size_t n)
{
	struct tp_rx *rx;

	if (c->again || packet[offsetof(struct xs_seghdr, kind)] != XS_K_DATA ||
	    tp_random(100) >= tp_faults.dup)
		return;
	rx = make(c, lane, packet, n);
	atomic_fetch_add(&c->lane[lane].entries, 1);
	c->again = rx;
}

static bool receive_one(struct xs_conduit *c, int lane)
{
	uint8_t *packet = c->packet;
	long n;

	/* A peer that went with something unread is told of once, in front of what it had sent. */
	do
		n = xs_sys(__NR_recvfrom, c->lane[lane].fd, packet, sizeof(c->packet), MSG_DONTWAIT,
			   NULL, NULL);
	while (n == -ECONNRESET);
	if (n == -EAGAIN || n == -EINTR)
		return false;
	if (n < (long)sizeof(struct xs_seghdr)) { /* the end, or nonsense */
		c->ended = true;
		return false;
	}
	remember(c, lane, packet, (size_t)n);
	deliver(c, make(c, lane, packet, (size_t)n));
	return true;
}

/* What has completed at the peer is here: no end of one lane may be quicker than the other's last
 * segments. */
static void last_ones(struct xs_conduit *c)
{
	for (int i = 0; i < XS_LANES; i++)
		while (!atomic_load(&c->failed) && receive_one(c, i))
			;
	tp_conduit_fail(c);
}

void tp_receive(struct xs_conduit *c)
{
	struct tp_rx *again = c->again;
	int n = 0;

	for (int i = 0; i < XS_LANES; i++) {
		struct tp_lane *l = &c->lane[i];

		for (int k = 0; k < MOST_AT_ONCE && !atomic_load(&c->failed); k++, n++)
			if (!receive_one(c, i))
				break;
		if (!atomic_load(&l->blocked))
			continue;
		xs_lock_take(&l->lock);
		flush(l);
		xs_lock_drop(&l->lock);
	}
	if (again) {
		c->again = NULL;
		deliver(c, again);
	}
	if (c->ended)
		last_ones(c);
	xs_link_batch_end(c->link);
}

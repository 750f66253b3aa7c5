/* SPDX-License-Identifier: MIT */
/*
 * The data path of the shm carrier: posting, polling, waking.
 *
 * Both lanes go through the one ring. A segment of the small lane lies in its slot; one of the bulk
 * lane in a chunk, which is filled before the ring's lock is taken for good, so that no message
 * waits behind the copy.
 *
 * What's posted is in the other process's hands at once, whatever becomes of us: every post is
 * completed when it returns.
 *
 * A process with several links has several pollers, each with its own armed word and its own
 * socket: what peers share they could spoil for each other.
 */
#include "base/log.h"
#include "base/rawsys.h"
#include "link/shm/shm.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define BATCH 64

static struct xs_conduit *of(struct xs_poller *p)
{
	return (struct xs_conduit *)((char *)p - offsetof(struct xs_conduit, poller));
}

/* --- sending ---------------------------------------------------------------------------------- */
/* What the socket says of the other end; an error of our own, no memory say, proves nothing. */
static enum xs_reason ended(long r)
{
	return r == 0 || r == -EPIPE || r == -ECONNRESET ? XS_R_PEER_KILLED : XS_R_LINK_LOST;
}

/* A socket that's full holds a wake that hasn't been read. */
static void wake(struct xs_conduit *c)
{
	long r = xs_sys(__NR_sendto, c->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);

	atomic_fetch_add_explicit(&c->wakes, 1, memory_order_relaxed);
	if (r < 0 && r != -EAGAIN)
		xs_shm_fail(c, ended(r));
}

/* The peer has granted what it doesn't have. */
static int overrun(struct xs_conduit *c)
{
	XS_LOG(WARN, "shm: a peer's memory is full");
	xs_shm_fail(c, XS_R_INTERNAL);
	return -ENOTCONN;
}

static int take_chunk(struct xs_conduit *c)
{
	int chunk = -1;
	bool closed;

	xs_lock_take(&c->lock);
	closed = c->closed;
	if (!closed)
		chunk = xs_shm_out_chunk(&c->out);
	xs_lock_drop(&c->lock);
	return chunk >= 0 ? chunk : closed ? -ENOTCONN : overrun(c);
}

int xs_shm_post(struct xs_conduit *c, enum xs_lane lane, const struct xs_seghdr *h,
		const void *payload, unsigned flags, uint64_t *seq)
{
	bool room = false, closed, sleeps = false;
	int chunk = -1;

	(void)flags;
	if (xs_shm_state_of(c) != XS_SHM_UP)
		return -ENOTCONN;
	if (lane == XS_LANE_BULK) {
		chunk = take_chunk(c);
		if (chunk < 0)
			return chunk;
		memcpy(c->out.d->chunk[chunk], payload, h->length);
	}
	xs_lock_take(&c->lock);
	closed = c->closed;
	room = !closed && xs_shm_out_room(&c->out);
	if (room) {
		sleeps = xs_shm_out_put(&c->out, h, payload, chunk);
		*seq = ++c->posted;
		atomic_store_explicit(&c->posts, c->posted, memory_order_relaxed);
	}
	xs_lock_drop(&c->lock);
	if (sleeps)
		wake(c);
	if (room && atomic_load_explicit(&c->out.d->left, memory_order_relaxed))
		xs_shm_fail(c, XS_R_LINK_LOST);
	return room ? 0 : closed ? -ENOTCONN : overrun(c);
}

void xs_shm_close_lane(struct xs_conduit *c)
{
	xs_lock_take(&c->lock);
	c->closed = true;
	xs_lock_drop(&c->lock);
}

/* --- receiving; the polling thread ------------------------------------------------------------ */
static void bad(struct xs_conduit *c)
{
	XS_LOG(WARN, "shm: a peer's memory holds nonsense");
	xs_shm_fail(c, XS_R_INTERNAL);
}

/* The payload stays where it is while the link looks at it; a chunk for as long as it's held. */
static bool deliver(struct xs_conduit *c, const struct xs_shm_got *got)
{
	struct xs_rxbuf small = {got->payload, got->h.length, XS_LANE_SMALL, c};
	struct xs_shm_rx *rx;

	if (got->chunk < 0) {
		xs_link_segment(c->link, XS_LANE_SMALL, &got->h, &small);
		return true;
	}
	rx = &c->rx[got->chunk];
	if (atomic_load_explicit(&rx->held, memory_order_acquire))
		return false;
	atomic_store_explicit(&rx->held, true, memory_order_relaxed);
	rx->buf = (struct xs_rxbuf){got->payload, got->h.length, XS_LANE_BULK, c};
	rx->use = got->use;
	xs_shm_conduit_hold(c);
	if (!xs_link_segment(c->link, XS_LANE_BULK, &got->h, &rx->buf))
		xs_shm_rx_done(&rx->buf);
	return true;
}

static bool receive_one(struct xs_conduit *c)
{
	struct xs_shm_got got;
	enum xs_shm_look look = xs_shm_in_look(&c->in, &got);

	if (look == XS_SHM_NONE)
		return false;
	if (look == XS_SHM_BAD || !deliver(c, &got)) {
		bad(c);
		return false;
	}
	xs_shm_in_next(&c->in);
	return true;
}

static int receive(struct xs_conduit *c, int most)
{
	int n = 0;

	while (n < most && receive_one(c))
		n++;
	if (n)
		xs_link_batch_end(c->link);
	return n;
}

int xs_shm_poll(struct xs_poller *p)
{
	return receive(of(p), BATCH);
}

/* A peer that's still alive can't keep us here. */
void xs_shm_drain(struct xs_conduit *c)
{
	receive(c, (int)XS_SHM_SLOTS);
}

/* One wake is read, or the end. False: there's none yet. */
static bool take_wake(struct xs_conduit *c)
{
	char byte[8];
	long r = xs_sys(__NR_recvfrom, c->fd, byte, sizeof(byte), MSG_DONTWAIT, NULL, NULL);

	if (r == 0 || (r < 0 && r != -EAGAIN && r != -EINTR))
		xs_shm_fail(c, ended(r));
	if (r > 0 && c->owed)
		c->owed--;
	return r > 0;
}

/* The peer has woken us since we armed. None of its wakes is left for good: who waits for edges
 * only would never see a queue that's full. */
static void count_wake(struct xs_conduit *c)
{
	if (!c->told || xs_shm_in_armed(&c->in))
		return;
	c->told = false;
	c->owed++;
}

void xs_shm_arm(struct xs_poller *p)
{
	struct xs_conduit *c = of(p);

	count_wake(c);
	if (c->told)
		return;
	while (c->owed && take_wake(c))
		;
	xs_shm_in_arm(&c->in);
	c->told = true;
}

void xs_shm_disarm(struct xs_poller *p)
{
	struct xs_conduit *c = of(p);

	count_wake(c);
	while (take_wake(c) && c->owed)
		;
}

/* --- held chunks come back; any thread -------------------------------------------------------- */
void xs_shm_rx_done(struct xs_rxbuf *buf)
{
	struct xs_shm_rx *rx = (struct xs_shm_rx *)((char *)buf - offsetof(struct xs_shm_rx, buf));
	struct xs_conduit *c = buf->conduit;
	int chunk = (int)(rx - c->rx);
	uint16_t use = rx->use;

	atomic_store_explicit(&rx->held, false, memory_order_release);
	xs_shm_in_done(c->in.d, chunk, use);
	xs_shm_conduit_drop(c);
}

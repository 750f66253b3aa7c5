/* SPDX-License-Identifier: MIT */
/*
 * Entry credits: a segment eats one receive entry of its lane at the peer, so none is posted beyond
 * what the peer has granted.
 *
 * Counters are absolute. A peer starts with the entries that our HELLO named; each entry that's
 * free again grants one more. CREDIT tells both totals as soon as half of one lane's grant has
 * come free since the last CREDIT. It needs no credit itself: the peer can have at most two unread
 * ones per lane (a third would tell of entries that it can't have used without having read the
 * first), and the carrier keeps entries for those. HELLO comes before any of them.
 *
 * Who finds no credit, or a full send queue, waits in a queue per lane. New credits, or
 * xs_link_ready(), serve the queues: the link's own messages first, then the small lane, then bulk;
 * one channel after the other, some segments each, so that a large writer can't keep others
 * waiting. Nobody overtakes them.
 *
 * Nothing is lost: a channel is put into the queue under the lock under which credits are added,
 * and after a full send queue only if no room was reported since.
 */
#include "link/linkage.h"

#include <errno.h>

/* --- what a killed process would leave behind; the link's lock is held -------------------------
 */
static void tell_behind(struct xs_link *l)
{
	struct xs_conduit *c = atomic_load_explicit(&l->conduit, memory_order_relaxed);
	bool behind = l->late || l->wait_head[XS_LANE_SMALL] || l->wait_head[XS_LANE_BULK];

	if (behind == l->behind || !c || !l->ops->behind)
		return;
	l->behind = behind;
	l->ops->behind(c, behind);
}

void xs_credit_late(struct xs_link *l, int more)
{
	xs_lock_take(&l->lock);
	l->late += (uint32_t)more;
	tell_behind(l);
	xs_lock_drop(&l->lock);
}

/* --- queues; the link's lock is held --------------------------------------------------------- */
static void enqueue(struct xs_link *l, enum xs_lane lane, struct xs_chan *c)
{
	if (!c || c->waits[lane])
		return;
	c->waits[lane] = true;
	c->wait_next[lane] = NULL;
	if (l->wait_tail[lane])
		l->wait_tail[lane]->wait_next[lane] = c;
	else
		l->wait_head[lane] = c;
	l->wait_tail[lane] = c;
	tell_behind(l);
}

static void dequeue(struct xs_link *l, enum xs_lane lane, struct xs_chan *c)
{
	struct xs_chan **at = &l->wait_head[lane], *before = NULL;

	if (!c->waits[lane])
		return;
	for (; *at != c; at = &(*at)->wait_next[lane])
		before = *at;
	*at = c->wait_next[lane];
	if (l->wait_tail[lane] == c)
		l->wait_tail[lane] = before;
	c->waits[lane] = false;
}

/* --- sending --------------------------------------------------------------------------------- */
bool xs_credit_take(struct xs_link *l, enum xs_lane lane, struct xs_chan *c, bool served)
{
	bool ok;

	xs_lock_take(&l->lock);
	ok = l->posted[lane] < l->granted[lane] && !l->full[lane] &&
	     (served || !l->wait_head[lane]);
	if (ok)
		l->posted[lane]++;
	else
		enqueue(l, lane, c);
	xs_lock_drop(&l->lock);
	return ok;
}

void xs_credit_untake(struct xs_link *l, enum xs_lane lane)
{
	xs_lock_take(&l->lock);
	l->posted[lane]--;
	xs_lock_drop(&l->lock);
}

void xs_credit_wait(struct xs_link *l, enum xs_lane lane, struct xs_chan *c)
{
	xs_lock_take(&l->lock);
	enqueue(l, lane, c);
	xs_lock_drop(&l->lock);
}

void xs_credit_full(struct xs_link *l, enum xs_lane lane, struct xs_chan *c, uint64_t rooms)
{
	bool still;

	xs_lock_take(&l->lock);
	enqueue(l, lane, c);
	still = atomic_load(&l->room_count) == rooms;
	if (still)
		l->full[lane] = true;
	xs_lock_drop(&l->lock);
	if (!still)
		xs_link_kick(l);
}

void xs_credit_forget(struct xs_link *l, struct xs_chan *c)
{
	xs_lock_take(&l->lock);
	for (int i = 0; i < XS_LANES; i++)
		dequeue(l, (enum xs_lane)i, c);
	tell_behind(l);
	xs_lock_drop(&l->lock);
}

static void raise_grant(struct xs_link *l, enum xs_lane lane, uint64_t total, uint32_t most)
{
	if (total >
	    l->posted[lane] + most) /* more than the peer has: its loss, but our queue pair */
		total = l->posted[lane] + most;
	if (total > l->granted[lane])
		l->granted[lane] = total;
}

void xs_credit_granted(struct xs_link *l, uint64_t small, uint64_t bulk)
{
	bool wanted;

	xs_lock_take(&l->lock);
	raise_grant(l, XS_LANE_SMALL, small, l->hello.small_entries);
	raise_grant(l, XS_LANE_BULK, bulk, l->hello.bulk_entries);
	wanted = l->wait_head[XS_LANE_SMALL] || l->wait_head[XS_LANE_BULK] || l->say_head;
	xs_lock_drop(&l->lock);
	if (wanted)
		xs_link_kick(l);
}

/* --- receiving: what we grant ---------------------------------------------------------------- */
static bool due(struct xs_link *l, int lane, uint64_t freed)
{
	uint64_t said = __atomic_load_n(&l->said[lane], __ATOMIC_RELAXED);
	uint32_t half = l->entries[lane] / 2;

	return freed > said && freed - said >= (half ? half : 1);
}

static void send_credit(struct xs_link *l, bool forced)
{
	struct xs_seghdr h = {.kind = XS_K_CREDIT};
	uint64_t freed[XS_LANES], seq, rooms = atomic_load(&l->room_count);
	bool now = forced;

	xs_lock_take(&l->lock);
	for (int i = 0; i < XS_LANES; i++) {
		freed[i] = atomic_load(&l->freed[i]);
		now = now || due(l, i, freed[i]);
	}
	for (int i = 0; now && i < XS_LANES; i++)
		__atomic_store_n(&l->said[i], freed[i], __ATOMIC_RELAXED);
	xs_lock_drop(&l->lock);
	if (!now)
		return;
	h.offset = l->entries[XS_LANE_SMALL] + freed[XS_LANE_SMALL];
	h.ack = l->entries[XS_LANE_BULK] + freed[XS_LANE_BULK];
	if (xs_link_post(l, XS_LANE_SMALL, &h, NULL, xs_link_now(), &seq) != -EAGAIN)
		return;
	atomic_store(&l->credit_due, true);
	xs_credit_full(l, XS_LANE_SMALL, NULL, rooms);
}

void xs_credit_probe(struct xs_link *l)
{
	send_credit(l, true);
}

void xs_credit_freed(struct xs_link *l, enum xs_lane lane)
{
	uint64_t freed = atomic_fetch_add(&l->freed[lane], 1) + 1;

	if (due(l, lane, freed))
		send_credit(l, false);
}

/* --- serving --------------------------------------------------------------------------------- */
/* The next channel's turn. False: nobody waits, or nothing can be posted. */
static bool turn(struct xs_link *l, enum xs_lane lane)
{
	struct xs_entered e = {NULL, NULL, NULL};
	struct xs_id_key key = {0, 0};
	struct xs_chan *c;

	xs_lock_take(&l->lock);
	c = l->posted[lane] < l->granted[lane] && !l->full[lane] ? l->wait_head[lane] : NULL;
	if (c) {
		dequeue(l, lane, c);
		l->late++; /* until it has posted, or waits again */
		key = c->key;
		e = (struct xs_entered){c, c->base.events, c->base.user};
		e.events->hold(e.user);
	}
	xs_lock_drop(&l->lock);
	if (!c)
		return false;
	if (!xs_id_enter_held(key, &e)) {
		xs_credit_late(l, -1);
		return true;
	}
	c->in_event = true;
	xs_segchan_pump(c, true);
	xs_credit_late(l, -1);
	if (!c->dead)
		e.events->room(e.user);
	xs_segchan_event_end(c);
	xs_id_leave(&e);
	return true;
}

void xs_link_serve(struct xs_link *l)
{
	if (!atomic_load_explicit(&l->serve_due, memory_order_relaxed) ||
	    !atomic_exchange(&l->serve_due, false))
		return;
	if (atomic_exchange(&l->credit_due, false))
		send_credit(l, true);
	xs_link_say_waiting(l);
	while (turn(l, XS_LANE_SMALL))
		;
	while (turn(l, XS_LANE_BULK))
		;
}

/* SPDX-License-Identifier: MIT */
/*
 * What comes from the carrier: segments, the ends of batches, room in a full send queue. The
 * polling thread only notes what the progress thread has to do about the link itself.
 */
#include "link/linkage.h"

#include <string.h>

/* Set while this thread dispatches: the carrier rings the doorbells at the end of the batch. */
static __thread unsigned dispatching;

unsigned xs_link_now(void)
{
	return dispatching ? 0 : XS_POST_NOW;
}

void xs_link_note(struct xs_link *l, unsigned due)
{
	atomic_fetch_or(&l->due, due);
	xs_progress_post(&l->work);
}

void xs_link_kick(struct xs_link *l)
{
	atomic_store(&l->serve_due, true);
	if (!dispatching)
		xs_progress_post(&l->work);
}

static void hello(struct xs_link *l, const struct xs_seghdr *h, const void *payload)
{
	struct xs_hello got;

	if (h->length != sizeof(got) || l->hello.small_entries) {
		xs_link_note(l, XS_DUE_BAD);
		return;
	}
	memcpy(&got, payload, sizeof(got));
	xs_lock_take(&l->lock);
	l->hello = got;
	l->max[XS_LANE_SMALL] = got.small_size - XS_SEG_HEADER;
	l->max[XS_LANE_BULK] = got.bulk_size - XS_SEG_HEADER;
	xs_lock_drop(&l->lock);
	xs_credit_granted(l, got.small_entries, got.bulk_entries);
	xs_link_note(l, XS_DUE_HELLO);
}

/* A message of the link's own. True: it used a credit. */
static bool link_message(struct xs_link *l, const struct xs_seghdr *h, const void *payload)
{
	switch (h->kind) {
	case XS_K_HELLO:
		hello(l, h, payload);
		return false;
	case XS_K_CREDIT:
		xs_credit_granted(l, h->offset, h->ack);
		return false;
	case XS_K_PAIR_ASK:
	case XS_K_PAIR_ANSWER:
	case XS_K_PAIR_DONE:
		xs_pair_message(l, h, payload);
		return true;
	case XS_K_BYE:
		xs_link_note(l, XS_DUE_BYE);
		return true;
	default:
		xs_link_drop(l);
		return true;
	}
}

bool xs_link_segment(struct xs_link *l, enum xs_lane lane, const struct xs_seghdr *h,
		     struct xs_rxbuf *buf)
{
	bool kept = false, credit = true;

	dispatching++;
	if (!l->hello.small_entries && h->kind != XS_K_HELLO)
		xs_link_note(l, XS_DUE_BAD);
	else if (h->id)
		kept = xs_segrx_segment(l, lane, h, buf);
	else
		credit = link_message(l, h, buf->payload);
	if (credit && !kept)
		xs_credit_freed(l, lane);
	dispatching--;
	return kept;
}

void xs_link_batch_end(struct xs_link *l)
{
	dispatching++;
	xs_link_serve(l);
	dispatching--;
	xs_link_reap(l, false);
	if (atomic_load_explicit(&l->serve_due, memory_order_relaxed))
		xs_progress_post(&l->work);
}

void xs_link_ready(struct xs_link *l)
{
	atomic_fetch_add(&l->room_count, 1);
	xs_lock_take(&l->lock);
	l->full[XS_LANE_SMALL] = l->full[XS_LANE_BULK] = false;
	xs_lock_drop(&l->lock);
	atomic_store(&l->serve_due, true);
	xs_progress_post(&l->work);
}

void xs_link_poll_fork_child(void)
{
	dispatching = 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * The two shared receive queues of a device: entries of 4 KiB for the small lane, of a chunk for
 * the bulk lane. They feed all links, so the entries granted to all peers together never exceed
 * what is posted: an entry is made and posted before it's promised, and `slack` entries more, since
 * freed entries are posted again in batches while their peer may have been granted them already.
 *
 * Entries can't be taken out of a shared queue; those of a dead conduit serve the next one. A queue
 * pair that died half-way through a message may have taken one with it (on rxe it does), and
 * nothing tells: one per dead queue pair counts as lost, until the device is closed and opened
 * again.
 */
#include "base/log.h"
#include "link/rc/rc.h"

#include <stdlib.h>

static void fill(const struct xs_rc_rx *rx, uint32_t size, struct ibv_recv_wr *wr,
		 struct ibv_sge *sge)
{
	sge->addr = (uintptr_t)rx->mem;
	sge->length = size;
	sge->lkey = rx->key;
	wr->wr_id = (1ULL << 63) | rx->index;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->next = NULL;
}

static int post_one(struct xs_rc_rq *q, struct xs_rc_rx *rx)
{
	struct ibv_recv_wr wr;
	struct ibv_sge sge;

	fill(rx, (uint32_t)xs_slab_size(q->slab), &wr, &sge);
	return xs_verbs_post_recv(q, &wr);
}

/* Posts what waits, a chain at a time. */
static void post_back(struct xs_rc_rq *q) XS_REQUIRES(q->lock)
{
	struct ibv_recv_wr wr[XS_RC_BATCH];
	struct ibv_sge sge[XS_RC_BATCH];
	uint32_t n;
	int r;

	while (q->back && q->srq) {
		for (n = 0; n < XS_RC_BATCH && q->back; n++) {
			fill(q->back, (uint32_t)xs_slab_size(q->slab), &wr[n], &sge[n]);
			if (n)
				wr[n - 1].next = &wr[n];
			q->back = q->back->next;
		}
		r = xs_verbs_post_recv(q, wr);
		if (r) {
			XS_LOG(ERROR, "rc: %u receive entries can't be posted: error %d", n, -r);
			xs_dev_break(q->dev);
		}
	}
	atomic_store_explicit(&q->backs, 0, memory_order_relaxed);
}

void xs_rq_give_back(struct xs_rc_rq *q, struct xs_rc_rx *rx)
{
	xs_lock_take(&q->lock);
	rx->next = q->back;
	q->back = rx;
	if (atomic_fetch_add_explicit(&q->backs, 1, memory_order_relaxed) + 1 >= q->batch)
		post_back(q);
	xs_lock_drop(&q->lock);
}

void xs_rq_flush(struct xs_rc_rq *q)
{
	if (!atomic_load_explicit(&q->backs, memory_order_relaxed))
		return;
	xs_lock_take(&q->lock);
	post_back(q);
	xs_lock_drop(&q->lock);
}

struct xs_rc_rx *xs_rq_entry(struct xs_rc_rq *q, uint32_t index)
{
	return q->rx[index];
}

/* One more entry, posted. False: no memory, or the queue is full. */
static bool make_one(struct xs_rc_rq *q)
{
	struct xs_rc_rx *rx;

	if (q->made == q->max)
		return false;
	rx = calloc(1, sizeof(*rx));
	if (!rx)
		return false;
	rx->mem = xs_pool_get(q->slab);
	if (!rx->mem) {
		free(rx);
		return false;
	}
	rx->key = xs_pool_key(&q->dev->pool, rx->mem);
	rx->index = q->made;
	rx->buf.lane = (uint8_t)q->lane;
	q->rx[q->made] = rx;
	if (post_one(q, rx)) {
		xs_pool_put(rx->mem, q->slab);
		free(rx);
		return false;
	}
	q->made++;
	return true;
}

uint32_t xs_rq_promise(struct xs_rc_rq *q, uint32_t want, uint32_t least)
{
	uint32_t have;

	if (!q->rx)
		q->rx = calloc(q->max, sizeof(*q->rx));
	if (!q->rx)
		return 0;
	while (q->made < q->promised + q->slack + want && make_one(q))
		;
	have = q->made > q->promised + q->slack ? q->made - q->promised - q->slack : 0;
	if (have < least)
		return 0;
	if (have > want)
		have = want;
	q->promised += have;
	return have;
}

void xs_rq_release(struct xs_rc_rq *q, uint32_t promised, bool maybe_lost)
{
	q->promised -= promised;
	if (!maybe_lost)
		return;
	q->promised++;
	q->lost++;
}

void xs_rq_close(struct xs_rc_rq *q)
{
	struct ibv_srq *srq;

	xs_lock_take(&q->lock);
	srq = q->srq;
	q->srq = NULL;
	xs_lock_drop(&q->lock);
	if (srq)
		xs_verbs_free_srq(srq);
}

/* Nothing is held any more. */
void xs_rq_free(struct xs_rc_rq *q)
{
	for (uint32_t i = 0; i < q->made; i++) {
		xs_pool_put(q->rx[i]->mem, q->slab);
		free(q->rx[i]);
	}
	free(q->rx);
	q->rx = NULL;
	q->back = NULL;
	q->made = q->promised = q->lost = 0;
}

/* SPDX-License-Identifier: MIT */
/* Pool memory that waits for the completion of the posts that read it. */
#include "link/linkage.h"

#include "base/log.h"

#include <stdlib.h>

struct xs_tag {
	struct xs_tag *next;
	void *mem;
	enum xs_slab slab;
	uint64_t seq[XS_LANES];
};

/* The lock is held: the conduit isn't destroyed meanwhile. */
static bool completed(struct xs_link *l, const uint64_t seq[XS_LANES])
{
	struct xs_conduit *c = atomic_load_explicit(&l->conduit, memory_order_acquire);

	if (!c || xs_link_state_of(l) == XS_LINK_DEAD)
		return true;
	for (int i = 0; i < XS_LANES; i++)
		if (seq[i] && l->ops->completed(c, (enum xs_lane)i) < seq[i])
			return false;
	return true;
}

void xs_link_retire(struct xs_link *l, void *mem, enum xs_slab slab, const uint64_t seq[XS_LANES])
{
	struct xs_tag *t = NULL;
	bool now;

	xs_lock_take(&l->lock);
	now = completed(l, seq);
	if (!now)
		t = calloc(1, sizeof(*t));
	if (t) {
		t->mem = mem;
		t->slab = slab;
		for (int i = 0; i < XS_LANES; i++)
			t->seq[i] = seq[i];
		t->next = l->retired;
		__atomic_store_n(&l->retired, t, __ATOMIC_RELAXED);
	}
	xs_lock_drop(&l->lock);
	if (now)
		xs_pool_put(mem, slab);
	else if (!t)
		XS_LOG(ERROR, "no memory: %zu bytes of the pool are lost", xs_slab_size(slab));
}

void xs_link_reap(struct xs_link *l, bool all)
{
	struct xs_tag *t, *done = NULL, **at;

	if (!__atomic_load_n(&l->retired, __ATOMIC_RELAXED))
		return;
	xs_lock_take(&l->lock);
	for (at = &l->retired; (t = *at) != NULL;) {
		if (all || completed(l, t->seq)) {
			__atomic_store_n(at, t->next, __ATOMIC_RELAXED);
			t->next = done;
			done = t;
		} else {
			at = &t->next;
		}
	}
	xs_lock_drop(&l->lock);
	while ((t = done) != NULL) {
		done = t->next;
		xs_pool_put(t->mem, t->slab);
		free(t);
	}
}

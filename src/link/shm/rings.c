/* SPDX-License-Identifier: MIT */
/*
 * The rings of bytes in a link's memory. Each side hands out its own half, for sending; the peer is
 * told the number. A ring is used again after its last reader has left it: the reader's word for
 * that is believed, as the bytes that he'd miss are his own.
 *
 * Rings that were used before come first, the one that has rested longest: their pages are there.
 */
#include "link/shm/shm.h"

#define TRIES 4 /* of rings whose reader hasn't left yet */

struct xs_bytering *xs_shm_ring_take(struct xs_conduit *c, struct xs_ring_name *name)
{
	struct xs_shm_rings *r = &c->rings;
	struct xs_bytering *ring = NULL;
	uint32_t number = XS_SHM_RINGS;

	if (xs_shm_state_of(c) != XS_SHM_UP)
		return NULL;
	xs_lock_take(&c->lock);
	for (unsigned i = 0; i < TRIES && r->rest != r->put && number == XS_SHM_RINGS; i++) {
		uint32_t n = r->queue[r->rest++ % XS_SHM_RINGS];

		if (atomic_load(&r->ours[n].left) == r->use[n])
			number = n;
		else
			r->queue[r->put++ % XS_SHM_RINGS] = (uint16_t)n;
	}
	if (number == XS_SHM_RINGS && r->fresh < XS_SHM_RINGS)
		number = r->fresh++;
	if (number < XS_SHM_RINGS) {
		*name = (struct xs_ring_name){number, ++r->use[number]};
		ring = &r->ours[number];
	}
	xs_lock_drop(&c->lock);
	if (ring)
		xs_shm_conduit_hold(c);
	return ring;
}

void xs_shm_ring_put(struct xs_conduit *c, const struct xs_ring_name *name)
{
	struct xs_shm_rings *r = &c->rings;

	xs_lock_take(&c->lock);
	r->queue[r->put++ % XS_SHM_RINGS] = (uint16_t)name->number;
	xs_lock_drop(&c->lock);
	xs_shm_conduit_drop(c);
}

struct xs_bytering *xs_shm_ring_find(struct xs_conduit *c, const struct xs_ring_name *name)
{
	if (name->number >= XS_SHM_RINGS)
		return NULL;
	xs_shm_conduit_hold(c);
	return &c->rings.theirs[name->number];
}

void xs_shm_ring_done(struct xs_conduit *c)
{
	xs_shm_conduit_drop(c);
}

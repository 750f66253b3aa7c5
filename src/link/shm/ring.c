/* SPDX-License-Identifier: MIT */
/* One direction of shared memory; the rules are in ring.h. */
#include "link/shm/ring.h"

#include <string.h>

/* The lowest chunks are taken first, and those that have come back before others are touched: what
 * is used stays in the caches. */
#define WARM 0xffu

/* --- writing ---------------------------------------------------------------------------------- */
void xs_shm_out_init(struct xs_shm_out *o, struct xs_shm_dir *d)
{
	*o = (struct xs_shm_out){.d = d, .spare = UINT32_MAX};
	static_assert(XS_SHM_CHUNKS == 32, "a bit per chunk");
}

bool xs_shm_out_room(struct xs_shm_out *o)
{
	uint64_t head;

	if (o->tail - o->head < XS_SHM_SLOTS)
		return true;
	head = atomic_load_explicit(&o->d->head, memory_order_acquire);
	if (head > o->tail || o->tail - head >= XS_SHM_SLOTS)
		return false;
	o->head = head;
	return true;
}

static void take_back(struct xs_shm_out *o)
{
	for (uint32_t i = 0; i < XS_SHM_CHUNKS; i++) {
		uint16_t done = atomic_load_explicit(&o->d->done[i], memory_order_acquire);

		if (!(o->spare & 1u << i) && done == o->use[i])
			o->spare |= 1u << i;
	}
}

int xs_shm_out_chunk(struct xs_shm_out *o)
{
	int i;

	if (!(o->spare & WARM))
		take_back(o);
	if (!o->spare)
		return -1;
	i = __builtin_ctz(o->spare);
	o->spare &= ~(1u << i);
	o->use[i]++;
	return i;
}

bool xs_shm_out_put(struct xs_shm_out *o, const struct xs_seghdr *h, const void *payload, int chunk)
{
	struct xs_shm_slot *s = &o->d->slot[o->tail % XS_SHM_SLOTS];

	s->h = *h;
	s->chunk = (uint16_t)(chunk + 1);
	s->use = chunk < 0 ? 0 : o->use[chunk];
	if (chunk < 0 && h->length)
		memcpy(s->payload, payload, h->length);
	o->tail++;
	atomic_store(&s->turn, (uint32_t)o->tail);
	return atomic_load(&o->d->armed) && atomic_exchange(&o->d->armed, 0);
}

/* --- reading ---------------------------------------------------------------------------------- */
void xs_shm_in_init(struct xs_shm_in *i, struct xs_shm_dir *d)
{
	*i = (struct xs_shm_in){.d = d};
}

enum xs_shm_look xs_shm_in_look(const struct xs_shm_in *i, struct xs_shm_got *got)
{
	struct xs_shm_slot *s = &i->d->slot[i->head % XS_SHM_SLOTS];
	uint16_t chunk;

	if (atomic_load(&s->turn) != (uint32_t)(i->head + 1))
		return XS_SHM_NONE;
	memcpy(&got->h, &s->h, sizeof(got->h));
	chunk = *(volatile uint16_t *)&s->chunk;
	got->use = *(volatile uint16_t *)&s->use;
	if (chunk > XS_SHM_CHUNKS || got->h.length > (chunk ? XS_SHM_CHUNK : XS_SHM_INLINE))
		return XS_SHM_BAD;
	got->chunk = (int)chunk - 1;
	got->payload = chunk ? i->d->chunk[chunk - 1] : s->payload;
	return XS_SHM_GOT;
}

void xs_shm_in_next(struct xs_shm_in *i)
{
	atomic_store_explicit(&i->d->head, ++i->head, memory_order_release);
}

void xs_shm_in_done(struct xs_shm_dir *d, int chunk, uint16_t use)
{
	atomic_store_explicit(&d->done[chunk], use, memory_order_release);
}

void xs_shm_in_arm(struct xs_shm_in *i)
{
	atomic_store(&i->d->armed, 1);
}

bool xs_shm_in_armed(const struct xs_shm_in *i)
{
	return atomic_load_explicit(&i->d->armed, memory_order_relaxed) != 0;
}

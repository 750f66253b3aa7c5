/* SPDX-License-Identifier: MIT */
/*
 * Deadlines: a binary heap of pointers, earliest first. A timer's slot is its place in the heap
 * plus one; 0 means that it isn't there. In a forked child slots are stale, so each is checked
 * against the heap before it's believed.
 */
#include "base/clock.h"
#include "base/rawsys.h"
#include "engine/engine.h"
#include "engine/progress.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

struct xs_lock xs_engine_lock = XS_LOCK_INIT(XS_RANK_ENGINE);

static struct xs_ptrs heap;
static struct xs_timer *running;
static struct xs_cond ran; /* the running function has ended */

int xs_ptrs_grow(struct xs_ptrs *p)
{
	size_t old = p->room * sizeof(void *), now = old ? old * 2 : 4096;
	long r;

	if (old)
		r = xs_sys(__NR_mremap, p->at, old, now, MREMAP_MAYMOVE, 0);
	else
		r = xs_sys(__NR_mmap, 0, now, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	if (r < 0 && r > -4096)
		return -ENOMEM;
	p->at = (void **)r;
	p->room = (unsigned)(now / sizeof(void *));
	return 0;
}

int xs_ptrs_reserve(struct xs_ptrs *p)
{
	return p->n < p->room ? 0 : xs_ptrs_grow(p);
}

static struct xs_timer *at(unsigned slot)
{
	return heap.at[slot - 1];
}

static void place(struct xs_timer *t, unsigned slot)
{
	heap.at[slot - 1] = t;
	t->slot = slot;
}

static bool in_heap(const struct xs_timer *t)
{
	return t->slot > 0 && t->slot <= heap.n && at(t->slot) == t;
}

static void sift_up(struct xs_timer *t)
{
	unsigned slot = t->slot;

	for (; slot > 1 && at(slot / 2)->when > t->when; slot /= 2)
		place(at(slot / 2), slot);
	place(t, slot);
}

static void sift_down(struct xs_timer *t)
{
	unsigned slot = t->slot, child;

	for (; (child = slot * 2) <= heap.n; slot = child) {
		if (child < heap.n && at(child + 1)->when < at(child)->when)
			child++;
		if (at(child)->when >= t->when)
			break;
		place(at(child), slot);
	}
	place(t, slot);
}

static void take_out(struct xs_timer *t)
{
	struct xs_timer *last = at(heap.n);
	unsigned slot = t->slot;

	heap.n--;
	t->slot = 0;
	if (last == t)
		return;
	place(last, slot);
	sift_up(last);
	sift_down(last);
}

int xs_timer_set(struct xs_timer *t, uint64_t when)
{
	int err = 0;
	bool first = false;

	xs_lock_take(&xs_engine_lock);
	if (in_heap(t)) {
		t->when = when;
		sift_up(t);
		sift_down(t);
	} else if (!(err = xs_ptrs_reserve(&heap))) {
		t->when = when;
		heap.n++;
		place(t, heap.n);
		sift_up(t);
	}
	first = !err && at(1) == t;
	xs_lock_drop(&xs_engine_lock);
	if (first && !xs_progress_self())
		xs_progress_ring();
	if (!err && !xs_progress_running())
		err = xs_progress_start();
	return err;
}

void xs_timer_cancel(struct xs_timer *t)
{
	xs_lock_take(&xs_engine_lock);
	if (in_heap(t))
		take_out(t);
	t->when = 0;
	while (running == t && !xs_progress_self()) {
		xs_cond_wait(&ran, &xs_engine_lock, 0);
		if (in_heap(t)) /* its fn had set it again */
			take_out(t);
	}
	xs_lock_drop(&xs_engine_lock);
}

static struct xs_timer *take_due(uint64_t now)
{
	struct xs_timer *t = NULL;

	xs_lock_take(&xs_engine_lock);
	running = NULL;
	xs_cond_tell(&ran);
	if (heap.n && at(1)->when <= now) {
		t = at(1);
		take_out(t);
		t->when = 0;
		running = t;
	}
	xs_lock_drop(&xs_engine_lock);
	return t;
}

void xs_timer_run(uint64_t now)
{
	struct xs_timer *t;

	while ((t = take_due(now)))
		t->fn(t);
}

uint64_t xs_timer_next(void)
{
	uint64_t when;

	xs_lock_take(&xs_engine_lock);
	when = heap.n ? at(1)->when : 0;
	xs_lock_drop(&xs_engine_lock);
	return when;
}

void xs_timer_forget(void)
{
	xs_lock_init(&xs_engine_lock, XS_RANK_ENGINE);
	heap.n = 0;
	running = NULL;
	ran = (struct xs_cond){0};
}

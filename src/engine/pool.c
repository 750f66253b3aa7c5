/* SPDX-License-Identifier: MIT */
/*
 * The pool of memory that network devices may read and write.
 *
 * One range of addresses, as large as the pool may become, is reserved once; arena n is its n-th 2
 * MiB. So the key of a piece of memory is found by its address alone, without a lock. An arena is
 * made accessible, faulted in and registered with every attached device before its first piece is
 * given out, and stays until the process ends.
 *
 * An arena is cut by four sizes: a 1 MiB block into four of 256 KiB, those into four of 64 KiB,
 * those into sixteen of 4 KiB. Free blocks hang in one list per size by their first bytes; `state`
 * has a byte per 4 KiB, which is set for the first 4 KiB of a free block only. Blocks aren't joined
 * when they come back (a message more or less would cut and join them for ever) but when a size has
 * run out.
 *
 * Registering takes milliseconds and happens outside the lock: `growing` counts the threads that do
 * it, each on an arena of its own. A device that comes meanwhile registers the arenas that are in
 * use; whoever grows looks for new devices again before it publishes its arena.
 */
#include "engine/pool.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/rawsys.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#define POPULATE_WRITE 23 /* MADV_POPULATE_WRITE, which old headers lack */
#define ARENA (2UL << 20)
#define UNIT (4UL << 10)
#define UNITS (ARENA / UNIT)
#define MAX_ARENAS 512
#define MAX_DEVICES 8
#define FREE 0x80 /* in state; the low bits are the size */

struct block {
	struct block *prev, *next;
};

enum arena_use { ABSENT, GROWING, LIVE };

static struct xs_lock lock = XS_LOCK_INIT(XS_RANK_POOL);
/* All under the lock. `base` and the keys never change once memory was given out: read without it.
 */
static uint8_t *base;
static unsigned max_arenas;
static uint8_t use[MAX_ARENAS]; /* enum arena_use */
static uint8_t state[MAX_ARENAS][UNITS];
static struct block lists[XS_SLABS];
static size_t freed; /* bytes given back since blocks were last joined */
static size_t used_bytes, live_arenas;
static unsigned growing;
static uint64_t refused_until; /* no memory, or not allowed to pin more: don't ask all the time */
static uint64_t registrations;
static struct xs_pool_reg *devices[MAX_DEVICES];
static uint32_t keys[MAX_DEVICES][MAX_ARENAS];
static void *handles[MAX_DEVICES][MAX_ARENAS];

static unsigned arena_of(const void *p)
{
	return (unsigned)((size_t)((const uint8_t *)p - base) / ARENA);
}

static uint8_t *state_of(const void *p)
{
	size_t off = (size_t)((const uint8_t *)p - base);

	return &state[off / ARENA][off % ARENA / UNIT];
}

/* --- free blocks; the lock is held ------------------------------------------------------------ */
static void push(void *p, unsigned size)
{
	struct block *b = p, *head = &lists[size];

	*state_of(p) = (uint8_t)(FREE | size);
	b->next = head->next;
	b->prev = head;
	head->next->prev = b;
	head->next = b;
}

static void unlink_block(void *p)
{
	struct block *b = p;

	*state_of(p) = 0;
	b->prev->next = b->next;
	b->next->prev = b->prev;
}

static void *take(unsigned size)
{
	unsigned from = size;
	uint8_t *p;

	while (from < XS_SLABS && lists[from].next == &lists[from])
		from++;
	if (from == XS_SLABS)
		return NULL;
	p = (uint8_t *)lists[from].next;
	unlink_block(p);
	for (; from > size; from--) {
		size_t part = xs_slab_size(from - 1);

		for (size_t at = xs_slab_size(from) - part; at > 0; at -= part)
			push(p + at, from - 1);
	}
	used_bytes += xs_slab_size(size);
	return p;
}

/* Joins the blocks of one size at p into the larger one if all are free. */
static void join(uint8_t *p, unsigned size)
{
	size_t part = xs_slab_size(size), whole = xs_slab_size(size + 1);

	for (size_t at = 0; at < whole; at += part)
		if (*state_of(p + at) != (FREE | size))
			return;
	for (size_t at = 0; at < whole; at += part)
		unlink_block(p + at);
	push(p, size + 1);
}

static void join_arena(uint8_t *arena)
{
	for (unsigned size = 0; size + 1 < XS_SLABS; size++)
		for (size_t at = 0; at < ARENA; at += xs_slab_size(size + 1))
			join(arena + at, size);
}

static void *take_or_join(unsigned size)
{
	void *p = take(size);

	if (p || freed < xs_slab_size(size))
		return p;
	freed = 0;
	for (unsigned a = 0; a < max_arenas; a++)
		if (use[a] == LIVE)
			join_arena(base + a * ARENA);
	return take(size);
}

/* --- arenas ----------------------------------------------------------------------------------- */
/* Reserves the addresses; the lock is held. */
static bool reserve(void)
{
	size_t want = (size_t)xs_config()->pool_max / ARENA;
	size_t bytes;
	long at;

	if (base)
		return true;
	want = want < 1 ? 1 : want > MAX_ARENAS ? MAX_ARENAS : want;
	bytes = (want + 1) * ARENA;
	at = xs_sys(__NR_mmap, NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	if (at < 0 && at > -4096)
		return false;
	xs_sys(__NR_madvise, at, bytes, MADV_DONTFORK);
	for (unsigned s = 0; s < XS_SLABS; s++)
		lists[s].prev = lists[s].next = &lists[s];
	base = (uint8_t *)(((uintptr_t)at + ARENA - 1) & ~(ARENA - 1)); /* huge pages want it */
	max_arenas = (unsigned)want;
	return true;
}

/* Claims an arena, -1: there is none left. */
static int claim(void)
{
	int a = -1;

	xs_lock_take(&lock);
	if (refused_until > xs_now_ns()) {
		xs_lock_drop(&lock);
		return -1;
	}
	for (unsigned i = 0; reserve() && i < max_arenas && a < 0; i++) {
		if (use[i] != ABSENT)
			continue;
		use[i] = GROWING;
		growing++;
		a = (int)i;
	}
	xs_lock_drop(&lock);
	return a;
}

static int fault_in(uint8_t *arena)
{
	long r = xs_sys(__NR_mprotect, arena, ARENA, PROT_READ | PROT_WRITE);

	if (r < 0)
		return (int)r;
	xs_sys(__NR_madvise, arena, ARENA, MADV_HUGEPAGE);
	r = xs_sys(__NR_madvise, arena, ARENA, POPULATE_WRITE);
	if (r == -EINVAL) { /* before Linux 5.14 */
		for (size_t at = 0; at < ARENA; at += UNIT)
			((volatile uint8_t *)arena)[at] = 0;
		r = 0;
	}
	return (int)r;
}

static void vacate(uint8_t *arena)
{
	xs_sys(__NR_madvise, arena, ARENA, MADV_DONTNEED);
	xs_sys(__NR_mprotect, arena, ARENA, PROT_NONE);
}

static int register_one(struct xs_pool_reg *r, unsigned dev, unsigned a)
{
	int ret = r->reg(r->device, base + a * ARENA, ARENA, &keys[dev][a], &handles[dev][a]);

	if (ret == 0)
		__atomic_fetch_add(&registrations, 1, __ATOMIC_RELAXED);
	return ret;
}

/* The first device that doesn't know the arena yet; the lock is held. */
static int missing(unsigned a)
{
	for (unsigned i = 0; i < MAX_DEVICES; i++)
		if (devices[i] && !handles[i][a])
			return (int)i;
	return -1;
}

/* Gives up what was registered so far; the lock is held and taken again. */
static void unregister_all(unsigned a) XS_REQUIRES(lock)
{
	for (unsigned i = 0; i < MAX_DEVICES; i++) {
		struct xs_pool_reg *r = devices[i];
		void *h = handles[i][a];

		if (!h)
			continue;
		handles[i][a] = NULL;
		xs_lock_drop(&lock);
		r->dereg(r->device, h);
		xs_lock_take(&lock);
	}
}

/* Registers arena a everywhere and publishes it, or gives it up. */
static int publish(unsigned a, int err)
{
	int dev;

	xs_lock_take(&lock);
	while (!err && (dev = missing(a)) >= 0) {
		struct xs_pool_reg *r = devices[dev];

		xs_lock_drop(&lock);
		err = register_one(r, (unsigned)dev, a);
		xs_lock_take(&lock);
	}
	if (err) {
		unregister_all(a);
		vacate(base + a * ARENA);
		refused_until = xs_now_ns() + XS_NS_PER_S;
	} else {
		push(base + a * ARENA, XS_SLAB_1M);
		push(base + a * ARENA + ARENA / 2, XS_SLAB_1M);
		live_arenas++;
	}
	use[a] = err ? ABSENT : LIVE;
	growing--;
	xs_lock_drop(&lock);
	return err;
}

static bool grow(void)
{
	int a = claim();

	return a >= 0 && publish((unsigned)a, fault_in(base + (size_t)a * ARENA)) == 0;
}

/* --- users ------------------------------------------------------------------------------------ */
void *xs_pool_get(enum xs_slab s)
{
	void *p;

	do {
		xs_lock_take(&lock);
		p = base ? take_or_join(s) : NULL;
		xs_lock_drop(&lock);
	} while (!p && grow());
	return p;
}

void xs_pool_put(void *p, enum xs_slab s)
{
	if (!p)
		return;
	xs_lock_take(&lock);
	push(p, s);
	used_bytes -= xs_slab_size(s);
	freed += xs_slab_size(s);
	xs_lock_drop(&lock);
}

/* Nobody may still be registering with a device that leaves. */
static void wait_for_growers(void) XS_REQUIRES(lock)
{
	while (growing) {
		xs_lock_drop(&lock);
		xs_sys(__NR_sched_yield);
		xs_lock_take(&lock);
	}
}

int xs_pool_attach(struct xs_pool_reg *r)
{
	uint8_t live[MAX_ARENAS];
	unsigned dev = 0;
	int err = 0;

	xs_lock_take(&lock);
	while (dev < MAX_DEVICES && devices[dev])
		dev++;
	if (dev < MAX_DEVICES) {
		r->index = dev;
		devices[dev] = r;
		memset(handles[dev], 0, sizeof(handles[dev]));
	}
	memcpy(live, use, sizeof(live));
	xs_lock_drop(&lock);
	if (dev == MAX_DEVICES)
		return -ENOSPC;
	for (unsigned a = 0; a < MAX_ARENAS && !err; a++)
		if (live[a] == LIVE)
			err = register_one(r, dev, a);
	if (err)
		xs_pool_detach(r);
	return err;
}

void xs_pool_detach(struct xs_pool_reg *r)
{
	unsigned dev = r->index;

	xs_lock_take(&lock);
	wait_for_growers();
	devices[dev] = NULL;
	xs_lock_drop(&lock);
	for (unsigned a = 0; a < MAX_ARENAS; a++) {
		if (handles[dev][a])
			r->dereg(r->device, handles[dev][a]);
		handles[dev][a] = NULL;
	}
}

uint32_t xs_pool_key(const struct xs_pool_reg *r, const void *p)
{
	return keys[r->index][arena_of(p)];
}

void xs_pool_info(struct xs_pool_info *i)
{
	xs_lock_take(&lock);
	i->arenas = live_arenas;
	i->bytes = live_arenas * ARENA;
	i->used = used_bytes;
	i->registrations = registrations;
	xs_lock_drop(&lock);
}

void xs_pool_fork_child(void)
{
	xs_lock_init(&lock, XS_RANK_POOL);
	memset(use, 0, sizeof(use));
	memset(devices, 0, sizeof(devices));
	memset(handles, 0, sizeof(handles));
	base = NULL;
	refused_until = 0;
	max_arenas = growing = 0;
	used_bytes = live_arenas = freed = 0;
	registrations = 0;
}

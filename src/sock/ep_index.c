/* SPDX-License-Identifier: MIT */
/*
 * Tables of the epoll sets: all sets, the items of a socket, and the items' memory, which is never
 * given back and never comes from the program's allocator (locks are held where it's needed).
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/highfd.h"
#include "base/rawsys.h"
#include "sock/epollset.h"

#define BUCKETS 4096
#define CHUNK 65536

static struct xs_lock index_lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct xs_ep_item *bucket[BUCKETS]; /* index lock */
static struct xs_ep_item *spare;	   /* index lock */
static struct xs_ep_set *sets;		   /* index lock */

static void *map(size_t len)
{
	long m = xs_sys(__NR_mmap, 0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);

	return m < 0 && m > -4096 ? NULL : (void *)m;
}

int xs_ep_grow(struct xs_ep_items *a, uint32_t least)
{
	uint32_t room = a->room ? a->room : 512;
	void *at;
	long m;

	if (least <= a->room)
		return 0;
	while (room < least)
		room *= 2;
	if (a->room) {
		m = xs_sys(__NR_mremap, a->at, a->room * sizeof(*a->at), room * sizeof(*a->at),
			   MREMAP_MAYMOVE, 0);
		at = m < 0 && m > -4096 ? NULL : (void *)m;
	} else {
		at = map(room * sizeof(*a->at));
	}
	if (!at)
		return -ENOMEM;
	a->at = at;
	a->room = room;
	return 0;
}

struct xs_ep_item *xs_ep_at(const struct xs_ep_set *set, int fd)
{
	uint32_t room = atomic_load_explicit(&set->by_fd.room, memory_order_acquire);

	if (fd < 0 || (uint32_t)fd >= room)
		return NULL;
	return atomic_load(&atomic_load(&set->by_fd.at)[fd]);
}

int xs_ep_table_grow(struct xs_ep_table *t, uint32_t least)
{
	uint32_t old = atomic_load_explicit(&t->room, memory_order_relaxed), room = old ? old : 512;
	_Atomic(struct xs_ep_item *) *from = atomic_load_explicit(&t->at, memory_order_relaxed),
				     *at;

	if (least <= old)
		return 0;
	while (room < least)
		room *= 2;
	at = map(room * sizeof(*at));
	if (!at)
		return -ENOMEM;
	for (uint32_t i = 0; i < old; i++)
		atomic_store_explicit(&at[i], atomic_load_explicit(&from[i], memory_order_relaxed),
				      memory_order_relaxed);
	atomic_store(&t->at, at);
	atomic_store_explicit(&t->room, room, memory_order_release);
	return 0;
}

/* index lock */
static void more_items(void)
{
	struct xs_ep_item *it = map(CHUNK);

	for (size_t i = 0; it && i < CHUNK / sizeof(*it); i++) {
		it[i].hash_next = spare;
		spare = &it[i];
	}
}

struct xs_ep_item *xs_ep_item_new(void)
{
	struct xs_ep_item *it;

	xs_lock_take(&index_lock);
	if (!spare)
		more_items();
	it = spare;
	if (it)
		spare = it->hash_next;
	xs_lock_drop(&index_lock);
	if (it)
		memset(it, 0, sizeof(*it));
	return it;
}

void xs_ep_item_free(struct xs_ep_item *it)
{
	xs_lock_take(&index_lock);
	it->hash_next = spare;
	spare = it;
	xs_lock_drop(&index_lock);
}

static struct xs_ep_item **bucket_of(const struct xs_obj *obj)
{
	uint64_t h = (uint64_t)(uintptr_t)obj * 0x9e3779b97f4a7c15ULL;

	return &bucket[h >> 52];
}

void xs_ep_index_add(struct xs_ep_item *it)
{
	struct xs_ep_item **b = bucket_of(it->obj);

	xs_lock_take(&index_lock);
	it->hash_next = *b;
	it->hash_prev = b;
	if (*b)
		(*b)->hash_prev = &it->hash_next;
	*b = it;
	xs_lock_drop(&index_lock);
}

void xs_ep_index_del(struct xs_ep_item *it)
{
	xs_lock_take(&index_lock);
	*it->hash_prev = it->hash_next;
	if (it->hash_next)
		it->hash_next->hash_prev = it->hash_prev;
	xs_lock_drop(&index_lock);
}

/* Only if it isn't on its way out: its last reference may be gone already. */
bool xs_ep_hold(struct xs_ep_set *set)
{
	uint32_t refs = atomic_load(&set->obj.refs);

	while (refs & ~XS_OBJ_LIVE && refs & XS_OBJ_LIVE)
		if (atomic_compare_exchange_weak(&set->obj.refs, &refs, refs + 1))
			return true;
	return false;
}

unsigned xs_ep_index_items(const struct xs_obj *obj, struct xs_ep_ref *out, unsigned max,
			   unsigned skip)
{
	unsigned n = 0, seen = 0;

	xs_lock_take(&index_lock);
	for (struct xs_ep_item *it = *bucket_of(obj); it && n < max; it = it->hash_next) {
		if (it->obj != obj || seen++ < skip || !xs_ep_hold(it->set))
			continue;
		out[n].set = it->set;
		out[n++].index = it->index;
	}
	xs_lock_drop(&index_lock);
	return n;
}

void xs_ep_index_each(const struct xs_obj *obj, void (*fn)(struct xs_ep_item *it, void *arg),
		      void *arg)
{
	xs_lock_take(&index_lock);
	for (struct xs_ep_item *it = *bucket_of(obj); it; it = it->hash_next)
		if (it->obj == obj)
			fn(it, arg);
	xs_lock_drop(&index_lock);
}

void xs_ep_sets_add(struct xs_ep_set *set)
{
	xs_lock_take(&index_lock);
	set->next = sets;
	set->prev = &sets;
	if (sets)
		sets->prev = &set->next;
	sets = set;
	xs_lock_drop(&index_lock);
}

void xs_ep_sets_del(struct xs_ep_set *set)
{
	xs_lock_take(&index_lock);
	*set->prev = set->next;
	if (set->next)
		set->next->prev = set->prev;
	xs_lock_drop(&index_lock);
}

void xs_ep_sets_each(void (*fn)(struct xs_ep_set *set, void *arg), void *arg)
{
	struct xs_ep_set *set, *last = NULL;

	xs_lock_take(&index_lock);
	set = sets;
	while (set) {
		if (!xs_ep_hold(set)) {
			set = set->next;
			continue;
		}
		xs_lock_drop(&index_lock);
		fn(set, arg);
		if (last)
			xs_obj_put(&last->obj);
		last = set; /* held: its place in the list stays */
		xs_lock_take(&index_lock);
		set = set->next;
	}
	xs_lock_drop(&index_lock);
	if (last)
		xs_obj_put(&last->obj);
}

/* What the parent had noted counts here too; nothing of it is the kernel's. */
static void take_wish(struct xs_ep_item *it)
{
	if (!atomic_exchange(&it->noted, false))
		return;
	if (it->wish_out)
		xs_ep_set_aside(it);
	else
		xs_ep_take_events(it, &it->wish);
}

/* Lists, index and waiters are made anew: another thread may have been about to change them. All
 * members are asked at the first wait, which is when a child touches its parent's streams. */
static void reset(struct xs_ep_set *set)
{
	xs_lock_init(&set->lock, XS_RANK_SET);
	xs_lock_init(&set->ready, XS_RANK_LEAF);
	set->sleepers = NULL;
	set->inherited = true;
	for (int i = 0; i < XS_EP_INSIDE; i++) /* other threads */
		atomic_store(&set->inside[i], NULL);
	atomic_store(&set->notes_n, 0);
	atomic_store(&set->sleeping, 0);
	atomic_store(&set->gate, false);
	atomic_store(&set->locked, true);
	if (atomic_exchange(&set->working, false))
		atomic_fetch_sub(&set->obj.refs, 1); /* the work stayed behind */
	atomic_store(&set->work.posted, false);
	/* The kick and wake items are the parent's: our copies of their descriptors go. */
	xs_highfd_close(&set->kick_fd);
	xs_highfd_close(&set->wake_fd);
	set->wake_on = false;
	set->head = set->tail = NULL;
	set->listed_n = 0;
	for (uint32_t i = 0; i < set->items.n; i++) {
		struct xs_ep_item *it = set->items.at[i];

		if (!it)
			continue;
		it->listed = false;
		atomic_store(&it->busy, NULL);
		take_wish(it);
		xs_ep_index_add(it);
		if (it->obj->kind != XS_FD_SOCK)
			continue;
		xs_waiter_add((struct xs_sock *)it->obj, &it->waiter);
		if (it->converted)
			xs_ep_list(it, true);
	}
}

void xs_ep_index_fork_child(void)
{
	xs_lock_init(&index_lock, XS_RANK_LEAF);
	memset(bucket, 0, sizeof(bucket));
	for (struct xs_ep_set *set = sets; set; set = set->next)
		reset(set);
}

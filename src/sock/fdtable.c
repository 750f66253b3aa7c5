/* SPDX-License-Identifier: MIT */
/*
 * Readers take no lock: page pointer, slot, reference, slot again. A reference taken on an object
 * that has just left the slot is harmless, since objects are type-stable: it's put back, at worst
 * it makes this thread the one that runs `free`. Writers hold one lock.
 */
#include "sock/fdtable.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crit.h"
#include "base/lock.h"

#define PAGE_BITS 10
#define PAGE_SLOTS (1 << PAGE_BITS)
#define PAGES (1 << 20) /* numbers below 2^30, as the kernel's sysctl_nr_open allows */

typedef _Atomic(struct xs_obj *) slot_t;

/* Two-level: this root is untouched zero pages until used. */
static _Atomic(slot_t *) root[PAGES];
static _Atomic int highest = -1;
static pid_t owner; /* 0: not begun */
static struct xs_lock lock = XS_LOCK_INIT(XS_RANK_FDTABLE);

static slot_t *slot_at(int fd)
{
	slot_t *page;

	if (fd < 0 || fd >= PAGES * PAGE_SLOTS)
		return NULL;
	page = atomic_load_explicit(&root[fd >> PAGE_BITS], memory_order_acquire);
	return page ? &page[fd & (PAGE_SLOTS - 1)] : NULL;
}

const _Atomic(void *) *xs_fdtable_slot(int fd)
{
	return (const _Atomic(void *) *)slot_at(fd);
}

struct xs_obj *xs_fdtable_peek(int fd)
{
	slot_t *slot = slot_at(fd);

	return slot ? atomic_load_explicit(slot, memory_order_acquire) : NULL;
}

enum xs_fd_kind xs_fdtable_kind(int fd)
{
	struct xs_obj *o = xs_fdtable_peek(fd);

	return o ? (enum xs_fd_kind)o->kind : XS_FD_NONE;
}

struct xs_obj *xs_fdtable_get(int fd, enum xs_fd_kind kind)
{
	slot_t *slot = slot_at(fd);
	struct xs_obj *o;

	if (!slot)
		return NULL;
	for (;;) {
		o = atomic_load_explicit(slot, memory_order_acquire);
		if (!o || o->kind != kind)
			return NULL;
		atomic_fetch_add_explicit(&o->refs, 1, memory_order_seq_cst);
		if (atomic_load_explicit(slot, memory_order_seq_cst) == o)
			return o;
		xs_obj_put(o);
	}
}

void xs_obj_put(struct xs_obj *o)
{
	uint32_t live = XS_OBJ_LIVE;

	if (atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == XS_OBJ_LIVE + 1 &&
	    atomic_compare_exchange_strong(&o->refs, &live, 0))
		o->free(o);
}

void xs_obj_init(struct xs_obj *o, enum xs_fd_kind kind, void (*free)(struct xs_obj *o))
{
	static _Atomic uint64_t serials;

	o->kind = kind;
	o->free = free;
	o->serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
	atomic_store_explicit(&o->names, 0, memory_order_relaxed);
	/* A late look-up may hold a reference for a moment: add, don't store. */
	atomic_fetch_add_explicit(&o->refs, XS_OBJ_LIVE + 1, memory_order_release);
}

static slot_t *slot_make(int fd)
{
	slot_t *page = NULL;

	if (fd < 0 || fd >= PAGES * PAGE_SLOTS)
		return NULL;
	if (!atomic_load_explicit(&root[fd >> PAGE_BITS], memory_order_acquire)) {
		page = mmap(NULL, PAGE_SLOTS * sizeof(slot_t), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			return NULL;
		atomic_store_explicit(&root[fd >> PAGE_BITS], page, memory_order_release);
	}
	return slot_at(fd);
}

struct xs_obj *xs_fdtable_set(int fd, struct xs_obj *o, int *err)
{
	struct xs_obj *old = NULL;
	struct xs_crit cs;
	slot_t *slot;

	xs_crit_enter(&cs);
	xs_lock_take(&lock);
	slot = slot_make(fd);
	*err = slot ? 0 : -ENOMEM;
	if (slot) {
		atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&o->names, 1, memory_order_relaxed);
		old = atomic_exchange_explicit(slot, o, memory_order_seq_cst);
		if (old)
			atomic_fetch_sub_explicit(&old->names, 1, memory_order_relaxed);
		if (fd > atomic_load_explicit(&highest, memory_order_relaxed))
			atomic_store_explicit(&highest, fd, memory_order_relaxed);
	}
	xs_lock_drop(&lock);
	xs_crit_leave(&cs);
	return old;
}

struct xs_obj *xs_fdtable_clear(int fd)
{
	struct xs_obj *old = NULL;
	struct xs_crit cs;
	slot_t *slot;

	xs_crit_enter(&cs);
	xs_lock_take(&lock);
	slot = slot_at(fd);
	if (slot)
		old = atomic_exchange_explicit(slot, NULL, memory_order_seq_cst);
	if (old)
		atomic_fetch_sub_explicit(&old->names, 1, memory_order_relaxed);
	xs_lock_drop(&lock);
	xs_crit_leave(&cs);
	return old;
}

int xs_fdtable_next(int fd)
{
	int top = atomic_load_explicit(&highest, memory_order_relaxed);

	for (fd = fd < 0 ? 0 : fd; fd <= top; fd++) {
		slot_t *slot = slot_at(fd);

		if (!slot)
			fd |= PAGE_SLOTS - 1; /* no page: on to the next one */
		else if (atomic_load_explicit(slot, memory_order_relaxed))
			return fd;
	}
	return -1;
}

void xs_fdtable_begin(void)
{
	owner = getpid();
	xs_lock_init(&lock, XS_RANK_FDTABLE);
}

bool xs_fdtable_other_process(void)
{
	return owner && getpid() != owner;
}

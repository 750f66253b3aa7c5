/* SPDX-License-Identifier: MIT */
/*
 * The pool: arenas of 2 MiB, grown by demand up to pool_max, carved into slabs of 4, 64, 256 KiB
 * and 1 MiB. MADV_DONTFORK. rc registers each arena once by a callback; the pool knows no verbs.
 */
#ifndef XS_ENGINE_POOL_H
#define XS_ENGINE_POOL_H

#include <stddef.h>
#include <stdint.h>

enum xs_slab { XS_SLAB_4K, XS_SLAB_64K, XS_SLAB_256K, XS_SLAB_1M, XS_SLABS };
static inline size_t xs_slab_size(enum xs_slab s)
{
	static const uint32_t size[XS_SLABS] = {4 << 10, 64 << 10, 256 << 10, 1 << 20};
	return size[s];
}

/* Memory of that class (never zeroed for speed: only whole written ranges are ever sent), or NULL
 * at pool_max or without memory. Any thread; takes XS_RANK_POOL. */
void *xs_pool_get(enum xs_slab s);
void xs_pool_put(void *p, enum xs_slab s);

/* A device's registrations. reg is called for each arena, old and new, outside XS_RANK_POOL...
 * never on the data path once the arena is known: xs_pool_key() is a table look-up. */
struct xs_pool_reg {
	/* Registers [addr, addr + len). 0 and *key (lkey) and *handle; or a negative errno. */
	int (*reg)(void *device, void *addr, size_t len, uint32_t *key, void **handle);
	void (*dereg)(void *device, void *handle);
	void *device;
	struct xs_pool_reg *next;
	unsigned index; /* set by the pool */
};
int xs_pool_attach(struct xs_pool_reg *r);
void xs_pool_detach(struct xs_pool_reg *r);
/* The key of memory that came from xs_pool_get(). */
uint32_t xs_pool_key(const struct xs_pool_reg *r, const void *p);

struct xs_pool_info {
	size_t arenas, bytes, used;
	uint64_t registrations;
};
void xs_pool_info(struct xs_pool_info *i);
/* In a forked child: the arenas aren't there. */
void xs_pool_fork_child(void);

#endif

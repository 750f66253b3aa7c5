/* SPDX-License-Identifier: MIT */
/* The pool: sizes, joining, keys, devices that come late, refuse and leave, forked children. */
#include "engine/pool.h"
#include "base/config.h"
#include "base/crit.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define ARENA (2u << 20)

static struct device {
	uint32_t next_key;
	unsigned regs, deregs, allowed;
	uint8_t *addr[64];
} dev_a = {.next_key = 100, .allowed = 64}, dev_b = {.next_key = 500, .allowed = 64};

static int reg(void *device, void *addr, size_t len, uint32_t *key, void **handle)
{
	struct device *d = device;

	if (d->regs - d->deregs >= d->allowed)
		return -ENOMEM;
	CHECK_EQ(len, ARENA);
	CHECK_EQ((uintptr_t)addr % ARENA, 0);
	d->addr[d->next_key % 100] = addr;
	*key = d->next_key++;
	*handle = &d->addr[*key % 100];
	d->regs++;
	return 0;
}

static void dereg(void *device, void *handle)
{
	CHECK(handle != NULL);
	((struct device *)device)->deregs++;
}

static struct xs_pool_reg reg_a = {.reg = reg, .dereg = dereg, .device = &dev_a};
static struct xs_pool_reg reg_b = {.reg = reg, .dereg = dereg, .device = &dev_b};

/* Does the key of p name the arena that it lies in? */
static bool key_fits(const struct xs_pool_reg *r, const struct device *d, const uint8_t *p)
{
	const uint8_t *arena = d->addr[xs_pool_key(r, p) % 100];

	return p >= arena && p < arena + ARENA;
}

static size_t used(void)
{
	struct xs_pool_info i;

	xs_pool_info(&i);
	return i.used;
}

static size_t arenas(void)
{
	struct xs_pool_info i;

	xs_pool_info(&i);
	return i.arenas;
}

static void test_sizes(void)
{
	uint8_t *p[XS_SLABS];

	for (unsigned s = 0; s < XS_SLABS; s++) {
		p[s] = xs_pool_get((enum xs_slab)s);
		CHECK(p[s] != NULL);
		CHECK_EQ((uintptr_t)p[s] % 4096, 0);
		memset(p[s], (int)s + 1, xs_slab_size((enum xs_slab)s));
	}
	for (unsigned s = 0; s < XS_SLABS; s++) {
		CHECK(p[s][0] == s + 1 && p[s][xs_slab_size((enum xs_slab)s) - 1] == s + 1);
		xs_pool_put(p[s], (enum xs_slab)s);
	}
	CHECK_EQ(used(), 0);
	CHECK_EQ(arenas(), 1);
}

/* A whole arena in small pieces, given back, is large pieces again. */
static void test_joining(void)
{
	enum { N = ARENA / 4096 };
	static void *p[N];
	void *big[2];

	for (unsigned i = 0; i < N; i++)
		p[i] = xs_pool_get(XS_SLAB_4K);
	CHECK_EQ(arenas(), 1);
	for (unsigned i = 0; i < N; i++)
		xs_pool_put(p[(i * 7) % N], XS_SLAB_4K);
	big[0] = xs_pool_get(XS_SLAB_1M);
	big[1] = xs_pool_get(XS_SLAB_1M);
	CHECK(big[0] && big[1] && arenas() == 1);
	xs_pool_put(big[0], XS_SLAB_1M);
	xs_pool_put(big[1], XS_SLAB_1M);
}

static void test_devices(void)
{
	void *p[5];

	CHECK_EQ(xs_pool_attach(&reg_a), 0);
	CHECK_EQ(dev_a.regs, 1);
	for (unsigned i = 0; i < 5; i++)
		p[i] = xs_pool_get(XS_SLAB_1M);
	CHECK_EQ(arenas(), 3);
	CHECK_EQ(dev_a.regs, 3);
	CHECK_EQ(xs_pool_attach(&reg_b), 0);
	CHECK_EQ(dev_b.regs, 3);
	for (unsigned i = 0; i < 5; i++)
		CHECK(key_fits(&reg_a, &dev_a, p[i]) && key_fits(&reg_b, &dev_b, p[i]));
	xs_pool_detach(&reg_b);
	CHECK_EQ(dev_b.deregs, 3);
	for (unsigned i = 0; i < 5; i++)
		xs_pool_put(p[i], XS_SLAB_1M);
}

/* A device that may pin no more ends the growth; what there is goes on working. */
static void test_refusal(void)
{
	void *p[7];

	dev_a.allowed = dev_a.regs;
	for (unsigned i = 0; i < 6; i++)
		CHECK((p[i] = xs_pool_get(XS_SLAB_1M)) != NULL);
	p[6] = xs_pool_get(XS_SLAB_1M);
	CHECK(p[6] == NULL);
	CHECK_EQ(arenas(), 3);
	xs_pool_put(p[5], XS_SLAB_1M);
	CHECK((p[6] = xs_pool_get(XS_SLAB_4K)) != NULL);
	xs_pool_put(p[6], XS_SLAB_4K);
	for (unsigned i = 0; i < 5; i++)
		xs_pool_put(p[i], XS_SLAB_1M);
	dev_a.allowed = 64;
	dev_b.allowed = 1;
	CHECK_EQ(xs_pool_attach(&reg_b), -ENOMEM);
	CHECK_EQ(dev_b.regs, dev_b.deregs);
}

static void *worker(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	uint8_t *held[16] = {NULL};
	enum xs_slab size[16];
	struct xs_crit cs;

	xs_crit_enter(&cs);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned n = (unsigned)rand_r(&seed) % 16;

		if (held[n]) {
			if (*held[n] != (uint8_t)n)
				CHECK(!"a piece was given out twice");
			xs_pool_put(held[n], size[n]);
			held[n] = NULL;
			continue;
		}
		size[n] = (enum xs_slab)((unsigned)rand_r(&seed) % 3);
		held[n] = xs_pool_get(size[n]);
		if (held[n])
			*held[n] = (uint8_t)n;
	}
	for (unsigned n = 0; n < 16; n++)
		xs_pool_put(held[n], size[n]);
	xs_crit_leave(&cs);
	return NULL;
}

static void test_threads(void)
{
	pthread_t t[4];

	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, worker, (void *)(i + 1));
	for (unsigned i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK_EQ(used(), 0);
}

static void test_fork(void)
{
	uint8_t *p = xs_pool_get(XS_SLAB_4K);
	int status = -1;
	pid_t pid;

	*p = 7;
	pid = fork();
	if (pid == 0) {
		unsigned char there;
		uint8_t *q;

		xs_pool_fork_child();
		if (mincore((void *)p, 4096, &there) == 0 || errno != ENOMEM)
			_exit(1);
		q = xs_pool_get(XS_SLAB_4K);
		_exit(q && arenas() == 1 ? 0 : 2);
	}
	waitpid(pid, &status, 0);
	CHECK_EQ(status, 0);
	CHECK_EQ(*p, 7);
	xs_pool_put(p, XS_SLAB_4K);
}

int main(void)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	test_sizes();
	test_joining();
	test_devices();
	test_refusal();
	test_threads();
	test_fork();
	xs_crit_leave(&cs);
	return check_done();
}

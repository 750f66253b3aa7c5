/* SPDX-License-Identifier: MIT */
/* The connecting process of the carrier's tests: links, ping-pong, streams, and the figures. */
#include "base/clock.h"
#include "peer.h"

#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shared *shared;
struct sockaddr_storage address;

struct sockaddr_storage at_port(unsigned port)
{
	struct sockaddr_storage a = address;

	((struct sockaddr_in *)&a)->sin_port = htons((uint16_t)port);
	return a;
}

/* --- the client ------------------------------------------------------------------------------- */
struct dial {
	struct xs_link *l;
	struct sockaddr_storage to;
	enum xs_reason why;
};

void do_destroy(void *arg)
{
	xs_rc_ops.destroy(((struct xs_link *)arg)->c);
}

static void do_connect(void *arg)
{
	struct dial *d = arg;
	struct sockaddr_storage local = at_port(4);

	d->why = xs_rc_ops.connect(d->l, &local, &d->to, &d->l->c);
}

/* A link, or NULL; *why: how it ended. */
struct xs_link *dial(struct sockaddr_storage to, enum xs_reason *why)
{
	struct dial d = {.l = calloc(1, sizeof(*d.l)), .to = to};

	d.l->mine = true;
	peer_in_progress(do_connect, &d);
	*why = d.why;
	if (d.why)
		return NULL;
	while (!atomic_load(&d.l->up) && !atomic_load(&d.l->down))
		usleep(500);
	*why = (enum xs_reason)atomic_load(&d.l->why);
	if (atomic_load(&d.l->up))
		return d.l;
	peer_in_progress(do_destroy, d.l);
	free(d.l);
	return NULL;
}

double pingpong(struct xs_link *l, enum xs_lane lane, uint32_t size, int n, bool spin)
{
	uint8_t *buf = xs_pool_get(XS_SLAB_4K);
	uint64_t t0 = 0;

	for (int i = 0; i < n + n / 10; i++) {
		uint64_t before = atomic_load(&l->pongs);

		if (i == n / 10)
			t0 = xs_now_ns();
		if (peer_send(l, lane, PING, 0, 0, buf, size, XS_POST_NOW, spin))
			return -1;
		peer_wait_more(&l->pongs, before, spin);
	}
	xs_pool_put(buf, XS_SLAB_4K);
	return (double)(xs_now_ns() - t0) / n / 1000;
}

/* Sends total bytes in segments of `size` payload bytes; MB/s or -1. */
double stream(struct xs_link *l, enum xs_lane lane, uint32_t size, uint64_t total, bool check,
	      bool spin, bool copy)
{
	/* More buffers than entries: when one is used again, the peer has long had it. */
	enum { RING = 512 };
	static uint8_t *rings[2][RING];
	static uint8_t source[1 << 20];
	uint8_t **ring = rings[lane];
	unsigned n = lane == XS_LANE_SMALL ? RING : 32;
	enum xs_slab big = l->size[lane] > 64 << 10 ? XS_SLAB_256K : XS_SLAB_64K;
	enum xs_slab slab = lane == XS_LANE_SMALL ? XS_SLAB_4K : big;
	uint64_t base = atomic_load(&shared->bytes), sent = 0, t0 = xs_now_ns();

	for (int i = 0; sent < total; i++) {
		uint8_t *buf = ring[(unsigned)i % n];

		if (!buf)
			buf = ring[(unsigned)i % n] = xs_pool_get(slab);
		if (!buf)
			return -1;
		if (check)
			for (uint32_t k = 0; k < size; k++)
				buf[k] = peer_byte(base + sent + k);
		if (copy)
			memcpy(buf, source, size);
		if (peer_send(l, lane, DATA, check ? F_CHECK : 0, base + sent, buf, size,
			      XS_POST_NOW, spin))
			return -1;
		sent += size;
	}
	while (atomic_load(&shared->bytes) < base + sent && !atomic_load(&l->down)) {
		if (spin)
			xs_poll_once();
		spin ? (void)sched_yield() : (void)usleep(200);
	}
	return atomic_load(&l->down) ? -1 : (double)sent * 1000 / (double)(xs_now_ns() - t0);
}

int bench(void)
{
	static const uint32_t sizes[] = {16 << 10, 64 << 10, 128 << 10, 256 << 10};
	enum xs_reason why;
	struct xs_link *l = dial(at_port(PORT), &why);

	if (!l) {
		printf("# %s\n", xs_reason_name(why));
		return 1;
	}
	for (int round = 0; round < 3; round++) {
		for (int spin = 0; spin < 2; spin++) {
			atomic_store(&shared->spin, spin);
			printf("# 64 B ping-pong %s: %.1f us\n", spin ? "yield-polling" : "events",
			       pingpong(l, XS_LANE_SMALL, 64, 1500, spin));
		}
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			for (int spin = 0; spin < 2; spin++) {
				atomic_store(&shared->copy, 1);
				atomic_store(&shared->spin, spin);
				usleep(10000);
				printf("# stream %u KiB, copied, %s: %.1f MB/s\n", sizes[i] >> 10,
				       spin ? "yield-polling" : "events",
				       stream(l, XS_LANE_BULK, sizes[i] - 32, 32 << 20, false, spin,
					      true));
				fflush(stdout);
			}
	}
	return 0;
}

void latency(void)
{
	enum xs_reason why;
	struct xs_link *l = dial(at_port(PORT), &why);

	atomic_store(&shared->spin, 1);
	for (int i = 0; l && i < 5; i++)
		printf("# 64 B ping-pong yield-polling: %.1f us\n",
		       pingpong(l, XS_LANE_SMALL, 64, 3000, true));
}

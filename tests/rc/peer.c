/* SPDX-License-Identifier: MIT */
#include "peer.h"
#include "base/crit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

struct xs_link peer_links[8];
_Atomic unsigned peer_links_n;
bool peer_hold;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Atomic unsigned waiters;

static void tell(void)
{
	if (!atomic_load(&waiters))
		return;
	pthread_mutex_lock(&mutex);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static bool is_set(void *arg)
{
	return atomic_load((_Atomic bool *)arg);
}

struct more {
	_Atomic uint64_t *n;
	uint64_t than;
};

static bool is_more(void *arg)
{
	struct more *m = arg;

	return atomic_load(m->n) > m->than;
}

static void wait_for(bool (*done)(void *), void *arg, bool spin)
{
	struct xs_crit cs;

	if (spin) { /* one critical section, as a door's spin is */
		xs_crit_enter(&cs);
		while (!done(arg)) {
			xs_poll_once();
			sched_yield();
		}
		xs_crit_leave(&cs);
		return;
	}
	atomic_fetch_add(&waiters, 1);
	pthread_mutex_lock(&mutex);
	while (!done(arg))
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
	atomic_fetch_sub(&waiters, 1);
}

void peer_wait(_Atomic bool *flag, bool spin)
{
	wait_for(is_set, flag, spin);
}

void peer_wait_more(_Atomic uint64_t *n, uint64_t than, bool spin)
{
	struct more m = {n, than};

	wait_for(is_more, &m, spin);
}

struct job {
	struct xs_work work;
	void (*fn)(void *);
	void *arg;
	_Atomic bool done;
};

static void run_job(struct xs_work *w)
{
	struct job *j = (struct job *)w;

	j->fn(j->arg);
	atomic_store(&j->done, true);
	tell();
}

void peer_in_progress(void (*fn)(void *arg), void *arg)
{
	static struct job j;

	j.work.fn = run_job;
	j.fn = fn;
	j.arg = arg;
	atomic_store(&j.done, false);
	xs_progress_post(&j.work);
	peer_wait(&j.done, false);
}

/* --- sending ---------------------------------------------------------------------------------- */
static int post(struct xs_link *l, enum xs_lane lane, struct xs_seghdr *h, const void *payload,
		unsigned flags)
{
	uint64_t seq;
	int r = xs_rc_ops.post(l->c, lane, h, payload, flags, &seq);

	if (r == 0)
		atomic_fetch_add(&l->used[lane], 1);
	return r;
}

int peer_send(struct xs_link *l, enum xs_lane lane, uint8_t kind, uint8_t flags, uint64_t offset,
	      const void *payload, uint32_t len, unsigned how, bool spin)
{
	struct xs_seghdr h = {.kind = kind, .flags = flags, .offset = offset, .length = len};
	struct xs_crit cs;
	uint64_t ready;
	int r;

	while (atomic_load(&l->used[lane]) >= atomic_load(&l->granted[lane])) {
		if (atomic_load(&l->down))
			return -ENOTCONN;
		peer_wait_more(&l->granted[lane], atomic_load(&l->used[lane]), spin);
	}
	for (;;) {
		ready = atomic_load(&l->readies);
		h.ack = atomic_load(&l->got[XS_LANE_SMALL]) + l->entries[XS_LANE_SMALL];
		xs_crit_enter(&cs);
		r = post(l, lane, &h, payload, how);
		xs_crit_leave(&cs);
		if (r != -EAGAIN)
			return r;
		peer_wait_more(&l->readies, ready, spin);
	}
}

static void grant(struct xs_link *l)
{
	uint64_t small = atomic_load(&l->got[XS_LANE_SMALL]) + l->entries[XS_LANE_SMALL];
	uint64_t bulk = atomic_load(&l->got[XS_LANE_BULK]) + l->entries[XS_LANE_BULK];
	struct xs_seghdr h = {.kind = CREDIT, .offset = small, .ack = bulk};

	if (small - l->said[XS_LANE_SMALL] < l->entries[XS_LANE_SMALL] / 4 &&
	    bulk - l->said[XS_LANE_BULK] < (l->entries[XS_LANE_BULK] + 3) / 4)
		return;
	if (post(l, XS_LANE_SMALL, &h, NULL, 0))
		return;
	atomic_store(&l->said[XS_LANE_SMALL], small);
	atomic_store(&l->said[XS_LANE_BULK], bulk);
}

/* --- upcalls ---------------------------------------------------------------------------------- */
enum xs_reason xs_link_admit(const struct xs_carrier_ops *ops, const struct sockaddr_storage *peer)
{
	(void)ops;
	(void)peer;
	return (enum xs_reason)shared->refuse;
}

struct xs_link *xs_link_incoming(const struct xs_carrier_ops *ops, struct xs_conduit *c,
				 const struct sockaddr_storage *peer,
				 const struct sockaddr_storage *local)
{
	unsigned n = atomic_load(&peer_links_n);

	(void)ops;
	(void)peer;
	(void)local;
	if (n == 8)
		return NULL;
	peer_links[n].c = c;
	atomic_fetch_add(&peer_links_n, 1);
	return &peer_links[n];
}

void xs_link_up(struct xs_link *l)
{
	xs_rc_ops.entries(l->c, l->entries, l->size);
	for (int i = 0; i < XS_LANES; i++) {
		atomic_store(&l->said[i], l->entries[i]);
		atomic_store(&l->granted[i],
			     l->entries[i]); /* both ends have the same configuration */
	}
	atomic_store(&l->up, true);
	tell();
}

void xs_link_down(struct xs_link *l, enum xs_reason why)
{
	atomic_store(&l->why, (int)why);
	for (int i = 0; i < XS_LANES; i++)
		atomic_store(&l->granted[i], UINT64_MAX / 2);
	atomic_store(&l->down, true);
	tell();
}

static void *give_back(void *buf)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_rc_ops.rx_done(buf);
	xs_crit_leave(&cs);
	return NULL;
}

static void data(struct xs_link *l, const struct xs_seghdr *h, struct xs_rxbuf *buf)
{
	const uint8_t *p = buf->payload;

	if (l->copy_to)
		memcpy(l->copy_to, p, h->length);
	if (h->flags & F_CHECK)
		for (uint32_t i = 0; i < h->length; i++)
			if (p[i] != peer_byte(h->offset + i))
				atomic_fetch_add(&l->wrong, 1);
	if ((h->flags & F_CHECK) && h->offset != atomic_load(&l->bytes))
		atomic_fetch_add(&l->wrong, 1);
	atomic_fetch_add(&l->bytes, h->length);
}

bool xs_link_segment(struct xs_link *l, enum xs_lane lane, const struct xs_seghdr *h,
		     struct xs_rxbuf *buf)
{
	struct xs_seghdr pong = {.kind = PONG, .length = h->length};
	pthread_t t;

	if (!atomic_load(&l->up))
		atomic_store(&l->early, true);
	atomic_fetch_add(&l->got[lane], 1);
	if (h->kind == PING)
		post(l, lane, &pong, buf->payload, XS_POST_NOW);
	else if (h->kind == PONG)
		atomic_fetch_add(&l->pongs, 1);
	else if (h->kind == DATA)
		data(l, h, buf);
	if (h->kind == CREDIT) {
		atomic_store(&l->granted[XS_LANE_SMALL], h->offset);
		atomic_store(&l->granted[XS_LANE_BULK], h->ack);
	}
	if (!peer_hold || pthread_create(&t, NULL, give_back, buf))
		return false;
	pthread_detach(t);
	return true;
}

void xs_link_batch_end(struct xs_link *l)
{
	if (!atomic_load(&l->down))
		grant(l);
	tell();
}

void xs_link_ready(struct xs_link *l)
{
	atomic_fetch_add(&l->readies, 1);
	tell();
}

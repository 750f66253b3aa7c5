/* SPDX-License-Identifier: MIT */
/*
 * A carrier that writes down what is posted and lets the fuzzer say anything back. It holds the
 * library to its own side of the contract: payload stays as it was until its post has completed.
 */
#include "hostile.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crit.h"

#define DEPTH 64
#define INLINE 128u

struct post {
	const uint8_t *payload;
	uint32_t length, sum;
};

struct xs_conduit {
	struct xs_link *link;
	bool down;
	struct xs_work end;
	struct post post[XS_LANES][DEPTH]; /* lock */
	_Atomic uint64_t posted[XS_LANES], completed[XS_LANES];
	_Atomic bool full;
};

struct xs_rdv {
	char unused;
};

struct hostile hostile;
static _Atomic(struct xs_conduit *) now;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;      /* posts */
static pthread_mutex_t poll_lock = PTHREAD_MUTEX_INITIALIZER; /* one thread delivers, or ends it */

/* --- the progress thread --------------------------------------------------------------------- */
static void (*errand)(void);
static sem_t ran;

static void run_errand(struct xs_work *w)
{
	(void)w;
	errand();
	sem_post(&ran);
}

void hostile_in_progress(void (*fn)(void))
{
	static struct xs_work work = {.fn = run_errand};
	static bool begun;

	if (!begun)
		sem_init(&ran, 0, 0);
	begun = true;
	errand = fn;
	xs_progress_post(&work);
	while (sem_wait(&ran) < 0 && errno == EINTR)
		;
}

static void nothing(void)
{
}

bool hostile_await(enum xs_kind kind)
{
	for (int i = 0; i < 8; i++) {
		if (atomic_fetch_and(&hostile.posted, ~(1u << kind)) & 1u << kind)
			return true;
		hostile_in_progress(nothing);
	}
	return false;
}

/* --- the carrier ------------------------------------------------------------------------------ */
static uint32_t sum(const uint8_t *p, uint32_t n)
{
	uint32_t s = n;

	for (uint32_t i = 0; i < n; i++)
		s = s * 31 + p[i];
	return s;
}

static enum xs_reason possible(const struct sockaddr *local, const struct sockaddr *peer)
{
	(void)local;
	(void)peer;
	return XS_R_NONE;
}

static enum xs_reason hear(const struct sockaddr_storage *bound,
			   const struct sockaddr_storage *local, struct xs_rdv **out)
{
	static struct xs_rdv one;

	(void)bound;
	(void)local;
	*out = &one;
	return XS_R_NONE;
}

static void unlisten(struct xs_rdv *r)
{
	(void)r;
}

static struct xs_conduit *make(struct xs_link *l)
{
	struct xs_conduit *c = calloc(1, sizeof(*c));

	if (!c)
		abort();
	c->link = l;
	memset(&hostile, 0, sizeof(hostile));
	atomic_store(&now, c);
	return c;
}

static enum xs_reason dial(struct xs_link *l, const struct sockaddr_storage *local,
			   const struct sockaddr_storage *peer, struct xs_conduit **out)
{
	(void)local;
	(void)peer;
	if (atomic_load(&now))
		return XS_R_NO_QP; /* one at a time */
	*out = make(l);
	return XS_R_NONE;
}

static void entries(struct xs_conduit *c, uint32_t n[XS_LANES], uint32_t size[XS_LANES])
{
	(void)c;
	n[XS_LANE_SMALL] = 64;
	n[XS_LANE_BULK] = 16;
	size[XS_LANE_SMALL] = 4096;
	size[XS_LANE_BULK] = 65536;
}

static void note(const struct xs_seghdr *h, const void *payload)
{
	if (h->kind >= XS_K_MAX)
		abort();
	hostile.last[h->kind] = *h;
	if (h->kind != XS_K_DATA && h->length && h->length <= sizeof(hostile.said[0]))
		memcpy(&hostile.said[h->kind], payload, h->length);
	atomic_fetch_or(&hostile.posted, 1u << h->kind);
}

static int post(struct xs_conduit *c, enum xs_lane lane, const struct xs_seghdr *h, const void *p,
		unsigned flags, uint64_t *seq)
{
	int r = -EAGAIN;
	uint64_t n;

	(void)flags;
	pthread_mutex_lock(&lock);
	n = atomic_load(&c->posted[lane]);
	if (n - atomic_load(&c->completed[lane]) < DEPTH && !atomic_load(&c->full)) {
		c->post[lane][n % DEPTH] =
			(struct post){h->length > INLINE ? p : NULL, h->length, sum(p, h->length)};
		note(h, p);
		*seq = n + 1;
		atomic_store(&c->posted[lane], n + 1);
		r = 0;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static uint64_t completed(struct xs_conduit *c, enum xs_lane lane)
{
	return atomic_load(&c->completed[lane]);
}

static void rx_done(struct xs_rxbuf *buf)
{
	free(buf->payload);
	free(buf);
}

static void info(struct xs_conduit *c, struct xs_link_info *i)
{
	(void)c;
	(void)i;
}

static void end(struct xs_work *w)
{
	struct xs_conduit *c = (struct xs_conduit *)((char *)w - offsetof(struct xs_conduit, end));

	pthread_mutex_lock(&poll_lock);
	if (!c->down) {
		c->down = true;
		atomic_store(&now, NULL);
		xs_link_down(c->link, XS_R_LINK_LOST);
	}
	pthread_mutex_unlock(&poll_lock);
}

static void disconnect(struct xs_conduit *c)
{
	c->end.fn = end;
	xs_progress_post(&c->end);
}

/* Its end may have been posted once more. */
static void bury(struct xs_work *w)
{
	free((char *)w - offsetof(struct xs_conduit, end));
}

static void destroy(struct xs_conduit *c)
{
	c->end.fn = bury;
	if (!xs_progress_post(&c->end) && !atomic_load(&c->end.posted))
		abort();
}

static const struct xs_carrier_ops ops = {
	.name = "hostile",
	.plane = XS_PLANE_TEST,
	.proven = true,
	.possible = possible,
	.listen = hear,
	.unlisten = unlisten,
	.connect = dial,
	.entries = entries,
	.post = post,
	.completed = completed,
	.inline_max = INLINE,
	.rx_done = rx_done,
	.info = info,
	.disconnect = disconnect,
	.destroy = destroy,
};
const struct xs_carrier_ops *const xs_carriers[] = {&ops, NULL};

/* --- what the peer does ----------------------------------------------------------------------- */
static void incoming(void)
{
	struct sockaddr_storage any = {.ss_family = AF_INET};
	struct xs_conduit *c = make(NULL);

	c->link = xs_link_incoming(&ops, c, &any, &any);
	if (c->link) {
		xs_link_up(c->link);
		return;
	}
	atomic_store(&now, NULL);
	free(c);
}

static void go_up(void)
{
	struct xs_conduit *c = atomic_load(&now);

	if (c)
		xs_link_up(c->link);
}

static void go_down(void)
{
	struct xs_conduit *c = atomic_load(&now);

	if (c)
		end(&c->end);
}

bool hostile_incoming(void)
{
	hostile_in_progress(incoming);
	return atomic_load(&now) != NULL;
}

bool hostile_connected(void)
{
	for (int i = 0; i < 50 && !atomic_load(&now); i++)
		hostile_in_progress(nothing);
	hostile_in_progress(go_up);
	return atomic_load(&now) != NULL;
}

void hostile_says(enum xs_lane lane, struct xs_seghdr h, const void *payload, uint32_t n)
{
	struct xs_rxbuf *buf = calloc(1, sizeof(*buf));
	struct xs_conduit *c;
	struct xs_crit cs;

	buf->payload = malloc(n ? n : 1); /* exactly, so that a read behind it is seen */
	buf->length = h.length = n;
	buf->lane = (uint8_t)lane;
	if (n)
		memcpy(buf->payload, payload, n);
	xs_crit_enter(&cs);
	pthread_mutex_lock(&poll_lock);
	c = atomic_load(&now);
	if (!c || !xs_link_segment(c->link, lane, &h, buf))
		rx_done(buf);
	if (c)
		xs_link_batch_end(c->link);
	pthread_mutex_unlock(&poll_lock);
	xs_crit_leave(&cs);
}

static bool complete_lane(struct xs_conduit *c, int lane, unsigned keep)
{
	uint64_t done = atomic_load(&c->completed[lane]), to = atomic_load(&c->posted[lane]);
	bool any = false;

	for (; done + keep < to; done++, any = true) {
		const struct post *p = &c->post[lane][done % DEPTH];

		if (p->payload && sum(p->payload, p->length) != p->sum) {
			fprintf(stderr, "a posted payload was written over\n");
			abort();
		}
	}
	atomic_store(&c->completed[lane], done);
	return any;
}

void hostile_completes(unsigned keep)
{
	struct xs_conduit *c;
	struct xs_crit cs;
	bool any;

	xs_crit_enter(&cs);
	pthread_mutex_lock(&poll_lock);
	c = atomic_load(&now);
	if (c) {
		pthread_mutex_lock(&lock);
		any = complete_lane(c, XS_LANE_SMALL, keep);
		any |= complete_lane(c, XS_LANE_BULK, keep);
		pthread_mutex_unlock(&lock);
		if (any && !atomic_load(&c->full))
			xs_link_ready(c->link);
		xs_link_batch_end(c->link);
	}
	pthread_mutex_unlock(&poll_lock);
	xs_crit_leave(&cs);
}

void hostile_full(bool full)
{
	struct xs_conduit *c;

	pthread_mutex_lock(&poll_lock);
	c = atomic_load(&now);
	if (c)
		atomic_store(&c->full, full);
	pthread_mutex_unlock(&poll_lock);
	hostile_completes(DEPTH);
}

void hostile_dies(void)
{
	hostile_in_progress(go_down);
	hostile_in_progress(nothing);
}

/* SPDX-License-Identifier: MIT */
/*
 * Rings of bytes. Locked: whatever sizes and growth, the bytes come out as they went in, and a
 * hostile side breaks nothing. Unlocked: a storm of signals whose handlers use the same ring and
 * now and then jump away, and another thread that takes the ring back, lose, repeat and reorder
 * nothing.
 */
#include "check.h"

#include "base/bytering.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static struct xs_bytering *ring;
static struct xs_byteout out;
static struct xs_bytein in;

static void fresh(uint64_t x, uint64_t window)
{
	if (!ring)
		ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);
	xs_byteout_open(&out, ring, x, window);
	in = (struct xs_bytein){.bad = false};
	xs_bytein_open(&in, ring, 1, x);
}

/* --- locked ----------------------------------------------------------------------------------- */
static uint8_t at_offset(uint64_t o)
{
	return (uint8_t)(o * 0x9e3779b97f4a7c15u >> 56);
}

static size_t write_some(uint64_t at, size_t want)
{
	static uint8_t buf[1 << 16];
	size_t room = xs_byteout_room(&out);
	struct iovec iov[2] = {{buf, want / 3}, {buf + want / 3, want - want / 3}};
	size_t n = want < room ? want : room;

	for (size_t i = 0; i < want; i++)
		buf[i] = at_offset(at + i);
	xs_byteout_put(&out, iov, 0, n);
	return n;
}

static size_t read_some(uint64_t at, size_t most)
{
	struct iovec iov[2];
	size_t len, done = 0;
	int n = xs_bytein_peek(&in, iov, 2, &len);

	for (int i = 0; i < n; i++) {
		for (size_t j = 0; j < iov[i].iov_len && done < most; j++, done++)
			if (((uint8_t *)iov[i].iov_base)[j] != at_offset(at + done))
				return SIZE_MAX;
	}
	xs_bytein_advance(&in, done);
	return done;
}

/* Writer and reader by turns, in sizes up to the ring's, while it grows as a whole window was used;
 * what the writer keeps is what the reader hasn't read. */
static void locked_round(unsigned seed, uint64_t x)
{
	uint64_t written = x, read = x, most = 0;
	struct iovec kept[2];
	bool good = true;
	size_t n, total;

	srand(seed);
	fresh(x, 4096);
	for (int i = 0; i < 20000 && good; i++) {
		if (rand() % 8 == 0) {
			most = xs_byteout_grow(&out, 1u << XS_BYTE_MOST);
			if (most != UINT64_MAX && rand() % 2)
				written += write_some(written, most < 60000 ? most : 60000);
		}
		written += write_some(written, (size_t)rand() % (rand() % 4 ? 3000 : 60000));
		n = xs_byteout_kept(&out, read, kept);
		total = 0;
		for (size_t k = 0; k < n; k++)
			total += kept[k].iov_len;
		good = total == written - read && xs_bytein_avail(&in) == total;
		n = read_some(read, (size_t)rand() % (rand() % 4 ? 3000 : 60000));
		good = good && n != SIZE_MAX && !in.bad;
		read += n;
		if (written == read && rand() % 16 == 0)
			xs_byteout_shrink(&out, 4096);
	}
	CHECK(good);
	CHECK(out.order > XS_BYTE_LEAST || seed);
}

static void words(void)
{
	fresh(100, 4096);
	CHECK_EQ(write_some(100, 10), 10);
	CHECK(xs_byteout_settle(&out)); /* a new ring is armed */
	CHECK(!xs_byteout_settle(&out));
	CHECK_EQ(xs_bytein_news(&in), 10);
	CHECK_EQ(xs_bytein_news(&in), 0);
	write_some(110, 10);
	CHECK(!xs_byteout_settle(&out)); /* nobody listens */
	xs_bytein_listen(&in, true);
	CHECK_EQ(xs_bytein_news(&in), 10);
	write_some(120, 10);
	CHECK(xs_byteout_settle(&out));
	CHECK_EQ(xs_bytein_news(&in), 10);
	xs_bytein_listen(&in, false);
	write_some(130, 4096);
	CHECK(!xs_byteout_settle(&out));
	CHECK_EQ(xs_byteout_room(&out), 0);
	CHECK(!xs_byteout_starve(&out));
	CHECK_EQ(read_some(100, 1000), 1000);
	CHECK(!xs_bytein_settle(&in)); /* not yet half */
	CHECK_EQ(read_some(1100, 1100), 1100);
	CHECK(xs_bytein_settle(&in));
	CHECK(!xs_bytein_settle(&in));
	CHECK_EQ(xs_byteout_room(&out), 2100);
}

static void hostile(void)
{
	struct iovec iov[2];
	size_t len;

	fresh(1000, 8192);
	write_some(1000, 500);
	atomic_store(&ring->head, 1501); /* more than there is */
	CHECK_EQ(xs_byteout_room(&out), 8192 - 500);
	atomic_store(&ring->head, 999); /* back */
	CHECK_EQ(xs_byteout_room(&out), 8192 - 500);
	atomic_store(&ring->head, 1500);
	CHECK_EQ(xs_byteout_room(&out), 8192);
	atomic_store(&ring->head, 1400);
	CHECK_EQ(xs_byteout_room(&out), 8192);

	atomic_store(&ring->order, 63);
	CHECK_EQ(xs_bytein_peek(&in, iov, 2, &len), 1);
	CHECK_EQ(len, 500);
	CHECK(iov[0].iov_base >= (void *)ring->data &&
	      (char *)iov[0].iov_base + len <= (char *)(ring + 1));
	atomic_store(&ring->order, 0);
	atomic_store(&ring->tail, 1000 + 5000); /* more than such a ring holds */
	CHECK_EQ(xs_bytein_peek(&in, iov, 2, &len), 0);
	CHECK(in.bad);
	fresh(1000, 8192);
	atomic_store(&ring->tail, UINT64_MAX);
	CHECK_EQ(xs_bytein_avail(&in), 0);
	CHECK(in.bad);
	fresh(1000, 8192);
	write_some(1000, 500);
	CHECK_EQ(xs_bytein_news(&in), 500);
	atomic_store(&ring->tail, 1200); /* taken back */
	CHECK_EQ(xs_bytein_avail(&in), 0);
	CHECK(in.bad);
}

/* --- unlocked --------------------------------------------------------------------------------- */
struct record {
	uint32_t source, number;
};

#define RECORDS 400000u
#define SOURCES 2u /* the thread, and its handler */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(void *) slot = &slot;
static const struct xs_byteplace place = {.slot = &slot, .is = &slot};
static uint8_t *came_back[SOURCES]; /* puts that returned */
static uint8_t *read_back[SOURCES];
static uint32_t next[SOURCES];
static uint32_t jumps, handled;
static _Atomic uint64_t unlocked, unlocked_reads, taken_back;
static sigjmp_buf jump_to;
static _Atomic bool over, may_jump;
static pthread_t writer;

static void take(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
	pthread_mutex_lock(&lock);
	if (xs_byte_take_back(&out.side, &in.side))
		taken_back++;
	xs_byteout_settle(&out);
	xs_bytein_settle(&in);
	atomic_store(&ring->armed, 0);
}

static void give(const sigset_t *old)
{
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

/* All of it goes in, by whichever way. */
static void put_record(uint32_t source)
{
	struct record r = {source, next[source]++};
	struct iovec iov = {&r, sizeof(r)};
	bool done = false, news;
	sigset_t old;

	while (!done && !atomic_load(&over)) {
		if (atomic_load(&out.side.owner) == xs_byte_self() &&
		    xs_byte_put(&out, &place, &r, sizeof(r), &news)) {
			unlocked++;
			break;
		}
		take(&old);
		if (xs_byteout_room(&out) >= sizeof(r)) {
			xs_byteout_put(&out, &iov, 0, sizeof(r));
			xs_byteout_settle(&out);
			atomic_store(&out.side.owner, xs_byte_name());
			done = true;
		}
		give(&old);
	}
	if (!atomic_load(&over))
		came_back[source][r.number] = 1;
}

static void storm(int sig)
{
	(void)sig;
	handled++;
	if (next[1] < RECORDS)
		put_record(1);
	if (handled % 5 == 0 && atomic_exchange(&may_jump, false)) {
		jumps++;
		siglongjmp(jump_to, 1);
	}
}

static void *write_records(void *arg)
{
	(void)arg;
	while (next[0] < RECORDS) {
		sigsetjmp(jump_to, 1);
		atomic_store(&may_jump, true);
		for (int i = 0; i < 100 && next[0] < RECORDS; i++)
			put_record(0);
		atomic_store(&may_jump, false);
	}
	return NULL;
}

/* Takes the ring away, and throws signals. */
static void *meddle(void *arg)
{
	struct timespec some = {.tv_nsec = 20000};
	sigset_t old;

	(void)arg;
	for (unsigned i = 0; !atomic_load(&over); i++) {
		nanosleep(&some, NULL);
		pthread_kill(writer, SIGUSR1);
		if (i % 4 == 0) {
			take(&old);
			give(&old);
		}
	}
	return NULL;
}

static size_t read_unlocked(struct record *r)
{
	bool news;
	size_t n = 0;

	if (atomic_load(&in.side.owner) == xs_byte_self())
		n = xs_byte_get(&in, &place, r, sizeof(*r), 1000, &news);
	if (n)
		unlocked_reads++;
	return n;
}

static size_t read_locked(struct record *r)
{
	struct iovec iov[2];
	size_t len, n = 0;
	sigset_t old;
	int pieces;

	take(&old);
	pieces = xs_bytein_peek(&in, iov, 2, &len);
	for (int i = 0; i < pieces && n < sizeof(*r); i++) {
		size_t some = iov[i].iov_len < sizeof(*r) - n ? iov[i].iov_len : sizeof(*r) - n;

		memcpy((char *)r + n, iov[i].iov_base, some);
		n += some;
	}
	if (n == sizeof(*r)) {
		xs_bytein_advance(&in, n);
		xs_bytein_settle(&in);
		atomic_store(&in.side.owner, xs_byte_name());
	}
	give(&old);
	return n;
}

/* Until the writer is done and the ring is empty. */
static bool read_all(void)
{
	uint32_t last[SOURCES] = {0};
	struct record r;

	for (;;) {
		bool ended = pthread_tryjoin_np(writer, NULL) == 0;

		do {
			size_t n = read_unlocked(&r);

			if (!n)
				n = read_locked(&r);
			if (n != sizeof(r)) {
				if (n)
					return false;
				break;
			}
			if (r.source >= SOURCES || r.number >= RECORDS ||
			    read_back[r.source][r.number])
				return false;
			if (r.number < last[r.source])
				return false;
			last[r.source] = r.number;
			read_back[r.source][r.number] = 1;
		} while (true);
		if (ended)
			return true;
	}
}

static void unlocked_test(void)
{
	struct sigaction act = {.sa_handler = storm};
	pthread_t other;
	uint32_t lost = 0;
	bool good;

	if (!xs_byte_usable()) { /* under an emulator, say: then nothing is unlocked */
		CHECK_EQ(xs_byte_name(), 1);
		return;
	}
	for (unsigned i = 0; i < SOURCES; i++) {
		came_back[i] = calloc(RECORDS + 1, 1);
		read_back[i] = calloc(RECORDS + 1, 1);
	}
	sigaction(SIGUSR1, &act, NULL);
	fresh(7, 4096);
	atomic_store(&ring->armed, 0);
	pthread_create(&writer, NULL, write_records, NULL);
	pthread_create(&other, NULL, meddle, NULL);
	good = read_all();
	CHECK(good);
	atomic_store(&over, true);
	if (!good)
		return;
	pthread_join(other, NULL);
	for (unsigned i = 0; i < SOURCES; i++)
		for (uint32_t n = 0; n < next[i]; n++)
			lost += came_back[i][n] && !read_back[i][n];
	CHECK_EQ(lost, 0);
	CHECK(unlocked > RECORDS / 10);
	CHECK(unlocked_reads > 0);
	CHECK(taken_back > 0);
	CHECK(handled > 0 && jumps > 0);
	printf("# unlocked: %llu of %u puts, %llu gets; %u handlers, %u jumped; taken back %llu\n",
	       (unsigned long long)unlocked, next[0] + next[1], (unsigned long long)unlocked_reads,
	       handled, jumps, (unsigned long long)taken_back);
}

/* Another object in the slot, another owner, a word that asks for news: nothing is done. */
static void refusals(void)
{
	char buf[64] = "";
	bool news;

	if (!xs_byte_usable())
		return;
	fresh(0, 4096);
	CHECK_EQ(xs_byte_put(&out, &place, buf, 10, &news), 0); /* nobody's */
	atomic_store(&out.side.owner, xs_byte_name());
	atomic_store(&in.side.owner, xs_byte_name());
	CHECK_EQ(xs_byte_put(&out, &place, buf, 10, &news), 0); /* armed */
	atomic_store(&ring->armed, 0);
	CHECK_EQ(xs_byte_put(&out, &place, buf, 10, &news), 10);
	CHECK(!news);
	atomic_store(&slot, NULL);
	CHECK_EQ(xs_byte_put(&out, &place, buf, 10, &news), 0);
	CHECK_EQ(xs_byte_get(&in, &place, buf, 10, 0, &news), 0);
	atomic_store(&slot, &slot);
	CHECK_EQ(xs_byte_put(&out, &place, buf, 4087, &news), 0); /* doesn't fit */
	CHECK_EQ(xs_byte_get(&in, &place, buf, 64, 0, &news), 10);
	CHECK_EQ(xs_byte_get(&in, &place, buf, 64, 100, &news), 0);
	atomic_store(&ring->starved, 1);
	CHECK_EQ(xs_byte_put(&out, &place, buf, 10, &news), 10);
	CHECK_EQ(xs_byte_get(&in, &place, buf, 64, 0, &news), 10);
	CHECK(news);
	CHECK(xs_bytein_settle(&in));
	CHECK(!xs_byte_take_back(&out.side, &in.side)); /* one's own */
}

int main(void)
{
	for (unsigned seed = 0; seed < 20; seed++)
		locked_round(seed, seed * 0x123456789u);
	words();
	hostile();
	refusals();
	unlocked_test();
	return check_done();
}

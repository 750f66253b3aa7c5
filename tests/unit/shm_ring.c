/* SPDX-License-Identifier: MIT */
/* Shared memory: what goes in comes out, whoever sleeps is woken, and a peer that writes nonsense
 * breaks nothing of ours. The memory is mapped twice, as two processes have it. */
#include "check.h"

#include "link/shm/shm.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MESSAGES 200000u

static struct xs_shm_area *writers, *readers;
static struct xs_shm_out out;
static struct xs_shm_in in;

static void fresh(void)
{
	int fd = -1;

	CHECK_EQ(xs_shm_area_make(&writers, &fd), 0);
	readers = xs_shm_area_map(fd);
	CHECK(readers && readers != writers);
	close(fd);
	xs_shm_out_init(&out, &writers->dir[0]);
	xs_shm_in_init(&in, &readers->dir[0]);
}

static void gone(void)
{
	munmap(writers, sizeof(*writers));
	munmap(readers, sizeof(*readers));
}

static uint64_t mix(uint64_t n)
{
	n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
	n = (n ^ n >> 27) * 0x94d049bb133111ebu;
	return n ^ n >> 31;
}

/* Sizes of both kinds, the largest and the smallest among them. */
static uint32_t length_of(uint64_t n)
{
	uint64_t r = mix(n);

	switch (r % 8) {
	case 0:
		return 0;
	case 1:
		return XS_SHM_INLINE;
	case 2:
		return XS_SHM_INLINE + 1;
	case 3:
		return n % 64 ? 1000 : XS_SHM_CHUNK;
	default:
		return (uint32_t)(r >> 8) % (2 * XS_SHM_INLINE);
	}
}

static void fill(uint8_t *p, uint32_t len, uint64_t n)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(n + i * 7);
}

static bool filled(const uint8_t *p, uint32_t len, uint64_t n)
{
	for (uint32_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)(n + i * 7))
			return false;
	return true;
}

/* False: no room, or no chunk. */
static bool put(uint64_t n, bool *woke)
{
	struct xs_seghdr h = {.kind = XS_K_DATA, .offset = n, .length = length_of(n)};
	uint8_t small[XS_SHM_INLINE];
	int chunk = -1;

	if (!xs_shm_out_room(&out))
		return false;
	if (h.length > XS_SHM_INLINE) {
		chunk = xs_shm_out_chunk(&out);
		if (chunk < 0)
			return false;
	}
	fill(chunk < 0 ? small : out.d->chunk[chunk], h.length, n);
	*woke = xs_shm_out_put(&out, &h, small, chunk);
	return true;
}

/* --- order, content, chunks that come back in any order --------------------------------------- */
static void test_alone(void)
{
	struct {
		int chunk;
		uint16_t use;
		uint32_t length;
		uint64_t n;
	} held[XS_SHM_CHUNKS];
	struct xs_shm_got got;
	unsigned held_n = 0;
	bool woke;

	fresh();
	CHECK_EQ(xs_shm_in_look(&in, &got), XS_SHM_NONE);
	for (uint64_t w = 0, r = 0, turn = 0; r < 20000; turn++) {
		while (w < 20000 && mix(w + turn) % 4 && put(w, &woke)) {
			CHECK(!woke);
			w++;
		}
		if (xs_shm_in_look(&in, &got) == XS_SHM_GOT) {
			if (got.h.offset != r || got.h.length != length_of(r) ||
			    !filled(got.payload, got.h.length, r))
				CHECK(!"what came is what was sent");
			if (got.chunk >= 0) {
				held[held_n].chunk = got.chunk;
				held[held_n].use = got.use;
				held[held_n].length = got.h.length;
				held[held_n++].n = r;
			}
			xs_shm_in_next(&in);
			r++;
		}
		/* A held chunk isn't written again before it's given back. */
		while (held_n && (held_n == XS_SHM_CHUNKS || mix(turn + held_n) % 3 == 0)) {
			unsigned i = (unsigned)(mix(turn) % held_n);

			if (!filled(in.d->chunk[held[i].chunk], held[i].length, held[i].n))
				CHECK(!"a held chunk stays as it was");
			xs_shm_in_done(in.d, held[i].chunk, held[i].use);
			held[i] = held[--held_n];
		}
	}
	gone();
}

static void test_full(void)
{
	struct xs_seghdr h = {.kind = XS_K_DATA};
	struct xs_shm_got got;

	fresh();
	for (unsigned i = 0; i < XS_SHM_SLOTS; i++) {
		CHECK(xs_shm_out_room(&out));
		xs_shm_out_put(&out, &h, NULL, -1);
	}
	CHECK(!xs_shm_out_room(&out));
	CHECK_EQ(xs_shm_in_look(&in, &got), XS_SHM_GOT);
	xs_shm_in_next(&in);
	CHECK(xs_shm_out_room(&out));
	xs_shm_out_put(&out, &h, NULL, -1);
	CHECK(!xs_shm_out_room(&out));
	for (unsigned i = 0; i < XS_SHM_CHUNKS; i++)
		CHECK(xs_shm_out_chunk(&out) >= 0);
	CHECK_EQ(xs_shm_out_chunk(&out), -1);
	gone();
}

/* --- a peer that writes what it likes --------------------------------------------------------- */
static void test_hostile_writer(void)
{
	struct xs_shm_slot *s;
	struct xs_shm_got got;

	fresh();
	s = &writers->dir[0].slot[0];
	atomic_store(&s->turn, 1);
	s->h.length = XS_SHM_INLINE + 1;
	CHECK_EQ(xs_shm_in_look(&in, &got), XS_SHM_BAD);
	s->h.length = UINT32_MAX;
	CHECK_EQ(xs_shm_in_look(&in, &got), XS_SHM_BAD);
	s->chunk = XS_SHM_CHUNKS;
	CHECK_EQ(xs_shm_in_look(&in, &got), XS_SHM_BAD);
	s->h.length = XS_SHM_CHUNK + 1;
	CHECK_EQ(xs_shm_in_look(&in, &got), XS_SHM_BAD);
	s->h.length = XS_SHM_CHUNK;
	CHECK_EQ(xs_shm_in_look(&in, &got), XS_SHM_GOT);
	CHECK((uint8_t *)got.payload + got.h.length <= (uint8_t *)(&readers->dir[0] + 1));
	s->chunk = XS_SHM_CHUNKS + 1;
	CHECK_EQ(xs_shm_in_look(&in, &got), XS_SHM_BAD);
	s->chunk = UINT16_MAX;
	CHECK_EQ(xs_shm_in_look(&in, &got), XS_SHM_BAD);
	atomic_store(&s->turn, 2); /* of another lap */
	CHECK_EQ(xs_shm_in_look(&in, &got), XS_SHM_NONE);
	gone();
}

static void test_hostile_reader(void)
{
	struct xs_seghdr h = {.kind = XS_K_DATA};

	fresh();
	for (unsigned i = 0; i < XS_SHM_SLOTS; i++)
		xs_shm_out_put(&out, &h, NULL, -1);
	/* It has taken what wasn't written, or less than before. */
	atomic_store(&readers->dir[0].head, XS_SHM_SLOTS + 1);
	CHECK(!xs_shm_out_room(&out));
	atomic_store(&readers->dir[0].head, UINT64_MAX);
	CHECK(!xs_shm_out_room(&out));
	atomic_store(&readers->dir[0].head, 1);
	CHECK(xs_shm_out_room(&out));
	/* It gives back what it never had, with all counts that there are. */
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < XS_SHM_CHUNKS; i++)
			CHECK(xs_shm_out_chunk(&out) >= 0);
		CHECK_EQ(xs_shm_out_chunk(&out), -1);
		for (unsigned i = 0; i < XS_SHM_CHUNKS; i++)
			xs_shm_in_done(&readers->dir[0], (int)i, (uint16_t)(round + 1));
	}
	gone();
}

/* --- sleeping --------------------------------------------------------------------------------- */
static int wake_pipe[2];
static unsigned wakes;

static void *writer(void *arg)
{
	bool woke = false;

	(void)arg;
	for (uint64_t n = 0; n < MESSAGES; n++) {
		while (!put(n, &woke))
			sched_yield();
		if (woke && write(wake_pipe[1], "", 1) == 1)
			wakes++;
		if (mix(n) % 512 == 0) /* let the reader fall asleep */
			usleep(50);
	}
	return NULL;
}

static bool take_all(uint64_t *r)
{
	struct xs_shm_got got;
	bool some = false;

	while (xs_shm_in_look(&in, &got) == XS_SHM_GOT) {
		if (got.h.offset != *r || got.h.length != length_of(*r) ||
		    !filled(got.payload, got.h.length, *r))
			CHECK(!"what came is what was sent");
		if (got.chunk >= 0)
			xs_shm_in_done(in.d, got.chunk, got.use);
		xs_shm_in_next(&in);
		++*r;
		some = true;
	}
	return some;
}

/* A lost wake would leave it here until the alarm. */
static void test_two_threads(void)
{
	struct pollfd pfd = {.events = POLLIN};
	unsigned arms = 0;
	uint64_t r = 0;
	pthread_t id;
	char byte;

	fresh();
	CHECK_EQ(pipe(wake_pipe), 0);
	pfd.fd = wake_pipe[0];
	CHECK_EQ(pthread_create(&id, NULL, writer, NULL), 0);
	while (r < MESSAGES) {
		if (take_all(&r))
			continue;
		if (!xs_shm_in_armed(&in)) {
			xs_shm_in_arm(&in);
			arms++;
		}
		if (take_all(&r))
			continue;
		while (poll(&pfd, 1, -1) != 1)
			;
		CHECK_EQ(read(wake_pipe[0], &byte, 1), 1);
	}
	pthread_join(id, NULL);
	CHECK(wakes <= arms);
	CHECK(arms > 0);
	close(wake_pipe[0]);
	close(wake_pipe[1]);
	gone();
}

/* --- memory that's offered -------------------------------------------------------------------- */
static int sealed(size_t size, unsigned flags, int seals)
{
	int fd = memfd_create("offer", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool refused(int fd)
{
	struct xs_shm_area *a = xs_shm_area_map(fd);

	if (a)
		munmap(a, sizeof(*a));
	close(fd);
	return !a;
}

static void test_offers(void)
{
	const int fixed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	const size_t size = sizeof(struct xs_shm_area);
	int fd;

	CHECK(!refused(sealed(size, 0, fixed)));
	CHECK(refused(sealed(size, 0, F_SEAL_GROW | F_SEAL_SEAL)));
	CHECK(refused(sealed(size, 0, F_SEAL_SHRINK | F_SEAL_SEAL)));
	CHECK(refused(sealed(size, 0, F_SEAL_SHRINK | F_SEAL_GROW)));
	CHECK(refused(sealed(size, 0, fixed | F_SEAL_WRITE)));
	CHECK(refused(sealed(size - 4096, 0, fixed)));
	CHECK(refused(sealed(size + 4096, 0, fixed)));
	CHECK(refused(sealed(0, 0, fixed)));
	CHECK(refused(open("/dev/zero", O_RDWR)));
	CHECK(refused(open("/dev/shm", O_TMPFILE | O_RDWR, 0600)));
	CHECK(refused(-1));
	/* Of huge pages, which may not be there when they're touched. */
	fd = sealed(size + (2 << 20) - size % (2 << 20), MFD_HUGETLB, fixed);
	if (fd >= 0)
		CHECK(refused(fd));
}

int main(void)
{
	alarm(120);
	test_alone();
	test_full();
	test_hostile_writer();
	test_hostile_reader();
	test_two_threads();
	test_offers();
	return check_done();
}

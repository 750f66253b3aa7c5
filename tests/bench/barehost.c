// SPDX-License-Identifier: MIT
/*
 * What this host gives at most between two processes, without any library: a ring in shared memory,
 * and Unix stream sockets.
 *
 *   barehost ring|unix pingpong SIZE COUNT
 *   barehost ring|unix stream SIZE COUNT
 *
 * A parent and its child. The ring is one of bytes for each direction, with an index of each side
 * on a cache line of its own; nobody ever sleeps: a side that has to wait spins, and lets others
 * run after a while. Unix sockets block. A message is filled in by its writer and copied out by its
 * reader. One JSON line, as pingpong and stream print it.
 */
#include "bench.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RING = 1 << 18, SPINS = 20000 };

struct ring {
	_Alignas(64) _Atomic uint64_t written;
	_Alignas(64) _Atomic uint64_t read;
	_Alignas(64) char data[RING];
};

struct end {
	struct ring *in, *out; /* NULL: it's a socket */
	uint64_t written, may_write, read, may_read;
	int fd;
};

/* Waits until the other side's index has passed what's known of it. */
static uint64_t await_move(_Atomic uint64_t *index, uint64_t known)
{
	uint64_t now;

	for (unsigned spin = 1;; spin++) {
		now = atomic_load_explicit(index, memory_order_acquire);
		if (now != known)
			return now;
		if (spin % SPINS == 0)
			sched_yield();
		else
			__builtin_ia32_pause();
	}
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void ring_write(struct end *end, const char *from, size_t size)
{
	while (size > 0) {
		size_t at = end->written % RING, room = RING - (end->written - end->may_write);
		size_t step = least(size, least(room, RING - at));

		if (step == 0) {
			end->may_write = await_move(&end->out->read, end->may_write);
			continue;
		}
		memcpy(end->out->data + at, from, step);
		end->written += step;
		atomic_store_explicit(&end->out->written, end->written, memory_order_release);
		from += step;
		size -= step;
	}
}

static void ring_read(struct end *end, char *to, size_t size)
{
	while (size > 0) {
		size_t at = end->read % RING;
		size_t step = least(size, least(end->may_read - end->read, RING - at));

		if (step == 0) {
			end->may_read = await_move(&end->in->written, end->may_read);
			continue;
		}
		memcpy(to, end->in->data + at, step);
		end->read += step;
		atomic_store_explicit(&end->in->read, end->read, memory_order_release);
		to += step;
		size -= step;
	}
}

static void put(struct end *end, const char *from, size_t size)
{
	if (end->out)
		ring_write(end, from, size);
	else
		bench_send_all(end->fd, from, size);
}

static void get(struct end *end, char *to, size_t size)
{
	if (end->in)
		ring_read(end, to, size);
	else if (bench_recv_all(end->fd, to, size) != size)
		bench_die("end of stream");
}

static void make_ends(const char *how, struct end ends[2])
{
	struct ring *rings;
	int pair[2];

	memset(ends, 0, 2 * sizeof(*ends));
	if (strcmp(how, "unix") == 0) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
			bench_die("socketpair");
		ends[0].fd = pair[0];
		ends[1].fd = pair[1];
		return;
	}
	rings = mmap(NULL, 2 * sizeof(*rings), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (rings == MAP_FAILED)
		bench_die("mmap");
	ends[0].out = ends[1].in = &rings[0];
	ends[0].in = ends[1].out = &rings[1];
}

/* The first quarter is a warm-up. */
static void pingpong(struct end *end, bool first, char *buffer, size_t size, uint64_t count)
{
	struct bench_samples samples;
	uint64_t started = 0;

	bench_samples_init(&samples, count);
	for (uint64_t i = 0; i < count + count / 4; i++) {
		uint64_t before = bench_now_ns();

		if (i == count / 4)
			started = before;
		if (first)
			put(end, buffer, size);
		get(end, buffer, size);
		if (!first)
			put(end, buffer, size);
		if (i >= count / 4)
			bench_samples_add(&samples, bench_now_ns() - before);
	}
	if (first)
		bench_samples_print(&samples, bench_now_ns() - started);
}

static void stream(struct end *end, bool first, char *buffer, size_t size, uint64_t count)
{
	uint64_t started = 0, elapsed;
	char done = 1;

	for (uint64_t i = 0; i < count + count / 4; i++) {
		if (i == count / 4)
			started = bench_now_ns();
		if (first)
			put(end, buffer, size);
		else
			get(end, buffer, size);
	}
	if (!first) {
		put(end, &done, 1);
		return;
	}
	get(end, &done, 1);
	elapsed = bench_now_ns() - started;
	printf("{\"mb_s\": %.2f, \"bytes\": %llu, \"seconds\": %.3f}\n",
	       (double)count * (double)size * 1e3 / (double)elapsed,
	       (unsigned long long)(count * size), (double)elapsed / 1e9);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct end ends[2];
	size_t size = argc == 5 ? strtoull(argv[3], NULL, 10) : 0;
	uint64_t count = argc == 5 ? strtoull(argv[4], NULL, 10) : 0;
	bool first, streams = argc == 5 && strcmp(argv[2], "stream") == 0;
	int status = 0;
	pid_t child;

	if (size == 0 || count == 0 || (strcmp(argv[1], "ring") && strcmp(argv[1], "unix"))) {
		fprintf(stderr, "usage: barehost ring|unix pingpong|stream SIZE COUNT\n");
		return 2;
	}
	make_ends(argv[1], ends);
	child = fork();
	if (child < 0)
		bench_die("fork");
	first = child != 0;
	(streams ? stream : pingpong)(&ends[!first], first, bench_alloc(size), size, count);
	if (!first)
		return 0;
	return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

/* SPDX-License-Identifier: MIT */
/*
 * What the benchmark programs share: a clock, a set of latency samples printed as one JSON line,
 * options of the form --name value, and plain TCP set-up. They are ordinary programs: none knows
 * that the shim exists, so the same binary runs bare and preloaded.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum bench_wait {
	BENCH_BLOCK, /* sleep in the receiving call */
	BENCH_EPOLL, /* sleep in epoll_wait, then receive without blocking */
	BENCH_YIELD, /* never sleep: receive without blocking, sched_yield between */
	BENCH_SPIN,  /* never sleep, never yield */
};

struct bench_samples {
	uint64_t *ns;
	size_t used, room;
	uint64_t cpu_ns; /* of both ends, 0 when it isn't known */
};

/* Prints the message, with errno's text if errno is set, and exits with status 1. */
void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

uint64_t bench_now_ns(void);
/* Processor time of this process and of another one of this host (0: none), until now. */
uint64_t bench_cpu_ns(pid_t other);
void *bench_alloc(size_t size);

void bench_samples_init(struct bench_samples *samples, size_t room);
void bench_samples_add(struct bench_samples *samples, uint64_t ns);
/*
 * {"mean_us", "p50_us", "p99_us", "count", "ops_s", "cpu_s"}; elapsed is the wall time of all of
 * them.
 */
void bench_samples_print(struct bench_samples *samples, uint64_t elapsed_ns);

/* The value of --name in argv, or fallback. Dies on a value that isn't a number. */
const char *bench_option(int argc, char **argv, const char *name, const char *fallback);
uint64_t bench_number(int argc, char **argv, const char *name, uint64_t fallback);
enum bench_wait bench_wait_from(const char *name);

/* Listens on host and port (port 0 = any) and prints "listening PORT". */
int bench_listen(const char *host, const char *port);
int bench_accept(int listener);
int bench_connect(const char *host, const char *port);
void bench_send_all(int fd, const void *data, size_t size);
/* Returns the bytes received: fewer than size only at end of stream. */
size_t bench_recv_all(int fd, void *data, size_t size);

#endif

// SPDX-License-Identifier: MIT
/*
 * Many connections over TCP, of which few are busy; and short ones, one after the other.
 *
 *   crowd server PORT [--bind ADDRESS]
 *   crowd client HOST PORT --connections N --active N --seconds S [--warm ROUNDS] [--peer PID]
 *   crowd short HOST PORT COUNT [--peer PID]
 *
 * The server is an epoll loop that echoes messages of 64 bytes, until the client's first connection
 * ends, the last one to be closed. Client: ROUNDS (12) round trips on each connection, so that all
 * of them may have changed their plane, then the active ones keep one message each in flight,
 * through an epoll loop. Short: connect, one request, close. Both print one JSON line.
 */
#include "bench.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SIZE = 64, BATCH = 64, SLICE = 100 };

static void allow_many_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int make_set(void)
{
	int set = epoll_create1(EPOLL_CLOEXEC);

	if (set < 0)
		bench_die("epoll_create1");
	return set;
}

static void watch(int set, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) < 0)
		bench_die("epoll_ctl");
}

/* False when the connection has ended. */
static bool echo(int fd)
{
	char message[SIZE];
	size_t got = bench_recv_all(fd, message, SIZE);

	if (got == SIZE)
		bench_send_all(fd, message, SIZE);
	else
		close(fd);
	return got == SIZE;
}

static int serve(const char *host, const char *port)
{
	int listener = bench_listen(host, port), set = make_set(), first = -1;
	struct epoll_event events[BATCH];

	watch(set, listener);
	for (;;) {
		int count = epoll_wait(set, events, BATCH, -1);

		if (count < 0 && errno != EINTR)
			bench_die("epoll_wait");
		for (int i = 0; i < count; i++) {
			int fd = events[i].data.fd;

			if (fd == listener) {
				fd = bench_accept(listener);
				watch(set, fd);
				first = first < 0 ? fd : first;
			} else if (!echo(fd) && fd == first) {
				return 0;
			}
		}
	}
}

static void round_trip(int fd)
{
	char message[SIZE] = {0};

	bench_send_all(fd, message, SIZE);
	if (bench_recv_all(fd, message, SIZE) != SIZE)
		bench_die("end of stream");
}

/* A slice at a time, so that no queue of the kernel has to take all of them at once. */
static void warm_up(const int *fds, uint64_t connections, uint64_t rounds)
{
	char message[SIZE] = {0};

	for (uint64_t from = 0; from < connections * rounds; from += SLICE) {
		uint64_t until = from + SLICE;

		if (until > connections * rounds)
			until = connections * rounds;
		for (uint64_t i = from; i < until; i++)
			bench_send_all(fds[i % connections], message, SIZE);
		for (uint64_t i = from; i < until; i++)
			if (bench_recv_all(fds[i % connections], message, SIZE) != SIZE)
				bench_die("end of stream");
	}
}

/* The active ones are spread over all of them. Returns the round trips. */
static uint64_t keep_busy(const int *fds, uint64_t connections, uint64_t active, uint64_t until)
{
	struct epoll_event events[BATCH];
	char message[SIZE] = {0};
	uint64_t done = 0, pending = active;
	int set = make_set();

	for (uint64_t i = 0; i < active; i++) {
		watch(set, fds[i * connections / active]);
		bench_send_all(fds[i * connections / active], message, SIZE);
	}
	while (pending > 0) {
		int count = epoll_wait(set, events, BATCH, -1);
		bool more = bench_now_ns() < until;

		for (int i = 0; i < count; i++) {
			if (bench_recv_all(events[i].data.fd, message, SIZE) != SIZE)
				bench_die("end of stream");
			done++;
			if (more)
				bench_send_all(events[i].data.fd, message, SIZE);
			else
				pending--;
		}
	}
	close(set);
	return done;
}

static void report(uint64_t done, uint64_t elapsed, uint64_t cpu)
{
	printf("{\"ops_s\": %.0f, \"count\": %llu, \"seconds\": %.3f, \"cpu_s\": %.4f}\n",
	       (double)done * 1e9 / (double)elapsed, (unsigned long long)done,
	       (double)elapsed / 1e9, (double)cpu / 1e9);
	fflush(stdout);
}

static int run_crowd(int argc, char **argv, pid_t server)
{
	uint64_t connections = bench_number(argc, argv, "connections", 1);
	uint64_t active = bench_number(argc, argv, "active", 1);
	uint64_t seconds = bench_number(argc, argv, "seconds", 1);
	int *fds = bench_alloc(connections * sizeof(*fds));
	uint64_t started, used, done;

	if (active == 0 || active > connections || seconds == 0)
		bench_die("active connections are at least 1 and at most all");
	for (uint64_t i = 0; i < connections; i++)
		fds[i] = bench_connect(argv[2], argv[3]);
	warm_up(fds, connections, bench_number(argc, argv, "warm", 12));
	/* Then for a second as it's measured, so that what moves late has moved. */
	keep_busy(fds, connections, active, bench_now_ns() + 1000000000u);
	used = bench_cpu_ns(server);
	started = bench_now_ns();
	done = keep_busy(fds, connections, active, started + seconds * 1000000000u);
	report(done, bench_now_ns() - started, bench_cpu_ns(server) - used);
	for (uint64_t i = connections; i > 0; i--)
		close(fds[i - 1]);
	return 0;
}

static int run_short(char **argv, pid_t server)
{
	uint64_t count = strtoull(argv[4], NULL, 10), started, used;
	int first = bench_connect(argv[2], argv[3]);

	round_trip(first);
	used = bench_cpu_ns(server);
	started = bench_now_ns();
	for (uint64_t i = 0; i < count; i++) {
		int fd = bench_connect(argv[2], argv[3]);

		round_trip(fd);
		close(fd);
	}
	report(count, bench_now_ns() - started, bench_cpu_ns(server) - used);
	close(first);
	return 0;
}

int main(int argc, char **argv)
{
	pid_t server = (pid_t)bench_number(argc, argv, "peer", 0);

	allow_many_descriptors();
	if (argc >= 3 && strcmp(argv[1], "server") == 0)
		return serve(bench_option(argc, argv, "bind", "0.0.0.0"), argv[2]);
	if (argc >= 4 && strcmp(argv[1], "client") == 0)
		return run_crowd(argc, argv, server);
	if (argc >= 5 && strcmp(argv[1], "short") == 0)
		return run_short(argv, server);
	fprintf(stderr, "usage: crowd server PORT [--bind ADDRESS]\n"
			"       crowd client HOST PORT --connections N --active N --seconds S "
			"[--warm ROUNDS] [--peer PID]\n"
			"       crowd short HOST PORT COUNT [--peer PID]\n");
	return 2;
}

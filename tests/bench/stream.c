// SPDX-License-Identifier: MIT
/*
 * One-way stream over TCP: the client writes, the server reads into a buffer of the write's size.
 *
 *   stream server PORT [--bind ADDRESS]
 *   stream client HOST PORT SIZE (--bytes N | --seconds N) [--connections N] [--warm BYTES]
 *                 [--settle MS] [--rate BYTES] [--peer PID]
 *
 * For the first MS milliseconds (0) each connection sends single bytes back and forth: it may
 * change its plane meanwhile. N bytes are those of each connection. The receiver's clock counts: it
 * starts when the warm-up bytes have arrived and stops with the last byte, then the receiver
 * acknowledges with its figures and the client prints the sum over all connections as one JSON
 * line. With --hold 1 the client of one connection says "settled" and waits for a byte on its
 * standard input before it streams, and keeps the connection open until that input ends: counters
 * of the living process can be read meanwhile.
 *
 * --rate BYTES holds the load at that many a second: each millisecond what's due is written. The
 * processor time of both ends needs the server's PID.
 */
#include "bench.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 256 };

struct hello {
	uint32_t size;
	uint32_t connections;
	uint64_t total; /* 0: until end of stream */
	uint64_t warm;
};

struct result {
	uint64_t bytes; /* after the warm-up */
	uint64_t started_ns, ended_ns;
};

struct client {
	pthread_t thread;
	const char *host, *port;
	struct hello hello;
	uint64_t seconds, settle_ms, rate;
	pid_t server;
	struct result result;
	uint64_t cpu_ns; /* of both processes */
	bool hold;
};

/* The client sends zeros, and a one to end it. */
static void answer_settling(int fd)
{
	char byte = 0;

	while (!byte) {
		if (bench_recv_all(fd, &byte, 1) != 1)
			bench_die("the client went away");
		bench_send_all(fd, &byte, 1);
	}
}

static void settle(int fd, uint64_t ms)
{
	uint64_t until = bench_now_ns() + ms * 1000000u;
	char byte = 0, back;

	while (!byte) {
		byte = bench_now_ns() >= until;
		bench_send_all(fd, &byte, 1);
		if (bench_recv_all(fd, &back, 1) != 1)
			bench_die("the server went away");
	}
}

static void count_stream(int fd, const struct hello *hello, struct result *result)
{
	char *buffer = bench_alloc(hello->size);
	uint64_t got = 0;

	memset(result, 0, sizeof(*result));
	if (hello->warm == 0)
		result->started_ns = bench_now_ns();
	while (hello->total == 0 || got < hello->total) {
		ssize_t step = recv(fd, buffer, hello->size, 0);

		if (step < 0 && errno == EINTR)
			continue;
		if (step < 0)
			bench_die("recv");
		if (step == 0)
			break;
		got += (uint64_t)step;
		if (result->started_ns)
			result->bytes += (uint64_t)step;
		else if (got >= hello->warm)
			result->started_ns = bench_now_ns();
	}
	result->ended_ns = bench_now_ns();
	if (got < hello->total)
		bench_die("end of stream after %llu bytes", (unsigned long long)got);
	free(buffer);
}

static void serve_one(int fd, const struct hello *hello)
{
	struct result result;
	char rest;

	answer_settling(fd);
	count_stream(fd, hello, &result);
	bench_send_all(fd, &result, sizeof(result));
	/* The client closes first, so that its port isn't left in TIME_WAIT on our side. */
	bench_recv_all(fd, &rest, sizeof(rest));
	close(fd);
}

struct server {
	pthread_t thread;
	int fd;
	struct hello hello;
};

static void *serve_thread(void *arg)
{
	struct server *server = arg;

	serve_one(server->fd, &server->hello);
	return NULL;
}

static int serve(const char *host, const char *port)
{
	static struct server servers[MAX_CONNECTIONS];
	int listener = bench_listen(host, port);
	uint32_t expected = 1;

	for (uint32_t i = 0; i < expected; i++) {
		struct server *server = &servers[i];

		server->fd = bench_accept(listener);
		if (bench_recv_all(server->fd, &server->hello, sizeof(server->hello)) !=
		    sizeof(server->hello))
			bench_die("the client went away");
		expected = server->hello.connections;
		if (expected == 0 || expected > MAX_CONNECTIONS)
			bench_die("%u connections", expected);
		/* One stream needs no thread: it's then the plainest program possible. */
		if (expected == 1)
			serve_one(server->fd, &server->hello);
		else if (pthread_create(&server->thread, NULL, serve_thread, server))
			bench_die("thread");
	}
	for (uint32_t i = 0; expected > 1 && i < expected; i++)
		pthread_join(servers[i].thread, NULL);
	close(listener);
	return 0;
}

static void print_sum(const struct client *clients, uint32_t count)
{
	struct result sum = clients[0].result;

	for (uint32_t i = 1; i < count; i++) {
		const struct result *one = &clients[i].result;

		sum.bytes += one->bytes;
		if (one->started_ns < sum.started_ns)
			sum.started_ns = one->started_ns;
		if (one->ended_ns > sum.ended_ns)
			sum.ended_ns = one->ended_ns;
	}
	if (sum.ended_ns <= sum.started_ns || sum.bytes == 0)
		bench_die("nothing was measured: the warm-up is longer than the run");
	printf("{\"mb_s\": %.2f, \"bytes\": %llu, \"seconds\": %.3f, \"connections\": %u, "
	       "\"cpu_s\": %.4f}\n",
	       (double)sum.bytes * 1e3 / (double)(sum.ended_ns - sum.started_ns),
	       (unsigned long long)sum.bytes, (double)(sum.ended_ns - sum.started_ns) / 1e9, count,
	       (double)clients[0].cpu_ns / 1e9);
	fflush(stdout);
}

/* Counters of the settled process can be read now. */
static void await_start(void)
{
	char go;

	puts("settled");
	fflush(stdout);
	if (read(STDIN_FILENO, &go, 1) != 1)
		bench_die("nobody says that it may start");
}

static void hold_open(const struct client *client)
{
	char rest;

	print_sum(client, 1);
	while (read(STDIN_FILENO, &rest, 1) > 0)
		;
}

/* Sleeps, so that the load's own cost is small, and catches up with whatever a sleep was late. */
static void send_paced(int fd, const char *buffer, const struct client *client)
{
	uint64_t size = client->hello.size, left = client->hello.total, started = bench_now_ns();
	struct timespec tick = {.tv_nsec = 1000000};

	while (left > 0) {
		uint64_t elapsed = bench_now_ns() - started;
		double due = (double)elapsed * (double)client->rate / 1e9;

		while (left > 0 && (double)(client->hello.total - left) < due) {
			uint64_t step = left < size ? left : size;

			bench_send_all(fd, buffer, step);
			left -= step;
		}
		nanosleep(&tick, NULL);
	}
}

static void send_total(int fd, const char *buffer, const struct client *client)
{
	uint64_t size = client->hello.size, left = client->hello.total;

	while (left > 0) {
		uint64_t step = left < size ? left : size;

		bench_send_all(fd, buffer, step);
		left -= step;
	}
}

static void *client_thread(void *arg)
{
	struct client *client = arg;
	size_t size = client->hello.size;
	char *buffer = bench_alloc(size);
	int fd = bench_connect(client->host, client->port);
	uint64_t deadline, used;

	bench_send_all(fd, &client->hello, sizeof(client->hello));
	settle(fd, client->settle_ms);
	if (client->hold)
		await_start();
	deadline = bench_now_ns() + client->seconds * 1000000000u;
	used = bench_cpu_ns(client->server);
	if (client->rate)
		send_paced(fd, buffer, client);
	else
		send_total(fd, buffer, client);
	if (client->hello.total == 0) {
		while (bench_now_ns() < deadline)
			bench_send_all(fd, buffer, size);
		shutdown(fd, SHUT_WR);
	}
	if (bench_recv_all(fd, &client->result, sizeof(client->result)) != sizeof(client->result))
		bench_die("the receiver didn't acknowledge");
	if (client->server)
		client->cpu_ns = bench_cpu_ns(client->server) - used;
	if (client->hold)
		hold_open(client);
	close(fd);
	free(buffer);
	return NULL;
}

static int run_clients(const struct client *pattern)
{
	static struct client clients[MAX_CONNECTIONS];
	uint32_t count = pattern->hello.connections;

	for (uint32_t i = 0; i < count; i++)
		clients[i] = *pattern;
	if (count == 1)
		client_thread(&clients[0]);
	for (uint32_t i = 0; count > 1 && i < count; i++)
		if (pthread_create(&clients[i].thread, NULL, client_thread, &clients[i]))
			bench_die("thread");
	for (uint32_t i = 0; count > 1 && i < count; i++)
		pthread_join(clients[i].thread, NULL);
	if (!pattern->hold)
		print_sum(clients, count);
	return 0;
}

int main(int argc, char **argv)
{
	struct client pattern = {.seconds = bench_number(argc, argv, "seconds", 0)};
	struct hello *hello = &pattern.hello;

	if (argc >= 3 && strcmp(argv[1], "server") == 0)
		return serve(bench_option(argc, argv, "bind", "0.0.0.0"), argv[2]);
	if (argc < 5 || strcmp(argv[1], "client") != 0) {
		fprintf(stderr, "usage: stream server PORT [--bind ADDRESS]\n"
				"       stream client HOST PORT SIZE (--bytes N | --seconds N) "
				"[--connections N] [--warm BYTES] [--hold 1] "
				"[--settle MS] [--rate BYTES] [--peer PID]\n");
		return 2;
	}
	pattern.host = argv[2];
	pattern.port = argv[3];
	hello->size = (uint32_t)strtoul(argv[4], NULL, 10);
	hello->connections = (uint32_t)bench_number(argc, argv, "connections", 1);
	hello->total = bench_number(argc, argv, "bytes", 0);
	hello->warm = bench_number(argc, argv, "warm", hello->total / 8);
	pattern.settle_ms = bench_number(argc, argv, "settle", 0);
	pattern.rate = bench_number(argc, argv, "rate", 0);
	pattern.server = (pid_t)bench_number(argc, argv, "peer", 0);
	pattern.hold = hello->connections == 1 && bench_number(argc, argv, "hold", 0);
	if (hello->size == 0 || hello->connections == 0 || hello->connections > MAX_CONNECTIONS)
		bench_die("SIZE is at least 1, connections 1 to %d", MAX_CONNECTIONS);
	if ((hello->total == 0) == (pattern.seconds == 0))
		bench_die("give either --bytes or --seconds");
	return run_clients(&pattern);
}

// SPDX-License-Identifier: MIT
/*
 * Ping-pong over one TCP connection: the client sends SIZE bytes, the server sends them back.
 *
 *   pingpong server PORT [--bind ADDRESS]
 *   pingpong client HOST PORT SIZE COUNT [--wait block|epoll|yield|spin] [--warm MS] [--idle US]
 *                   [--peer PID]
 *
 * The client tells the server size and way of waiting, so that both ends wait alike. The rounds of
 * the first MS milliseconds (1000) aren't counted: a connection may change its plane meanwhile.
 * With --idle the client sleeps for US microseconds before each round, so that the server sleeps
 * too when the message comes. The client prints one JSON line; the processor time in it needs the
 * server's PID.
 */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct hello {
	uint32_t size;
	uint32_t wait;
};

struct side {
	int fd;
	int set; /* epoll descriptor, -1 when unused */
	enum bench_wait wait;
	char *buffer;
	size_t size;
};

static void side_init(struct side *side, int fd, const struct hello *hello)
{
	struct epoll_event event = {.events = EPOLLIN};

	side->fd = fd;
	side->set = -1;
	side->wait = (enum bench_wait)hello->wait;
	side->size = hello->size;
	side->buffer = bench_alloc(hello->size);
	if (side->wait == BENCH_BLOCK)
		return;
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		bench_die("O_NONBLOCK");
	if (side->wait != BENCH_EPOLL)
		return;
	side->set = epoll_create1(EPOLL_CLOEXEC);
	if (side->set < 0 || epoll_ctl(side->set, EPOLL_CTL_ADD, fd, &event) < 0)
		bench_die("epoll");
}

static void wait_readable(struct side *side)
{
	struct epoll_event event;

	if (side->wait == BENCH_SPIN)
		return;
	if (side->wait == BENCH_YIELD)
		sched_yield();
	else if (epoll_wait(side->set, &event, 1, -1) < 0 && errno != EINTR)
		bench_die("epoll_wait");
}

/* An epoll program waits first and reads then, as event loops do. */
static bool receive(struct side *side)
{
	size_t done = 0;

	while (done < side->size) {
		ssize_t got;

		if (side->wait == BENCH_EPOLL)
			wait_readable(side);
		got = recv(side->fd, side->buffer + done, side->size - done, 0);
		if (got == 0)
			return false;
		if (got > 0)
			done += (size_t)got;
		else if (errno == EAGAIN && side->wait != BENCH_EPOLL)
			wait_readable(side);
		else if (errno != EAGAIN && errno != EINTR)
			bench_die("recv");
	}
	return true;
}

static void transmit(struct side *side)
{
	struct pollfd writable = {.fd = side->fd, .events = POLLOUT};
	size_t done = 0;

	while (done < side->size) {
		ssize_t sent = send(side->fd, side->buffer + done, side->size - done, MSG_NOSIGNAL);

		if (sent > 0)
			done += (size_t)sent;
		else if (errno == EAGAIN && side->wait != BENCH_EPOLL)
			sched_yield();
		else if (errno == EAGAIN)
			poll(&writable, 1, -1);
		else if (errno != EINTR)
			bench_die("send");
	}
}

static int serve(const char *host, const char *port)
{
	int listener = bench_listen(host, port);
	int fd = bench_accept(listener);
	struct hello hello;
	struct side side;

	if (bench_recv_all(fd, &hello, sizeof(hello)) != sizeof(hello))
		bench_die("the client went away");
	side_init(&side, fd, &hello);
	/* The client closes first, so that its port isn't left in TIME_WAIT on our side. */
	while (receive(&side))
		transmit(&side);
	close(fd);
	return 0;
}

static uint64_t round_trip(struct side *side)
{
	uint64_t before = bench_now_ns();

	transmit(side);
	if (!receive(side))
		bench_die("end of stream");
	return bench_now_ns() - before;
}

struct plan {
	uint64_t count, warm_ms, idle_us;
	pid_t server;
};

static int measure(int fd, struct hello *hello, const struct plan *plan)
{
	struct bench_samples samples;
	struct side side;
	uint64_t started = bench_now_ns(), used;

	bench_send_all(fd, hello, sizeof(*hello));
	bench_samples_init(&samples, plan->count);
	side_init(&side, fd, hello);
	while (bench_now_ns() - started < plan->warm_ms * 1000000u)
		round_trip(&side);
	used = bench_cpu_ns(plan->server);
	started = bench_now_ns();
	for (uint64_t i = 0; i < plan->count; i++) {
		if (plan->idle_us)
			usleep((useconds_t)plan->idle_us);
		bench_samples_add(&samples, round_trip(&side));
	}
	if (plan->server)
		samples.cpu_ns = bench_cpu_ns(plan->server) - used;
	bench_samples_print(&samples, bench_now_ns() - started);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	struct hello hello;
	struct plan plan;

	if (argc >= 3 && strcmp(argv[1], "server") == 0)
		return serve(bench_option(argc, argv, "bind", "0.0.0.0"), argv[2]);
	if (argc < 6 || strcmp(argv[1], "client") != 0) {
		fprintf(stderr,
			"usage: pingpong server PORT [--bind ADDRESS]\n"
			"       pingpong client HOST PORT SIZE COUNT "
			"[--wait block|epoll|yield|spin] [--warm MS] [--idle US] [--peer PID]\n");
		return 2;
	}
	hello.size = (uint32_t)strtoul(argv[4], NULL, 10);
	plan.count = strtoull(argv[5], NULL, 10);
	if (hello.size == 0 || plan.count == 0)
		bench_die("SIZE and COUNT are at least 1");
	plan.warm_ms = bench_number(argc, argv, "warm", 1000);
	plan.idle_us = bench_number(argc, argv, "idle", 0);
	plan.server = (pid_t)bench_number(argc, argv, "peer", 0);
	hello.wait = bench_wait_from(bench_option(argc, argv, "wait", "block"));
	return measure(bench_connect(argv[2], argv[3]), &hello, &plan);
}

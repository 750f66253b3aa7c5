// SPDX-License-Identifier: MIT
/* Shared parts of the benchmark programs; see bench.h. */
#include "bench.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void bench_die(const char *format, ...)
{
	int saved = errno;
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (saved)
		fprintf(stderr, ": %s", strerror(saved));
	fputc('\n', stderr);
	exit(1);
}

uint64_t bench_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t bench_cpu_ns(pid_t other)
{
	struct timespec used = {0}, theirs = {0};
	clockid_t clock;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	if (other && (clock_getcpuclockid(other, &clock) != 0 || clock_gettime(clock, &theirs) < 0))
		bench_die("no process %d", (int)other);
	return (uint64_t)(used.tv_sec + theirs.tv_sec) * 1000000000u +
	       (uint64_t)(used.tv_nsec + theirs.tv_nsec);
}

/* Written once, so that no page fault falls into the measured part. */
void *bench_alloc(size_t size)
{
	void *memory = malloc(size ? size : 1);

	if (!memory)
		bench_die("no memory for %zu bytes", size);
	memset(memory, 0x5a, size);
	return memory;
}

void bench_samples_init(struct bench_samples *samples, size_t room)
{
	samples->ns = bench_alloc(room * sizeof(*samples->ns));
	samples->room = room;
	samples->used = 0;
	samples->cpu_ns = 0;
}

void bench_samples_add(struct bench_samples *samples, uint64_t ns)
{
	if (samples->used < samples->room)
		samples->ns[samples->used++] = ns;
}

static int compare_ns(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left;
	uint64_t b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

void bench_samples_print(struct bench_samples *samples, uint64_t elapsed_ns)
{
	size_t count = samples->used;
	double sum = 0;

	if (count == 0)
		bench_die("nothing was measured");
	for (size_t i = 0; i < count; i++)
		sum += (double)samples->ns[i];
	qsort(samples->ns, count, sizeof(*samples->ns), compare_ns);
	printf("{\"mean_us\": %.2f, \"p50_us\": %.2f, \"p99_us\": %.2f, \"count\": %zu, "
	       "\"ops_s\": %.0f, \"cpu_s\": %.4f}\n",
	       sum / (double)count / 1e3, (double)samples->ns[count / 2] / 1e3,
	       (double)samples->ns[count * 99 / 100] / 1e3, count,
	       (double)count * 1e9 / (double)elapsed_ns, (double)samples->cpu_ns / 1e9);
	fflush(stdout);
}

const char *bench_option(int argc, char **argv, const char *name, const char *fallback)
{
	for (int i = 1; i + 1 < argc; i++) {
		if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
			return argv[i + 1];
	}
	return fallback;
}

uint64_t bench_number(int argc, char **argv, const char *name, uint64_t fallback)
{
	const char *text = bench_option(argc, argv, name, NULL);
	char *end;
	unsigned long long value;

	if (!text)
		return fallback;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end)
		bench_die("--%s wants a number, not '%s'", name, text);
	return value;
}

enum bench_wait bench_wait_from(const char *name)
{
	if (strcmp(name, "block") == 0 || strcmp(name, "event") == 0)
		return BENCH_BLOCK;
	if (strcmp(name, "epoll") == 0)
		return BENCH_EPOLL;
	if (strcmp(name, "yield") == 0)
		return BENCH_YIELD;
	if (strcmp(name, "spin") == 0)
		return BENCH_SPIN;
	errno = 0;
	bench_die("--wait is block (or event), epoll, yield or spin, not '%s'", name);
}

static struct addrinfo *resolve(const char *host, const char *port, int flags)
{
	struct addrinfo hints = {.ai_flags = flags, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int error = getaddrinfo(host, port, &hints, &found);

	errno = 0;
	if (error)
		bench_die("%s port %s: %s", host, port, gai_strerror(error));
	return found;
}

static void set_nodelay(int fd)
{
	int on = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		bench_die("TCP_NODELAY");
}

int bench_listen(const char *host, const char *port)
{
	struct addrinfo *at = resolve(host, port, AI_PASSIVE | AI_NUMERICHOST);
	int on = 1;
	int fd = socket(at->ai_family, SOCK_STREAM, 0);
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	char bound[16];

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&name, &length) < 0)
		bench_die("listen on %s port %s", host, port);
	getnameinfo((struct sockaddr *)&name, length, NULL, 0, bound, sizeof(bound),
		    NI_NUMERICSERV);
	printf("listening %s\n", bound);
	fflush(stdout);
	freeaddrinfo(at);
	return fd;
}

int bench_accept(int listener)
{
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		bench_die("accept");
	set_nodelay(fd);
	return fd;
}

int bench_connect(const char *host, const char *port)
{
	struct addrinfo *at = resolve(host, port, 0);
	int fd = socket(at->ai_family, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, at->ai_addr, at->ai_addrlen) < 0)
		bench_die("connect to %s port %s", host, port);
	set_nodelay(fd);
	freeaddrinfo(at);
	return fd;
}

void bench_send_all(int fd, const void *data, size_t size)
{
	const char *at = data;

	while (size > 0) {
		ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			bench_die("send");
		at += sent;
		size -= (size_t)sent;
	}
}

size_t bench_recv_all(int fd, void *data, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = recv(fd, (char *)data + done, size - done, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			bench_die("recv");
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return done;
}

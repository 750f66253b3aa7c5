/* SPDX-License-Identifier: MIT */
/* What the roles use: the control channel, connections, warm-up, waiting for a state. */
#include <linux/sockios.h>
#include <sched.h>
#include <time.h>

#include "oracle.h"
#include "stage.h"

enum { WARM_ROUNDS = 50, WARM_MS = 30000, WAIT_MS = 30000, MSG_BYTES = 64 };

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A breath between two looks at a state that nothing can wake us for. */
static void breathe(void)
{
	struct timespec t = {0, 500000};

	nanosleep(&t, NULL);
}

void tell_num(long n)
{
	if (send(stage.ctl, &n, sizeof(n), MSG_NOSIGNAL) != sizeof(n))
		oracle_die("tell", errno);
}

long hear_num(void)
{
	long n = 0;
	ssize_t got;

	do
		got = recv(stage.ctl, &n, sizeof(n), 0);
	while (got < 0 && errno == EINTR);
	if (got != sizeof(n))
		oracle_die("hear: the other role has gone", got < 0 ? errno : 0);
	return n;
}

void tell(char what)
{
	tell_num(what);
}

void hear(char what)
{
	long n = hear_num();

	if (n != what) {
		say("heard %ld instead of %c", n, what);
		oracle_die("hear", 0);
	}
}

void hear_gone(void)
{
	long n;
	ssize_t got;

	do
		got = recv(stage.ctl, &n, sizeof(n), 0);
	while (got > 0 || (got < 0 && errno == EINTR));
}

int oracle_port(int fd)
{
	struct sockaddr_in6 a;
	socklen_t n = sizeof(a);

	MUST(getsockname(fd, (struct sockaddr *)&a, &n));
	return ntohs(a.sin6_port);
}

/* Where the roles meet: loopback, or the address that an RDMA device has. */
uint32_t oracle_address(void)
{
	const char *text = getenv("ORACLE_ADDR");
	struct in_addr a;

	if (text && inet_pton(AF_INET, text, &a) == 1)
		return a.s_addr;
	return htonl(INADDR_LOOPBACK);
}

int oracle_listener(int family)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in four = {.sin_family = AF_INET};
	int fd = (int)MUST(socket(family, SOCK_STREAM, 0));

	four.sin_addr.s_addr = oracle_address();
	if (family == AF_INET)
		MUST(bind(fd, (struct sockaddr *)&four, sizeof(four)));
	else
		MUST(bind(fd, (struct sockaddr *)&six, sizeof(six)));
	MUST(listen(fd, 64));
	return fd;
}

int oracle_dial(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	a.sin_addr.s_addr = oracle_address();
	MUST(connect(fd, (struct sockaddr *)&a, sizeof(a)));
	return fd;
}

int oracle_dial6(int port, const char *host)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	int fd = (int)MUST(socket(AF_INET6, SOCK_STREAM, 0));

	inet_pton(AF_INET6, host, &a.sin6_addr);
	MUST(connect(fd, (struct sockaddr *)&a, sizeof(a)));
	return fd;
}

int oracle_accept(void)
{
	int listener = oracle_listener(AF_INET);

	tell_num(oracle_port(listener));
	int fd = (int)MUST(accept(listener, NULL, NULL));

	close(listener);
	warm_echo(fd);
	return fd;
}

int oracle_connect(void)
{
	int fd = oracle_dial((int)hear_num());

	warm_ping(fd);
	return fd;
}

int oracle_fast(void)
{
	const char *plane = getenv("ORACLE_PLANE");

	return plane && strcmp(plane, "kernel") != 0;
}

static int ask_stage(int fd, int back)
{
	struct oracle_ask ask = {.pid = getpid(), .fd = fd, .back = back};

	if (send(stage.ask, &ask, sizeof(ask), MSG_NOSIGNAL) != sizeof(ask))
		return 0;
	if (recv(stage.ask, &ask, sizeof(ask), 0) != sizeof(ask))
		return 0;
	return ask.answer;
}

int oracle_standing(int fd)
{
	return ask_stage(fd, 0);
}

int oracle_return(int fd)
{
	return oracle_fast() && ask_stage(fd, 1);
}

static void ping(int from, int to, char what)
{
	char out[MSG_BYTES] = {what}, in[MSG_BYTES];

	put_all(from, out, sizeof(out));
	if (to >= 0) {
		if (get_all(to, in, sizeof(in)) != sizeof(in) || in[0] != what)
			oracle_die("warm-up: ping", errno);
		put_all(to, in, sizeof(in));
	}
	if (get_all(from, in, sizeof(in)) != sizeof(in) || in[0] != what)
		oracle_die("warm-up: echo", errno);
}

static void ping_until_there(int from, int to)
{
	long deadline = now_ms() + WARM_MS;

	for (int i = 0; i < WARM_ROUNDS; i++)
		ping(from, to, 'p');
	if (!oracle_fast())
		return;
	while (!oracle_standing(from) && now_ms() < deadline) {
		for (int i = 0; i < WARM_ROUNDS / 2; i++)
			ping(from, to, 'p');
	}
	for (int i = 0; i < WARM_ROUNDS; i++)
		ping(from, to, 'p');
}

void warm_ping(int fd)
{
	ping_until_there(fd, -1);
	ping(fd, -1, 'q');
}

void warm_echo(int fd)
{
	char in[MSG_BYTES];

	do {
		if (get_all(fd, in, sizeof(in)) != sizeof(in))
			oracle_die("warm-up: echo", errno);
		put_all(fd, in, sizeof(in));
	} while (in[0] != 'q');
}

void oracle_self_pair(int fd[2])
{
	int listener = oracle_listener(AF_INET);

	fd[0] = oracle_dial(oracle_port(listener));
	fd[1] = (int)MUST(accept(listener, NULL, NULL));
	close(listener);
	ping_until_there(fd[0], fd[1]);
}

void await_event(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	if (poll(&p, 1, WAIT_MS) != 1)
		say("awaited %s in vain", poll_names(events));
}

void await_readable(int fd, int bytes)
{
	long deadline = now_ms() + WAIT_MS;
	int n = 0;

	await_event(fd, POLLIN);
	while (ioctl(fd, FIONREAD, &n) == 0 && n < bytes) {
		if (now_ms() > deadline) {
			say("awaited %d readable bytes in vain, got %d", bytes, n);
			return;
		}
		breathe();
	}
}

void await_outq_empty(int fd)
{
	long deadline = now_ms() + WAIT_MS;
	int n = 0;

	while (ioctl(fd, SIOCOUTQ, &n) == 0 && n) {
		if (now_ms() > deadline) {
			say("awaited an empty send queue in vain, %d left", n);
			return;
		}
		breathe();
	}
}

static char thread_state(pid_t tid)
{
	char path[64], text[512], *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	f = fopen(path, "re");
	if (!f)
		return 'X';
	end = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
	fclose(f);
	return end ? end[2] : 'X';
}

/* Asleep in two looks running: a lock held for a moment doesn't count. */
void await_asleep(pid_t tid)
{
	long deadline = now_ms() + WAIT_MS;

	for (int seen = 0; seen < 3 && now_ms() < deadline;) {
		char state = thread_state(tid);

		if (state == 'X' || state == 'Z')
			return;
		seen = state == 'S' ? seen + 1 : 0;
		breathe();
	}
}

static void await_io(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	poll(&p, 1, -1);
}

void put_all(int fd, const void *bytes, size_t n)
{
	const char *p = bytes;

	while (n) {
		ssize_t part = send(fd, p, n, MSG_NOSIGNAL);

		if (part < 0 && errno == EAGAIN) {
			await_io(fd, POLLOUT);
		} else if (part < 0 && errno != EINTR) {
			say("put_all: %s", strerrorname_np(errno));
			return;
		} else if (part > 0) {
			p += part;
			n -= (size_t)part;
		}
	}
}

size_t get_all(int fd, void *bytes, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t part = recv(fd, (char *)bytes + got, n - got, 0);

		if (part < 0 && errno == EAGAIN)
			await_io(fd, POLLIN);
		else if (part == 0 || (part < 0 && errno != EINTR))
			break;
		else if (part > 0)
			got += (size_t)part;
	}
	return got;
}

static char heap[1 << 16];

long oracle_fill(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	long sent = 0;
	ssize_t n;

	do
		while ((n = send(fd, heap, sizeof(heap), MSG_DONTWAIT)) > 0)
			sent += n;
	while (poll(&p, 1, 200) == 1);
	return sent;
}

long oracle_drain(int fd, long bytes)
{
	while (bytes > 0) {
		size_t part = bytes < (long)sizeof(heap) ? (size_t)bytes : sizeof(heap);
		size_t n = get_all(fd, heap, part);

		if (!n)
			break;
		bytes -= (long)n;
	}
	return bytes;
}

void oracle_echo(const char *who, int fd)
{
	char word[4] = "";

	CALL(get_all(fd, word, sizeof(word)));
	say("%s: %.4s", who, word);
	put_all(fd, word, sizeof(word));
}

void oracle_wait(pid_t child)
{
	int status = -1;

	CALL(waitpid(child, &status, 0) == child);
	say("child ended with %d", status);
}

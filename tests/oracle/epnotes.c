/* SPDX-License-Identifier: MIT */
/*
 * Changes of a set by the dozen between two waits, of connections that have moved: no call's
 * result, and no wait's, differs from what the calls before it say. random: one
 * thread; forks: its children look at the set; threads: two change the set while a third waits;
 * jumps: a handler changes the set too, and jumps out.
 */
#include <pthread.h>
#include <setjmp.h>
#include <sys/time.h>
#include <time.h>

#include "oracle.h"

enum { PAIRS = 80, MAX = 256 };

struct sock {
	int fd, peer;
	int in, off, readable;
	uint32_t events;
	uint64_t data;
};

static int set, listener;
static struct sock sock[PAIRS];
static uint64_t rnd = 42, serial;
static int pairs = PAIRS;
static _Atomic int failed, over;

#define CHECK(cond, ...)                     \
	do {                                 \
		if (!(cond) && failed++ < 5) \
			say(__VA_ARGS__);    \
	} while (0)

static void make(struct sock *s)
{
	char c;

	*s = (struct sock){.fd = oracle_dial(oracle_port(listener))};
	s->peer = (int)MUST(accept(listener, NULL, NULL));
	for (int i = 0; i < 400; i++) {
		MUST(send(s->fd, "x", 1, 0));
		MUST(recv(s->peer, &c, 1, 0));
		MUST(send(s->peer, "x", 1, 0));
		MUST(recv(s->fd, &c, 1, 0));
		if (i > 20 && (!oracle_fast() || (i % 20 == 0 && oracle_standing(s->fd))))
			break;
	}
}

static int control(int op, struct sock *s, uint32_t events)
{
	struct epoll_event e = {.events = events,
				.data.u64 = (uint64_t)(s - sock) << 32 | ++serial};
	int r = epoll_ctl(set, op, s->fd, &e), err = r ? errno : 0;
	int want = op == EPOLL_CTL_ADD ? (s->in ? EEXIST : 0) : s->in ? 0 : ENOENT;

	CHECK(err == want, "op %d of %d: %d instead of %d", op, (int)(s - sock), err, want);
	if (err)
		return err;
	s->in = op != EPOLL_CTL_DEL;
	s->off = 0;
	s->events = events;
	s->data = e.data.u64;
	return 0;
}

static uint32_t due(const struct sock *s)
{
	if (!s->in || s->off)
		return 0;
	return s->events & ((s->readable ? EPOLLIN : 0u) | EPOLLOUT);
}

static int count_due(void)
{
	int n = 0;

	for (int i = 0; i < pairs; i++)
		n += due(&sock[i]) != 0;
	return n;
}

static void took(const struct epoll_event *e)
{
	uint64_t i = e->data.u64 >> 32;
	struct sock *s = &sock[i < PAIRS ? i : 0];

	CHECK(e->data.u64 == s->data, "data %llx instead of %llx", (unsigned long long)e->data.u64,
	      (unsigned long long)s->data);
	CHECK(e->events == due(s), "socket %d: %s in=%d off=%d asked=%x readable=%d", (int)i,
	      epoll_names(e->events), s->in, s->off, s->events, s->readable);
	if (s->events & EPOLLONESHOT)
		s->off = 1;
}

/* All that's due comes in one wait, or in several of few slots. */
static void look(void)
{
	struct epoll_event e[MAX];
	int want = count_due(), n = 0;

	for (int i = 0; i < 5000 && n != want; i++) {
		n = epoll_wait(set, e, MAX, want ? 1 : 0);
		CHECK(n <= want, "%d events instead of %d", n, want);
		if (n == want || n < 0)
			break;
		for (int k = 0; k < n; k++) /* once-only ones have had their turn */
			if (sock[e[k].data.u64 >> 32].events & EPOLLONESHOT)
				took(&e[k]), want--;
		n = 0;
	}
	CHECK(n == want, "%d events instead of %d", n, want);
	for (int k = 0; k < n; k++)
		took(&e[k]);
	if (!want)
		CHECK(epoll_wait(set, e, MAX, 0) == 0 || count_due(), "events from nowhere");
}

static void reopen(struct sock *s)
{
	int was = s->fd;

	close(s->fd);
	close(s->peer);
	make(s);
	if (s->fd != was && s->peer != was && dup2(s->fd, was) == was) {
		close(s->fd);
		s->fd = was;
	}
}

static void flip(struct sock *s)
{
	char c;

	if (s->readable) {
		CHECK(recv(s->fd, &c, 1, 0) == 1, "recv");
	} else {
		CHECK(send(s->peer, "x", 1, 0) == 1, "send");
		await_readable(s->fd, 1);
	}
	s->readable = !s->readable;
}

static const uint32_t kinds[] = {
	EPOLLIN, EPOLLOUT, EPOLLIN | EPOLLOUT,	   0,
	EPOLLIN, EPOLLIN,  EPOLLIN | EPOLLONESHOT, EPOLLIN | EPOLLONESHOT | EPOLLOUT};

static void one(int rare)
{
	struct sock *s = &sock[next_random(&rnd) % (uint64_t)pairs];
	uint32_t events = kinds[next_random(&rnd) % (sizeof(kinds) / sizeof(*kinds))];
	uint64_t what = next_random(&rnd) % 1000;

	if (what < 300)
		control(EPOLL_CTL_ADD, s, events);
	else if (what < 600)
		control(EPOLL_CTL_DEL, s, 0);
	else if (what < 800)
		control(EPOLL_CTL_MOD, s, events);
	else if (what < 900)
		flip(s);
	else if (what < 990)
		look();
	else if (what < 992 && rare)
		reopen(s);
	else if (what == 992 && rare)
		oracle_return(s->fd);
}

static void forked(void)
{
	pid_t child;
	int status;

	look(); /* what's reported once is the child's or ours: not both's */
	for (int i = 0; i < pairs; i++)
		if (!(sock[i].events & EPOLLONESHOT))
			control(sock[i].in ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, &sock[i], EPOLLIN);
	child = (pid_t)MUST(fork());
	if (!child) {
		look();
		_exit(failed ? 1 : 0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0, "child %x", status);
	look();
}

static void randomly(int n)
{
	for (int i = 0; i < n && failed < 5; i++) {
		one(1);
		if (i % 400 == 0) /* more changes than are written down */
			for (int k = 0; k < pairs; k++)
				control(sock[k].in ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, &sock[k],
					EPOLLIN);
		if (i % 5000 == 4999 && !strcmp(oracle_arg(1, "random"), "forks"))
			forked();
	}
	look();
}

/* --- threads ---------- */
static _Atomic uint64_t gone[PAIRS], seen[PAIRS];

static void *waiter(void *unused)
{
	uint64_t was[PAIRS];
	struct epoll_event e[8];

	(void)unused;
	oracle_slot(2);
	while (!over) {
		for (int i = 0; i < PAIRS; i++)
			was[i] = gone[i];
		int n = epoll_wait(set, e, 8, 20);

		for (int k = 0; k < n; k++) {
			uint64_t i = e[k].data.u64 >> 32, nr = (uint32_t)e[k].data.u64;

			CHECK(i < PAIRS && nr > was[i], "socket %d: %u, gone is %u", (int)i,
			      (unsigned)nr, (unsigned)was[i % PAIRS]);
			if (i < PAIRS)
				seen[i] = nr;
		}
	}
	return NULL;
}

static void ctl(int op, int i, uint32_t events, uint64_t nr)
{
	struct epoll_event e = {.events = events, .data.u64 = (uint64_t)i << 32 | nr};
	int r = epoll_ctl(set, op, sock[i].fd, &e);

	CHECK(!r, "op %d: %d", op, errno);
}

static void await_seen(int i, uint64_t nr)
{
	struct timespec ms = {0, 20000};

	for (int k = 0; k < 200000 && seen[i] != nr; k++)
		nanosleep(&ms, NULL);
	CHECK(seen[i] == nr, "socket %d: %u isn't reported, %u was", i, (unsigned)nr,
	      (unsigned)seen[i]);
}

static void *changer(void *arg)
{
	int from = (int)(intptr_t)arg, n = 8;
	uint64_t nr = 0, seed = (uint64_t)from + 7;

	oracle_slot(from ? 3 : 4);
	for (int k = 0; k < 3000 && failed < 5; k++) {
		int i = from + (int)(next_random(&seed) % (uint64_t)n);

		ctl(EPOLL_CTL_ADD, i, k & 1 ? 0 : EPOLLIN, ++nr);
		if (k & 1)
			ctl(EPOLL_CTL_MOD, i, EPOLLIN, nr);
		if (k % 3 == 0) {
			ctl(EPOLL_CTL_DEL, i, 0, 0);
			gone[i] = nr;
			ctl(EPOLL_CTL_ADD, i, k % 6 ? EPOLLIN : EPOLLIN | EPOLLONESHOT, ++nr);
		}
		await_seen(i, nr);
		ctl(EPOLL_CTL_DEL, i, 0, 0);
		gone[i] = nr;
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t[3];

	for (int i = 0; i < pairs; i++)
		flip(&sock[i]);
	pthread_create(&t[0], NULL, waiter, NULL);
	pthread_create(&t[1], NULL, changer, (void *)0);
	pthread_create(&t[2], NULL, changer, (void *)8);
	pthread_join(t[1], NULL);
	pthread_join(t[2], NULL);
	over = 1;
	pthread_join(t[0], NULL);
}

/* --- handlers ---------- */
static sigjmp_buf home;
static volatile sig_atomic_t may_jump;
static _Atomic long ticks, jumped;

static void on_tick(int sig)
{
	static uint64_t seed = 3;
	static int in;
	struct sock *s = &sock[pairs];
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = (uint64_t)pairs << 32}, got[4];
	uint64_t what = next_random(&seed) % 4;

	(void)sig;
	ticks++;
	if (what & 1) {
		CHECK(!epoll_ctl(set, in ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, s->fd, &e),
		      "handler %d: %d", in, errno);
		in = !in;
	}
	if (what == 1)
		CHECK(epoll_wait(set, got, 4, 0) >= 0, "wait: %d", errno);
	if (what >= 2 && may_jump) {
		may_jump = 0;
		jumped++;
		siglongjmp(home, 1);
	}
}

static void tick(long us)
{
	struct itimerval v = {{0, us}, {0, us}};

	setitimer(ITIMER_REAL, &v, NULL);
}

static void jumps(void)
{
	struct epoll_event e[MAX];
	int n;

	signal(SIGALRM, on_tick);
	pairs = 8;
	make(&sock[pairs]);
	tick(60);
	for (volatile int i = 0; i < 50000 && failed < 5; i++) {
		struct sock *s = &sock[i % pairs];
		struct epoll_event ev = {.events = EPOLLIN,
					 .data.u64 = (uint64_t)i % (uint64_t)pairs << 32};

		if (sigsetjmp(home, 1)) {
			epoll_ctl(set, EPOLL_CTL_DEL, sock[i % pairs].fd, NULL);
			continue;
		}
		may_jump = 1;
		epoll_ctl(set, EPOLL_CTL_ADD, s->fd, &ev);
		epoll_ctl(set, EPOLL_CTL_MOD, s->fd, &ev);
		epoll_ctl(set, EPOLL_CTL_DEL, s->fd, &ev);
		may_jump = 0;
	}
	tick(0);
	close(sock[pairs].fd);
	for (int i = 0; i < pairs; i++)
		control(EPOLL_CTL_ADD, &sock[i], EPOLLIN);
	for (int i = 0; i < 1000; i++) {
		control(EPOLL_CTL_MOD, &sock[0], EPOLLIN);
		n = epoll_wait(set, e, MAX, 0);
		CHECK(n == 0, "%d events", n);
	}
	for (int i = 0; i < pairs; i++)
		flip(&sock[i]);
	look();
}

static void server(void)
{
	const char *what = oracle_arg(1, "random");

	set = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	listener = oracle_listener(AF_INET);
	if (*what == 't')
		pairs = 16;
	if (*what == 'j')
		pairs = 8;
	for (int i = 0; i < pairs; i++)
		make(&sock[i]);
	if (*what == 't')
		threads();
	else if (*what == 'j')
		jumps();
	else
		randomly(atoi(oracle_arg(2, "20000")));
	say("failed: %d", (int)failed);
}

ORACLE_MAIN(100, server, NULL)

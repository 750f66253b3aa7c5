/* SPDX-License-Identifier: MIT */
/*
 * poll and select with managed sockets; timeouts, signals and cancellation of all three families.
 * No waiter stays behind, whichever way a call ends.
 */
#include "fake_sock.h"

/* --- poll and select --------------------------------------------------------------------- */
struct polling {
	struct xs_sock *s;
	bool select;
	const sigset_t *mask;
	int r;
	unsigned revents;
};

static void *polls(void *arg)
{
	struct polling *c = arg;
	struct pollfd p[3] = {{.fd = -1},
			      {.fd = c->s->fd, .events = POLLIN},
			      {.fd = c->s->peer, .events = POLLIN}};
	fd_set rd = {0};

	FD_SET(c->s->fd, &rd);
	FD_SET(c->s->peer, &rd);
	sem_post(&begun);
	if (c->select) {
		c->r = door_select(c->s->peer + 1, &rd, NULL, NULL, c->mask);
		c->revents = FD_ISSET(c->s->fd, &rd) && !FD_ISSET(c->s->peer, &rd) ? POLLIN : 0;
	} else {
		c->r = door_poll(p, 3, NULL, c->mask);
		c->revents = (unsigned)p[1].revents | (unsigned)p[2].revents << 16;
	}
	return NULL;
}

static void test_poll(bool select)
{
	struct polling c = {.s = make(true), .select = select};
	pthread_t t;

	(void)xs_ep_sleepers(c.s);
	pthread_create(&t, NULL, polls, &c);
	sem_wait(&begun);
	deliver(c.s);
	pthread_join(t, NULL);
	CHECK_EQ(c.r, 1);
	CHECK_EQ(c.revents, POLLIN);
}

/* A sleeper in the kernel's poll or select is seen until it leaves, and says that it left. */
static void test_poll_sleepers(bool select)
{
	struct polling c = {.s = make(false), .select = select};
	struct xs_crit cs;
	pthread_t t;
	int before;
	bool seen;

	pthread_create(&t, NULL, polls, &c);
	sem_wait(&begun);
	do {
		xs_crit_enter(&cs);
		seen = xs_poll_sleepers(c.s, c.s->fd);
		xs_crit_leave(&cs);
		sched_yield();
	} while (!seen);
	before = looks;
	CHECK(xs_real.write(c.s->peer, "x", 1) == 1);
	pthread_join(t, NULL);
	CHECK(looks > before);
	CHECK(!xs_poll_sleepers(c.s, c.s->fd));
	CHECK_EQ(c.r, 1);
}

static void test_timeouts(void)
{
	const struct timespec t = {.tv_nsec = 3000000};
	struct xs_sock *s = make(true);
	int set = set_of(s, EPOLLIN);
	struct pollfd p = {.fd = s->fd, .events = 0};
	struct timespec left = {9, 9};
	struct epoll_event ev;
	uint64_t from = xs_now_ns();
	fd_set rd;

	deliver(s);
	CHECK_EQ(door_poll(&p, 1, &t, NULL), 0); /* events = 0: nothing but errors */
	CHECK(xs_now_ns() - from >= 3 * XS_NS_PER_MS);
	consume(s);
	from = xs_now_ns();
	CHECK_EQ(door_ep_wait(set, &ev, 1, &t, NULL), 0);
	CHECK(xs_now_ns() - from >= 3 * XS_NS_PER_MS);
	FD_ZERO(&rd);
	FD_SET(s->fd, &rd);
	from = xs_now_ns();
	CHECK_EQ(door_select(s->fd + 1, &rd, &t, &left, NULL), 0);
	CHECK(xs_now_ns() - from >= 3 * XS_NS_PER_MS);
	CHECK(left.tv_sec == 0 && left.tv_nsec == 0 && !FD_ISSET(s->fd, &rd));
	p = (struct pollfd){.fd = 987654, .events = POLLIN};
	CHECK_EQ(door_poll(&p, 1, NULL, NULL), 1);
	CHECK_EQ(p.revents, POLLNVAL);
	FD_SET(1000, &rd);
	FD_SET(s->fd, &rd);
	CHECK_EQ(door_select(1001, &rd, NULL, NULL, NULL), -EBADF);
}

/* --- signals, cancellation --------------------------------------------------------------- */
static _Atomic int handled;

static void handler(int sig)
{
	(void)sig;
	assert(!xs_crit_inside());
	handled++;
}

static void *masked_wait(void *arg)
{
	struct call *c = arg;
	sigset_t block, open;

	sigemptyset(&open);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &block, NULL);
	pthread_kill(pthread_self(), SIGUSR1);
	assert(!handled);
	result = door_ep_wait(c->set, &c->ev, 1, NULL, &open);
	return NULL;
}

static void test_signals(void)
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct xs_sock *s = make(true);
	struct call c = {.set = set_of(s, EPOLLIN)};
	pthread_t t;

	sigaction(SIGUSR1, &sa, NULL);
	pthread_create(&t, NULL, masked_wait, &c);
	pthread_join(t, NULL);
	CHECK(result == -EINTR && handled == 1);
	handled = 0;
	returned = false;
	pthread_create(&t, NULL, waits, &c);
	sem_wait(&begun);
	while (!returned) { /* it may come before the call */
		pthread_kill(t, SIGUSR1);
		sched_yield();
	}
	pthread_join(t, NULL);
	CHECK(result == -EINTR && handled > 0);
}

static void test_cancel(void)
{
	struct xs_sock *s = make(true);
	struct call c = {.set = set_of(s, EPOLLIN)};
	struct polling p = {.s = s};
	pthread_t t;
	void *r;

	pthread_create(&t, NULL, waits, &c);
	sem_wait(&begun);
	pthread_cancel(t);
	pthread_join(t, &r);
	CHECK(r == PTHREAD_CANCELED);
	pthread_create(&t, NULL, polls, &p);
	sem_wait(&begun);
	pthread_cancel(t);
	pthread_join(t, &r);
	CHECK(r == PTHREAD_CANCELED);
	deliver(s);				/* the dead threads' waiters are gone */
	CHECK(s->waiters && !s->waiters->next); /* the set's item */
}

int main(void)
{
	const char *san = getenv("XS_SAN");

	xs_real_init();
	xs_config_load();
	sem_init(&begun, 0, 0);
	test_poll(false);
	test_poll(true);
	test_poll_sleepers(false);
	test_poll_sleepers(true);
	test_timeouts();
	test_signals();
	if (!san || strcmp(san, "thread")) /* which loses count of cancelled calls */
		test_cancel();
	return check_done();
}

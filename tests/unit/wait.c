/* SPDX-License-Identifier: MIT */
/*
 * Sleeping and waking: many threads that wait for their turn through one shared poller (a pipe of
 * tokens), signals with and without SA_RESTART, deadlines, cancellation, jumps out of handlers.
 */
#include "engine/wait.h"
#include "base/clock.h"
#include "base/crit.h"
#include "base/lock.h"
#include "base/real.h"
#include "check.h"
#include "engine/progress.h"
#include "engine/signals.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 6
#define ROUNDS 4000

/* ThreadSanitizer loses count of calls that are cancelled or jumped out of. */
static bool under_tsan(void)
{
	const char *san = getenv("XS_SAN");

	return san && !strcmp(san, "thread");
}

/* --- a poller whose arrivals are bytes in a pipe: each names the thread that it's for ---- */
static int tokens[2];
static _Atomic bool armed, in_poll;
static struct {
	struct xs_lock lock;
	unsigned got;		    /* lock */
	struct xs_sleeper *sleeper; /* lock */
	unsigned taken;
} box[THREADS];

static void deliver(unsigned i)
{
	xs_lock_take(&box[i].lock);
	box[i].got++;
	if (box[i].sleeper)
		xs_sleeper_wake(box[i].sleeper);
	xs_lock_drop(&box[i].lock);
}

static int pipe_poll(struct xs_poller *p)
{
	unsigned char c[16];
	ssize_t n;

	assert(!atomic_exchange(&in_poll, true)); /* one thread at a time */
	assert(xs_crit_inside());
	n = xs_real.read(p->fd, c, sizeof(c));
	for (ssize_t i = 0; i < n; i++)
		deliver(c[i]);
	in_poll = false;
	return n > 0 ? (int)n : 0;
}

static void pipe_arm(struct xs_poller *p)
{
	(void)p;
	armed = true;
}

static void pipe_disarm(struct xs_poller *p)
{
	(void)p;
	armed = false;
}

static struct xs_poller poller = {.poll = pipe_poll, .arm = pipe_arm, .disarm = pipe_disarm};

static void send_token(unsigned char to)
{
	assert(xs_real.write(tokens[1], &to, 1) == 1);
}

static bool take(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	bool got;

	xs_lock_take(&box[i].lock);
	got = box[i].got > 0;
	box[i].got -= got;
	xs_lock_drop(&box[i].lock);
	return got;
}

static void set_sleeper(unsigned i, struct xs_sleeper *s)
{
	xs_lock_take(&box[i].lock);
	box[i].sleeper = s;
	xs_lock_drop(&box[i].lock);
}

static void wait_for_token(unsigned i, bool spin)
{
	struct xs_sleeper *s = xs_sleeper_self();
	void *arg = (void *)(uintptr_t)i;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	while (!(spin ? xs_spin(take, arg) : take(arg))) {
		xs_sleeper_begin(s);
		set_sleeper(i, s);
		if (take(arg)) {
			set_sleeper(i, NULL);
			xs_sleeper_end(s);
			break;
		}
		assert(xs_sleeper_sleep(s, NULL, 0, 0, NULL, true) > 0);
		set_sleeper(i, NULL);
		xs_sleeper_end(s);
	}
	xs_crit_leave(&cs);
}

/* Tokens go round the ring of threads: each waits for one and passes it on. */
static void *ring_member(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;

	for (int n = 0; n < ROUNDS; n++) {
		wait_for_token(i, i & 1);
		send_token((unsigned char)((i + 1) % THREADS));
	}
	return NULL;
}

static void test_ring(unsigned in_flight)
{
	pthread_t t[THREADS];

	for (unsigned i = 0; i < in_flight; i++)
		send_token((unsigned char)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, ring_member, (void *)(uintptr_t)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 0; i < in_flight; i++)
		wait_for_token(i, false);
}

/* --- signals ----------------------------------------------------------------------------- */
static _Atomic int handled;
static sem_t asleep, woken;
static _Atomic int result;
static _Atomic bool jump;
static sigjmp_buf env;

static void handler(int sig)
{
	(void)sig;
	assert(!xs_crit_inside());
	handled++;
	if (jump)
		siglongjmp(env, 1);
	sem_post(&woken);
}

static void *sleeper(void *restart)
{
	struct xs_sleeper *s = xs_sleeper_self();
	struct xs_crit cs;

	if (sigsetjmp(env, 1)) {
		assert(!xs_crit_inside());
		result = 77;
		return NULL;
	}
	xs_crit_enter(&cs);
	xs_sleeper_begin(s);
	set_sleeper(0, s);
	sem_post(&asleep);
	result = xs_sleeper_sleep(s, NULL, 0, 0, NULL, restart != NULL);
	set_sleeper(0, NULL);
	xs_sleeper_end(s);
	xs_crit_leave(&cs);
	return NULL;
}

static void install(int flags)
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};

	sigaction(SIGUSR1, &sa, NULL);
}

static void test_signal(int flags, bool restart, int want)
{
	struct xs_crit cs;
	pthread_t t;

	install(flags);
	handled = 0;
	pthread_create(&t, NULL, sleeper, restart ? &t : NULL);
	sem_wait(&asleep);
	pthread_kill(t, SIGWINCH); /* ignored by default: nothing happens */
	pthread_kill(t, SIGUSR1);
	if (want > 0 && !jump) {
		sem_wait(&woken);
		xs_crit_enter(&cs);
		deliver(0);
		xs_crit_leave(&cs);
	}
	pthread_join(t, NULL);
	assert(handled == 1);
	assert(result == want);
	while (sem_trywait(&woken) == 0)
		;
}

static void test_signals(void)
{
	struct xs_crit cs;

	test_signal(0, true, -EINTR);
	test_signal(0, false, -EINTR);
	test_signal(SA_RESTART, false, -EINTR);
	test_signal(SA_RESTART, true, 1);
	jump = !under_tsan();
	if (jump) {
		test_signal(SA_RESTART, true, 77);
		test_signal(0, false, 77);
	}
	jump = false;
	xs_crit_enter(&cs);
	take((void *)0);
	xs_crit_leave(&cs);
}

/* --- a mask of the call's own ------------------------------------------------------------ */
static void test_mask(void)
{
	struct xs_sleeper *s = xs_sleeper_self();
	sigset_t blocked, open;
	struct xs_crit cs;
	int r;

	install(0);
	handled = 0;
	sigemptyset(&open);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	raise(SIGUSR1);
	xs_crit_enter(&cs);
	xs_sleeper_begin(s);
	r = xs_sleeper_sleep(s, NULL, 0, xs_now_ns() + 2 * XS_NS_PER_MS, NULL, false);
	assert(r == 0 && handled == 0);
	r = xs_sleeper_sleep(s, NULL, 0, 0, &open, false);
	assert(r == -EINTR && handled == 0);
	xs_sleeper_end(s);
	xs_crit_leave(&cs);
	assert(handled == 0);
	xs_signals_run(&open);
	assert(handled == 1);
	pthread_sigmask(SIG_SETMASK, &open, NULL);
}

/* --- cancellation ------------------------------------------------------------------------ */
static _Atomic int undone;

static void undo(void *arg)
{
	assert(arg == &undone && xs_crit_inside());
	undone++;
}

static void *victim(void *unused)
{
	struct xs_sleeper *s = xs_sleeper_self();
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_sleeper_begin(s);
	pthread_cleanup_push(undo, &undone);
	sem_post(&asleep);
	xs_sleeper_sleep(s, NULL, 0, 0, NULL, true);
	pthread_cleanup_pop(0);
	abort();
	return unused;
}

static void test_cancel(void)
{
	pthread_t t;
	void *r;

	pthread_create(&t, NULL, victim, NULL);
	sem_wait(&asleep);
	pthread_cancel(t);
	pthread_join(t, &r);
	assert(r == PTHREAD_CANCELED);
	assert(undone > 0);
}

/* --- the caller's descriptors and deadlines ---------------------------------------------- */
static void test_fds(void)
{
	struct xs_sleeper *s = xs_sleeper_self();
	struct pollfd fds[200];
	uint64_t until = xs_now_ns() + 5 * XS_NS_PER_MS;
	struct xs_crit cs;
	int p[2];

	assert(pipe(p) == 0);
	for (int i = 0; i < 200; i++)
		fds[i] = (struct pollfd){.fd = p[0], .events = POLLIN};
	xs_crit_enter(&cs);
	xs_sleeper_begin(s);
	assert(xs_sleeper_sleep(s, fds, 200, until, NULL, false) == 0);
	assert(xs_now_ns() >= until);
	fds[100].fd = p[1];
	fds[100].events = POLLOUT;
	assert(xs_sleeper_sleep(s, fds, 200, 0, NULL, false) == 1);
	assert(fds[100].revents == POLLOUT && fds[99].revents == 0);
	xs_sleeper_wake(s);
	assert(xs_sleeper_sleep(s, fds, 1, 0, NULL, false) == 1);
	assert(fds[0].revents == 0);
	xs_sleeper_end(s);
	xs_crit_leave(&cs);
}

/* With no thread in any call the progress thread serves the poller. */
static void test_alone(void)
{
	struct xs_crit cs;
	bool got = false;

	send_token(3);
	while (!got) {
		struct timespec ts = {0, 1000000};

		nanosleep(&ts, NULL); /* not a thread that polls */
		xs_crit_enter(&cs);
		got = take((void *)3);
		xs_crit_leave(&cs);
	}
}

static void remove_poller(struct xs_work *w)
{
	(void)w;
	xs_poller_remove(&poller);
	sem_post(&woken);
}

#define STEP(call) (call, CHECK(true))

int main(void)
{
	static struct xs_work last = {.fn = remove_poller};
	struct sigaction sa = {.sa_handler = SIG_DFL};
	struct xs_crit cs;

	xs_real_init();
	sigaction(SIGWINCH, &sa, NULL);
	sem_init(&asleep, 0, 0);
	sem_init(&woken, 0, 0);
	for (int i = 0; i < THREADS; i++)
		xs_lock_init(&box[i].lock, XS_RANK_CONN);
	assert(pipe2(tokens, O_NONBLOCK) == 0);
	STEP(test_fds());
	STEP(test_signals());
	STEP(test_mask());
	if (!under_tsan())
		STEP(test_cancel());
	poller.fd = tokens[0];
	xs_crit_enter(&cs);
	assert(xs_poller_add(&poller) == 0);
	xs_crit_leave(&cs);
	STEP(test_alone());
	STEP(test_ring(1));
	STEP(test_ring(3));
	STEP(test_ring(THREADS));
	STEP(test_signals());
	if (!under_tsan())
		STEP(test_cancel());
	STEP(test_alone());
	xs_progress_post(&last);
	sem_wait(&woken);
	assert(!xs_pollers());
	return check_done();
}

/* SPDX-License-Identifier: MIT */
/*
 * A thread that sleeps on the same descriptor again does so in its own epoll set: what wakes it
 * there, and descriptors that are closed, come again under the same number, or live on elsewhere.
 */
#include "base/clock.h"
#include "base/crit.h"
#include "base/real.h"
#include "check.h"
#include "engine/engine.h"
#include "engine/progress.h"
#include "engine/wait.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 300

/* --- a poller like shared memory's: a word of news, and a byte of a pipe when it's armed --- */
static int bell[2];
static _Atomic bool armed, news;
static struct xs_sleeper *me;
static pthread_t my_thread;

static int news_poll(struct xs_poller *p)
{
	(void)p;
	if (!atomic_exchange(&news, false))
		return 0;
	xs_sleeper_wake(me);
	return 1;
}

static void news_arm(struct xs_poller *p)
{
	(void)p;
	armed = true;
}

static void news_disarm(struct xs_poller *p)
{
	char c;

	assert(xs_real.read(p->fd, &c, 1) <= 1);
}

static struct xs_poller poller = {
	.cheap = true, .poll = news_poll, .arm = news_arm, .disarm = news_disarm};

static void arrive(void)
{
	news = true;
	if (atomic_exchange(&armed, false))
		assert(xs_real.write(bell[1], "", 1) == 1);
}

/* --- another thread does something, now or while the sleeper sleeps ------------------------- */
static int ends[2]; /* of the pipe that's slept on */
static void (*act)(void);
static sem_t go, done;
static _Atomic bool over;

static void *actor(void *unused)
{
	for (sem_wait(&go); !over; sem_wait(&go)) {
		act();
		sem_post(&done);
	}
	return unused;
}

static void put_byte(void)
{
	assert(xs_real.write(ends[1], "", 1) == 1);
}

static void wake(void)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_sleeper_wake(me);
	xs_crit_leave(&cs);
}

static void signal_me(void)
{
	pthread_kill(my_thread, SIGUSR1);
}

static short seen;

static int sleep_on(int fd, uint64_t serial, uint64_t deadline, void (*how)(void))
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct xs_crit cs;
	int r;

	xs_crit_enter(&cs);
	xs_sleeper_begin(me);
	xs_sleeper_about(me, serial);
	act = how;
	if (how)
		sem_post(&go);
	r = xs_sleeper_sleep(me, &p, 1, deadline, NULL, false);
	xs_sleeper_end(me);
	xs_crit_leave(&cs);
	if (how)
		sem_wait(&done);
	seen = p.revents;
	return r;
}

static void take_byte(int fd)
{
	char c;

	assert(seen == POLLIN && xs_real.read(fd, &c, 1) == 1);
}

static void bytes(uint64_t serial, int rounds)
{
	while (rounds--) {
		assert(sleep_on(ends[0], serial, 0, put_byte) == 1);
		take_byte(ends[0]);
	}
	assert(me->rest.fd >= 0);
}

static uint64_t soon(void)
{
	return xs_now_ns() + 2 * XS_NS_PER_MS;
}

static void test_wakes(void)
{
	bytes(1, ROUNDS);
	for (int i = 0; i < ROUNDS; i++) {
		assert(sleep_on(ends[0], 1, 0, arrive) == 1 && !seen);
		assert(sleep_on(ends[0], 1, 0, wake) == 1 && !seen);
		assert(sleep_on(ends[0], i & 1 ? 0 : 1, 0, arrive) == 1 && !seen); /* by turns */
	}
	assert(sleep_on(ends[0], 1, soon(), NULL) == 0);
	bytes(1, 2);
}

static void handler(int sig)
{
	(void)sig;
}

static void test_signal(void)
{
	struct sigaction sa = {.sa_handler = handler};

	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0; i < ROUNDS; i++)
		assert(sleep_on(ends[0], 1, 0, signal_me) == -EINTR);
	bytes(1, 2);
}

/* The same numbers, another pipe. The old one's reading end lives on, if keep says so. */
static int renew(bool keep, int *kept)
{
	int old[2] = {ends[0], ends[1]}, fresh[2];

	*kept = keep ? dup(old[0]) : -1;
	assert(pipe2(fresh, O_NONBLOCK) == 0);
	old[1] = dup(old[1]);
	assert(dup2(fresh[0], ends[0]) == ends[0] && dup2(fresh[1], ends[1]) == ends[1]);
	close(fresh[0]);
	close(fresh[1]);
	return old[1];
}

static void test_renewed(void)
{
	int kept, old;

	for (uint64_t serial = 2; serial < 20; serial++) {
		old = renew(serial & 1, &kept);
		if (kept >= 0) /* readable for good, and nobody's business */
			assert(xs_real.write(old, "", 1) == 1);
		assert(sleep_on(ends[0], serial, soon(), NULL) == 0);
		assert(sleep_on(ends[0], serial, soon(), NULL) == 0);
		bytes(serial, 3);
		close(old);
		close(kept);
	}
}

/* By a raw call of the program's. */
static void test_lost(void)
{
	bytes(1, 2);
	xs_real.close(me->rest.fd);
	bytes(1, 2);
	xs_real.close(me->rest.fd);
	xs_real.close(me->wake_fd);
	assert(sleep_on(ends[0], 1, 0, put_byte) >= 1); /* to no avail, perhaps: look again */
	me = xs_sleeper_self();
	if (!seen)
		assert(sleep_on(ends[0], 1, 0, NULL) == 1);
	take_byte(ends[0]);
	bytes(1, 3);
}

static void remove_poller(struct xs_work *w)
{
	(void)w;
	xs_poller_remove(&poller);
	sem_post(&done);
}

#define STEP(call)           \
	do {                 \
		call;        \
		CHECK(true); \
	} while (0)

int main(void)
{
	static struct xs_work last = {.fn = remove_poller};
	struct xs_crit cs;
	pthread_t t;

	xs_real_init();
	sem_init(&go, 0, 0);
	sem_init(&done, 0, 0);
	assert(pipe2(bell, O_NONBLOCK) == 0 && pipe2(ends, O_NONBLOCK) == 0);
	my_thread = pthread_self();
	me = xs_sleeper_self();
	poller.fd = bell[0];
	xs_crit_enter(&cs);
	assert(xs_poller_add(&poller) == 0);
	xs_crit_leave(&cs);
	pthread_create(&t, NULL, actor, NULL);
	STEP(test_wakes());
	STEP(test_signal());
	STEP(test_renewed());
	STEP(test_lost());
	over = true;
	sem_post(&go);
	pthread_join(t, NULL);
	xs_progress_post(&last);
	sem_wait(&done);
	return check_done();
}

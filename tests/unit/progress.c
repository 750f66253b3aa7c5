/* SPDX-License-Identifier: MIT */
/* The progress thread: work, timers, watches, fork. */
#include "engine/progress.h"
#include "base/clock.h"
#include "base/crit.h"
#include "base/lock.h"
#include "base/real.h"
#include "check.h"

#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

static sem_t done;
static _Atomic int runs;

/* --- work -------------------------------------------------------------------------------- */
static void count(struct xs_work *w)
{
	(void)w;
	assert(xs_progress_self());
	assert(xs_crit_inside());
	runs++;
	sem_post(&done);
}

static void again(struct xs_work *w)
{
	if (++runs < 1000)
		assert(xs_progress_post(w));
	else
		sem_post(&done);
}

#define POSTERS 4
#define POSTS 20000
static _Atomic long work_posted, work_ran;

static void tally(struct xs_work *w)
{
	(void)w;
	work_ran++;
}

static void *poster(void *arg)
{
	struct xs_work *w = arg;

	for (int i = 0; i < POSTS; i++)
		if (xs_progress_post(&w[i % 8]))
			work_posted++;
	return NULL;
}

static void test_work(void)
{
	static struct xs_work once = {.fn = count}, loop = {.fn = again}, last = {.fn = count};
	static struct xs_work many[8];
	pthread_t t[POSTERS];

	assert(!xs_progress_running());
	assert(xs_progress_post(&once));
	sem_wait(&done);
	assert(runs == 1);
	runs = 0;
	xs_progress_post(&loop);
	sem_wait(&done);
	assert(runs == 1000);
	for (int i = 0; i < 8; i++)
		many[i].fn = tally;
	for (int i = 0; i < POSTERS; i++)
		pthread_create(&t[i], NULL, poster, many);
	for (int i = 0; i < POSTERS; i++)
		pthread_join(t[i], NULL);
	xs_progress_post(&last); /* behind all of them */
	sem_wait(&done);
	assert(work_ran == work_posted);
}

/* --- timers ------------------------------------------------------------------------------ */
#define TIMERS 500
struct item {
	struct xs_timer t;
	uint64_t want;
	bool fired;
};
static struct item items[TIMERS];
static uint64_t last_want;
static int fired;

static void ring(struct xs_timer *t)
{
	struct item *it = (struct item *)t;

	assert(xs_now_ns() >= it->want);
	assert(it->want >= last_want);
	last_want = it->want;
	it->fired = true;
	if (++fired == TIMERS / 2)
		sem_post(&done);
}

/* In the progress thread: none rings before all are set. */
static void set_timers(struct xs_work *w)
{
	uint64_t base = xs_now_ns();

	(void)w;
	for (int i = 0; i < TIMERS; i++) {
		items[i].t.fn = ring;
		assert(!xs_timer_set(&items[i].t, base + 3600 * XS_NS_PER_S));
	}
	for (int i = 0; i < TIMERS; i++) {
		items[i].want = base + (uint64_t)((i * 7919) % TIMERS) * 10000;
		assert(!xs_timer_set(&items[i].t, items[i].want));
	}
	for (int i = 1; i < TIMERS; i += 2)
		xs_timer_cancel(&items[i].t);
}

static void test_timers(void)
{
	static struct xs_work w = {.fn = set_timers};

	xs_progress_post(&w);
	sem_wait(&done);
	for (int i = 0; i < TIMERS; i++)
		assert(items[i].fired == !(i & 1));
}

static struct xs_timer self_timer;
static _Atomic bool in_fn;
static _Atomic int rings;

static void reset(struct xs_timer *t)
{
	in_fn = true;
	if (++rings == 100)
		sem_post(&done);
	xs_timer_set(t, xs_now_ns() + 1000);
	in_fn = false;
}

/* A timer that sets itself again is gone for good after cancel. */
static void test_cancel(void)
{
	struct xs_crit cs;
	int n;

	self_timer.fn = reset;
	xs_crit_enter(&cs);
	xs_timer_set(&self_timer, xs_now_ns());
	xs_crit_leave(&cs);
	sem_wait(&done);
	xs_crit_enter(&cs);
	xs_timer_cancel(&self_timer);
	xs_crit_leave(&cs);
	assert(!in_fn);
	n = rings;
	for (int i = 0; i < 3; i++) { /* three rounds of the thread later */
		static struct xs_work w = {.fn = count};

		xs_progress_post(&w);
		sem_wait(&done);
	}
	assert(rings == n);
}

/* --- watches ----------------------------------------------------------------------------- */
static void on_event(struct xs_fdwatch *w, uint32_t events)
{
	uint64_t n;

	assert(events);
	assert(xs_real.read(w->fd, &n, sizeof(n)) == sizeof(n));
	xs_progress_unwatch(w);
	sem_post(&done);
}

static void test_watch(void)
{
	static struct xs_fdwatch w = {.fn = on_event};
	struct xs_crit cs;
	uint64_t one = 1;

	w.fd = eventfd(0, 0);
	xs_crit_enter(&cs);
	assert(!xs_progress_watch(&w, 1));
	xs_crit_leave(&cs);
	assert(xs_real.write(w.fd, &one, sizeof(one)) == sizeof(one));
	sem_wait(&done);
	assert(xs_real.write(w.fd, &one, sizeof(one)) == sizeof(one));
}

/* --- fork -------------------------------------------------------------------------------- */
static void test_fork(void)
{
	static struct xs_work parents = {.fn = count}, childs = {.fn = count};
	struct xs_crit cs;
	int status;
	pid_t pid;

	xs_crit_enter(&cs);
	xs_progress_fork_prepare();
	pid = fork();
	if (!pid) {
		xs_lock_forget_all();
		xs_progress_fork_child();
		xs_crit_leave(&cs);
		assert(!xs_progress_running());
		assert(xs_progress_post(&childs));
		sem_wait(&done);
		_exit(0);
	}
	xs_progress_fork_parent();
	xs_crit_leave(&cs);
	assert(xs_progress_post(&parents));
	sem_wait(&done);
	assert(waitpid(pid, &status, 0) == pid && status == 0);
}

#define STEP(call) (call, CHECK(true))

int main(void)
{
	xs_real_init();
	sem_init(&done, 0, 0);
	STEP(test_work());
	STEP(test_timers());
	STEP(test_cancel());
	STEP(test_watch());
	if (!getenv("XS_SAN")) /* sanitizers allow no thread in the child of threads */
		STEP(test_fork());
	return check_done();
}

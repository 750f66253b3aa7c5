/* SPDX-License-Identifier: MIT */
/*
 * The progress thread.
 *
 * It sleeps in ppoll() on one epoll set of its own, which holds the doorbell (an eventfd), what
 * others asked to watch, and the pollers' channels while it's the one to watch them (lead.c).
 *
 * Who posts work or sets an earlier deadline looks at `asleep`, and rings only if the thread
 * sleeps; the thread sets `asleep` before it looks at its queues for the last time. Both sides use
 * sequentially consistent operations, so one of them sees the other.
 *
 * Work is a stack that anybody pushes on without a lock (any lock may be held then); the thread
 * takes it whole and turns it around. It takes one piece at a time off under the engine lock, so
 * that a fork, which holds that lock, finds every piece that hasn't run still marked as posted.
 *
 * A program may close our descriptors by raw system calls: EBADF or POLLNVAL make them anew.
 */
#include "engine/progress.h"
#include "base/clock.h"
#include "base/crit.h"
#include "base/highfd.h"
#include "base/log.h"
#include "base/rawsys.h"
#include "engine/engine.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STACK_SIZE (256 << 10)
#define BATCH 32

enum state { NOT_THERE, STARTING, RUNNING };

static _Atomic int state;
static _Atomic int set_fd = -1, bell_fd = -1;
static _Atomic bool asleep;
static __thread bool self;

static _Atomic(struct xs_work *) posted;
static struct xs_work *batch;		 /* being run; engine lock */
static struct xs_ptrs watches;		 /* engine lock */
static struct xs_ptrs watch_bits;	 /* the same places */
static struct epoll_event events[BATCH]; /* progress thread */
static int events_n;
static int channels_fd = -1; /* progress thread and lead.c's take-over */
static char bell_tag, channels_tag;

bool xs_progress_running(void)
{
	return atomic_load_explicit(&state, memory_order_acquire) != NOT_THERE;
}

bool xs_progress_self(void)
{
	return self;
}

/* --- descriptors ------------------------------------------------------------------------- */
static int set_add(int set, int fd, uint32_t bits, void *data)
{
	struct epoll_event ev = {.events = bits, .data.ptr = data};

	return (int)xs_sys(__NR_epoll_ctl, set, EPOLL_CTL_ADD, fd, &ev);
}

static void close_shared(_Atomic int *fd)
{
	int old = atomic_exchange(fd, -1);

	xs_highfd_close(&old);
}

static int make_bell(int set)
{
	int fd = xs_highfd((int)xs_sys(__NR_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK));
	int r;

	if (fd < 0)
		return fd;
	r = set_add(set, fd, EPOLLIN, &bell_tag);
	if (r < 0) {
		xs_highfd_close(&fd);
		return r;
	}
	atomic_store(&bell_fd, fd);
	return 0;
}

/* Engine lock, or the progress thread. */
static int make_set(void)
{
	int fd = xs_highfd((int)xs_sys(__NR_epoll_create1, EPOLL_CLOEXEC));
	int r;

	if (fd < 0)
		return fd;
	r = make_bell(fd);
	if (r < 0) {
		xs_highfd_close(&fd);
		return r;
	}
	atomic_store(&set_fd, fd);
	return 0;
}

/* The program closed our set behind our back. */
static void remake_set(void)
{
	XS_LOG(WARN, "progress thread: descriptors closed by the program, made anew");
	close_shared(&bell_fd);
	if (make_set() < 0)
		return;
	xs_lock_take(&xs_engine_lock);
	for (unsigned i = 0; i < watches.n; i++) {
		struct xs_fdwatch *w = watches.at[i];

		set_add(atomic_load(&set_fd), w->fd, (uint32_t)(uintptr_t)watch_bits.at[i], w);
	}
	xs_lock_drop(&xs_engine_lock);
	if (channels_fd >= 0)
		set_add(atomic_load(&set_fd), channels_fd, EPOLLIN, &channels_tag);
}

void xs_progress_ring(void)
{
	uint64_t one = 1;

	if (!atomic_load(&asleep) || !atomic_exchange(&asleep, false))
		return;
	if (xs_sys(__NR_write, atomic_load(&bell_fd), &one, sizeof(one)) != -EBADF)
		return;
	if (make_bell(atomic_load(&set_fd)) == 0)
		xs_sys(__NR_write, atomic_load(&bell_fd), &one, sizeof(one));
}

void xs_progress_channels(int fd, bool on)
{
	struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.ptr = &channels_tag};
	int set = atomic_load(&set_fd);

	if (set < 0)
		return;
	if (xs_sys(__NR_epoll_ctl, set, EPOLL_CTL_MOD, fd, &ev) == -ENOENT)
		xs_sys(__NR_epoll_ctl, set, EPOLL_CTL_ADD, fd, &ev);
	if (on)
		channels_fd = fd;
}

/* --- work -------------------------------------------------------------------------------- */
bool xs_progress_post(struct xs_work *w)
{
	struct xs_work *top;

	if (atomic_exchange(&w->posted, true))
		return false;
	if (!xs_progress_running() && xs_progress_start()) {
		atomic_store(&w->posted, false);
		return false;
	}
	top = atomic_load_explicit(&posted, memory_order_relaxed);
	do
		w->next = top;
	while (!atomic_compare_exchange_weak(&posted, &top, w));
	if (!self)
		xs_progress_ring();
	return true;
}

static struct xs_work *take_work(void)
{
	struct xs_work *w, *next;

	xs_lock_take(&xs_engine_lock);
	if (!batch) {
		for (w = atomic_exchange(&posted, NULL); w; w = next) {
			next = w->next;
			w->next = batch;
			batch = w;
		}
	}
	w = batch;
	if (w) {
		batch = w->next;
		atomic_store(&w->posted, false);
	}
	xs_lock_drop(&xs_engine_lock);
	return w;
}

/* One batch: work that posts itself again waits for the next round. */
static void run_work(void)
{
	struct xs_work *w;

	if (!atomic_load(&posted))
		return;
	do {
		w = take_work();
		if (w)
			w->fn(w);
	} while (w && batch);
}

/* --- watches ----------------------------------------------------------------------------- */
static int watch_locked(struct xs_fdwatch *w, uint32_t bits)
{
	int r = atomic_load(&set_fd) < 0 ? make_set() : 0;

	if (!r)
		r = xs_ptrs_reserve(&watches);
	if (!r)
		r = xs_ptrs_reserve(&watch_bits);
	if (!r)
		r = set_add(atomic_load(&set_fd), w->fd, bits, w);
	if (r)
		return r;
	watches.at[watches.n++] = w;
	watch_bits.at[watch_bits.n++] = (void *)(uintptr_t)bits;
	return 0;
}

int xs_progress_watch(struct xs_fdwatch *w, uint32_t bits)
{
	int r;

	xs_lock_take(&xs_engine_lock);
	r = watch_locked(w, bits);
	xs_lock_drop(&xs_engine_lock);
	return r ? r : xs_progress_start();
}

/* Its place in the table, or -1; engine lock. */
static int watch_find(const struct xs_fdwatch *w)
{
	for (unsigned i = 0; i < watches.n; i++)
		if (watches.at[i] == w)
			return (int)i;
	return -1;
}

int xs_progress_rewatch(struct xs_fdwatch *w, uint32_t bits)
{
	struct epoll_event ev = {.events = bits, .data.ptr = w};
	int i;

	xs_lock_take(&xs_engine_lock);
	i = watch_find(w);
	if (i >= 0)
		watch_bits.at[i] = (void *)(uintptr_t)bits;
	xs_lock_drop(&xs_engine_lock);
	return (int)xs_sys(__NR_epoll_ctl, atomic_load(&set_fd), EPOLL_CTL_MOD, w->fd, &ev);
}

void xs_progress_unwatch(struct xs_fdwatch *w)
{
	struct epoll_event ev = {0};
	int i;

	xs_lock_take(&xs_engine_lock);
	i = watch_find(w);
	if (i >= 0) {
		watches.at[i] = watches.at[--watches.n];
		watch_bits.at[i] = watch_bits.at[--watch_bits.n];
	}
	xs_lock_drop(&xs_engine_lock);
	xs_sys(__NR_epoll_ctl, atomic_load(&set_fd), EPOLL_CTL_DEL, w->fd, &ev);
	for (i = 0; i < events_n; i++)
		if (events[i].data.ptr == w)
			events[i].data.ptr = NULL;
}

/* --- the thread -------------------------------------------------------------------------- */
/* What the watcher wrote before it called xs_progress_watch() is seen from here on. */
static void see_watches(void)
{
	xs_lock_take(&xs_engine_lock);
	xs_lock_drop(&xs_engine_lock);
}

/* True: the channels are readable. */
static bool serve_events(void)
{
	int fd = atomic_load(&set_fd);
	bool fired = false;
	uint64_t n;

	events_n = (int)xs_sys(__NR_epoll_pwait, fd, events, BATCH, 0, NULL, 0);
	for (int i = 0; i < events_n; i++) {
		struct xs_fdwatch *w = events[i].data.ptr;

		if (events[i].data.ptr == &bell_tag) {
			xs_sys(__NR_read, atomic_load(&bell_fd), &n, sizeof(n));
		} else if (events[i].data.ptr == &channels_tag) {
			fired = true;
		} else if (w) {
			see_watches();
			w->fn(w, events[i].events);
		}
	}
	events_n = 0;
	return fired;
}

/* `asleep` is set. Sleeps until something is due, `bound` nanoseconds at most (0: no bound). */
static void rest(uint64_t bound)
{
	struct pollfd pfd = {.events = POLLIN};
	struct timespec ts;
	uint64_t now, when;
	long r;

	when = xs_timer_next();
	now = xs_now_ns();
	if (bound && (!when || now + bound < when))
		when = now + bound;
	if (!atomic_load(&posted) && (!when || when > now)) {
		uint64_t left = when ? when - now : 0;

		ts.tv_sec = (time_t)(left / XS_NS_PER_S);
		ts.tv_nsec = (long)(left % XS_NS_PER_S);
		pfd.fd = atomic_load(&set_fd);
		r = xs_sys(__NR_ppoll, &pfd, 1, when ? &ts : NULL, NULL, 8);
		if (r > 0 && (pfd.revents & POLLNVAL))
			remake_set();
	}
	atomic_store(&asleep, false);
}

static void *progress_main(void *unused)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	self = true;
	pthread_setname_np(pthread_self(), "xshim");
	for (;;) {
		bool fired = serve_events();

		run_work();
		xs_timer_run(xs_now_ns());
		atomic_store(&asleep, true); /* from here on rings count, also for the turn */
		rest(xs_lead_turn(fired));
	}
	return unused;
}

static int create_thread(void)
{
	pthread_attr_t attr;
	pthread_t id;
	int r;

	if (pthread_attr_init(&attr))
		return -ENOMEM;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	r = pthread_create(&id, &attr, progress_main, NULL);
	if (r == EINVAL) { /* large thread-local storage doesn't fit on the small stack */
		pthread_attr_setstacksize(&attr, STACK_SIZE * 16);
		r = pthread_create(&id, &attr, progress_main, NULL);
	}
	pthread_attr_destroy(&attr);
	return -r;
}

int xs_progress_start(void)
{
	int expect = NOT_THERE, r = 0;
	struct xs_crit cs;

	if (xs_progress_running() || !atomic_compare_exchange_strong(&state, &expect, STARTING))
		return 0;
	xs_crit_enter(&cs); /* the thread inherits the blocked signals */
	xs_lock_take(&xs_engine_lock);
	if (atomic_load(&set_fd) < 0)
		r = make_set();
	xs_lock_drop(&xs_engine_lock);
	if (!r)
		r = create_thread();
	atomic_store(&state, r ? NOT_THERE : RUNNING);
	xs_crit_leave(&cs);
	if (r)
		XS_LOG(WARN, "no progress thread: error %d", -r);
	return r;
}

/* --- fork -------------------------------------------------------------------------------- */
void xs_progress_fork_prepare(void) XS_NO_TSA
{
	xs_lock_take(&xs_engine_lock);
}

void xs_progress_fork_parent(void) XS_NO_TSA
{
	xs_lock_drop(&xs_engine_lock);
}

static void unmark(struct xs_work *w)
{
	for (; w; w = w->next)
		atomic_store(&w->posted, false);
}

void xs_progress_fork_child(void)
{
	atomic_store(&state, NOT_THERE);
	self = false;
	atomic_store(&asleep, false);
	unmark(atomic_exchange(&posted, NULL));
	unmark(batch);
	batch = NULL;
	watches.n = watch_bits.n = 0;
	channels_fd = -1;
	events_n = 0;
	close_shared(&set_fd);
	close_shared(&bell_fd);
	xs_timer_forget();
	xs_lead_forget();
	xs_sleeper_forget();
	xs_sig_forget();
}

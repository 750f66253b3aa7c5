/* SPDX-License-Identifier: MIT */
/*
 * Who watches the pollers' channels: leader and followers.
 *
 * All channels are members of one epoll set of ours, so watching them costs a leader one
 * descriptor; where there's only one, as with one device, the leader sleeps on that itself (a set
 * in between costs a tenth of a round trip). The leader word says who may sleep on them: nobody, a
 * thread of the program, or the progress thread (awake or asleep). Who wants to sleep takes the
 * word if it can, arms every poller, polls once more and sleeps on them too; else it follows, and
 * sleeps on its wake descriptor alone.
 *
 * A leader that leaves gives the word back and wakes one follower, which takes it. Without
 * followers nothing is done for it in the steady state: while threads come and go the progress
 * thread ticks each two milliseconds, and up to each sixteen while every tick finds that threads
 * have polled: on a slow machine ticks eat into the round trips. A tick that saw no thread poll
 * since the last one polls by itself, unarmed; after twenty quiet milliseconds it takes the word,
 * arms, and sleeps without bound on the channels. From a *sleeping* progress thread who polls or
 * sleeps takes the word at once, and the channels out of its set, so two never sleep on one
 * channel, and a busy thread's completions don't wake it each time (measured in the guest: that
 * alone doubled a round trip). A leader that leaves while it isn't ticking rings the doorbell.
 *
 * Why nothing is lost: the word, `ticking` and the number of followers are sequentially consistent.
 *   leaver:  word = nobody; then looks at followers and ticking.
 *   follower: counts itself, then tries the word again, then sleeps.
 *   progress: ticking = false, then looks at the word again, then sleeps.
 * Of each pair one sees the other. tests/model/sleep.pml searches every order.
 */
#include "base/clock.h"
#include "base/crit.h"
#include "base/highfd.h"
#include "base/log.h"
#include "base/rawsys.h"
#include "engine/engine.h"
#include "engine/progress.h"

#include <errno.h>
#include <sys/epoll.h>

#define TICK_NS (2 * XS_NS_PER_MS)
#define TICK_MOST_NS (16 * XS_NS_PER_MS)
#define QUIET_NS (20 * XS_NS_PER_MS)
#define BATCH 16

enum word { NOBODY, PROGRAM, PROGRESS_AWAKE, PROGRESS_ASLEEP };

static struct xs_lock poll_lock = XS_LOCK_INIT(XS_RANK_POLL);
static struct xs_poller *pollers; /* poll lock */
static _Atomic unsigned pollers_n;
static _Atomic int channels = -1;
static _Atomic uint64_t lead_at = UINT32_MAX; /* no descriptor */
static _Atomic(struct xs_sleeper *) leader;
static _Atomic int word;
static _Atomic bool ticking;
static _Atomic unsigned activity; /* polls and sleeps of the program's threads */

static struct xs_lock followers_lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct xs_sleeper *followers; /* followers lock */
static _Atomic unsigned followers_n;

static unsigned seen; /* these three: progress thread only */
static uint64_t seen_at, tick_ns = TICK_NS;

bool xs_pollers(void)
{
	return atomic_load_explicit(&pollers_n, memory_order_relaxed) != 0;
}

uint64_t xs_lead_at(void)
{
	return atomic_load(&lead_at);
}

/* Poll lock. */
static void choose_fd(void)
{
	bool one = pollers && !pollers->next;
	uint64_t at = (atomic_load(&lead_at) / XS_LEAD_NEXT + 1) * XS_LEAD_NEXT;

	if (one && pollers->cheap)
		at |= XS_LEAD_EDGE;
	atomic_store(&lead_at, at | (uint32_t)(one ? pollers->fd : atomic_load(&channels)));
}

/* The pollers have changed: a leader that sleeps on the old descriptor settles anew. */
static void tell_leader(void)
{
	struct xs_sleeper *s = atomic_load(&leader);

	if (s)
		xs_sleeper_tell(s, XS_SL_LEAD);
}

void xs_lead_active(void)
{
	atomic_fetch_add_explicit(&activity, 1, memory_order_relaxed);
}

/* --- polling; the poll lock is held ------------------------------------------------------ */
static int poll_all(void)
{
	struct xs_poller *p, *next;
	int n = 0;

	for (p = pollers; p; p = next) {
		next = p->next;
		n += p->poll(p);
	}
	return n;
}

static void arm_all(void)
{
	int left = 4 * BATCH;

	for (struct xs_poller *p = pollers; p; p = p->next)
		p->arm(p);
	while (poll_all() && --left)
		; /* what came before tells nobody any more */
	if (left)
		return;
	tell_leader(); /* there's no end to it: nobody sleeps yet */
	xs_progress_ring();
}

static void disarm_fired(void)
{
	struct epoll_event ev[BATCH];
	long n;

	if (pollers && !pollers->next) { /* no need to ask which one */
		pollers->disarm(pollers);
		return;
	}
	n = xs_sys(__NR_epoll_pwait, atomic_load(&channels), ev, BATCH, 0, NULL, 0);
	for (long i = 0; i < n; i++) {
		struct xs_poller *p = ev[i].data.ptr;

		p->disarm(p);
	}
}

static bool swap(int from, int to)
{
	return atomic_compare_exchange_strong(&word, &from, to);
}

/* A thread polls by itself: the progress thread needn't be woken by each completion. The word is
 * held until the channels are out of its set, or another thread could sleep on them too. */
static void relieve(void)
{
	if (atomic_load_explicit(&word, memory_order_relaxed) != PROGRESS_ASLEEP ||
	    !swap(PROGRESS_ASLEEP, PROGRAM))
		return;
	xs_progress_channels(atomic_load(&channels), false);
	atomic_store(&word, NOBODY);
	xs_lead_pass();
}

bool xs_poll_spin(void)
{
	int n = 1;

	if (xs_lock_try(&poll_lock)) {
		n = poll_all();
		xs_lock_drop(&poll_lock);
	}
	return n > 0;
}

bool xs_poll_once(void)
{
	struct xs_crit cs;
	int n = 0;

	if (!xs_pollers())
		return false;
	xs_crit_enter(&cs);
	if (!xs_progress_self()) {
		xs_lead_active();
		relieve();
	}
	if (xs_lock_try(&poll_lock)) {
		n = poll_all();
		xs_lock_drop(&poll_lock);
	}
	xs_crit_leave(&cs);
	return n > 0;
}

/* --- pollers come and go ----------------------------------------------------------------- */
static int channel_set(void)
{
	int fd = atomic_load(&channels);

	if (fd >= 0)
		return fd;
	fd = xs_highfd((int)xs_sys(__NR_epoll_create1, EPOLL_CLOEXEC));
	if (fd >= 0)
		atomic_store(&channels, fd);
	return fd;
}

static int channel_add(struct xs_poller *p)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = p};
	int fd = channel_set();
	long r;

	if (fd < 0)
		return fd;
	r = xs_sys(__NR_epoll_ctl, fd, EPOLL_CTL_ADD, p->fd, &ev);
	if (r != -EBADF)
		return (int)r;
	/* The program closed the set; those in it are put into a new one. */
	atomic_store(&channels, -1);
	fd = channel_set();
	for (struct xs_poller *old = pollers; fd >= 0 && old; old = old->next) {
		struct epoll_event again = {.events = EPOLLIN, .data.ptr = old};

		xs_sys(__NR_epoll_ctl, fd, EPOLL_CTL_ADD, old->fd, &again);
	}
	return fd < 0 ? fd : (int)xs_sys(__NR_epoll_ctl, fd, EPOLL_CTL_ADD, p->fd, &ev);
}

int xs_poller_add(struct xs_poller *p)
{
	struct xs_crit cs;
	int r;

	xs_crit_enter(&cs);
	xs_lock_take(&poll_lock);
	r = channel_add(p);
	if (r >= 0) {
		p->next = pollers;
		pollers = p;
		atomic_fetch_add(&pollers_n, 1);
		xs_spin_dear(!p->cheap);
		choose_fd();
		p->arm(p); /* the progress thread may be asleep already */
		p->poll(p);
	}
	xs_lock_drop(&poll_lock);
	if (r >= 0) {
		tell_leader();
		r = xs_progress_start();
		xs_progress_ring();
	}
	xs_crit_leave(&cs);
	return r;
}

void xs_poller_remove(struct xs_poller *p)
{
	struct epoll_event ev = {0};
	struct xs_poller **at;

	xs_lock_take(&poll_lock);
	for (at = &pollers; *at && *at != p; at = &(*at)->next)
		;
	if (*at) {
		*at = p->next;
		atomic_fetch_sub(&pollers_n, 1);
		xs_spin_dear(-!p->cheap);
		xs_sys(__NR_epoll_ctl, atomic_load(&channels), EPOLL_CTL_DEL, p->fd, &ev);
		choose_fd();
	}
	xs_lock_drop(&poll_lock);
}

/* --- followers --------------------------------------------------------------------------- */
static void follow(struct xs_sleeper *s)
{
	xs_lock_take(&followers_lock);
	if (!s->follows) {
		s->follows = true;
		s->prev = NULL;
		s->next = followers;
		if (followers)
			followers->prev = s;
		followers = s;
		atomic_fetch_add(&followers_n, 1);
	}
	xs_lock_drop(&followers_lock);
}

static void unlink_follower(struct xs_sleeper *s)
{
	if (s->prev)
		s->prev->next = s->next;
	else
		followers = s->next;
	if (s->next)
		s->next->prev = s->prev;
	s->follows = false;
	atomic_fetch_sub(&followers_n, 1);
}

static void unfollow(struct xs_sleeper *s)
{
	xs_lock_take(&followers_lock);
	if (s->follows)
		unlink_follower(s);
	xs_lock_drop(&followers_lock);
}

/* Asks one follower to lead. False: there's none. */
static bool promote(void)
{
	struct xs_sleeper *s;

	if (!atomic_load(&followers_n))
		return false;
	xs_lock_take(&followers_lock);
	s = followers;
	if (s) {
		unlink_follower(s);
		xs_sleeper_tell(s, XS_SL_LEAD);
	}
	xs_lock_drop(&followers_lock);
	return s != NULL;
}

/* --- the word ---------------------------------------------------------------------------- */
static bool grab(void)
{
	if (swap(NOBODY, PROGRAM))
		return true;
	if (!swap(PROGRESS_ASLEEP, PROGRAM))
		return false;
	xs_progress_channels(atomic_load(&channels), false);
	return true;
}

bool xs_lead_take(struct xs_sleeper *s)
{
	if (!xs_pollers())
		return false;
	xs_lead_active();
	if (!grab()) {
		follow(s);
		if (!grab())
			return false;
	}
	atomic_store(&leader, s);
	unfollow(s);
	xs_lead_rearm();
	return true;
}

void xs_lead_serve(void)
{
	xs_lock_take(&poll_lock);
	disarm_fired();
	poll_all();
	xs_lock_drop(&poll_lock);
}

void xs_lead_rearm(void)
{
	xs_lock_take(&poll_lock);
	arm_all();
	xs_lock_drop(&poll_lock);
}

void xs_lead_pass(void)
{
	if (atomic_load(&word) != NOBODY || promote())
		return;
	if (!atomic_load(&ticking))
		xs_progress_ring();
}

void xs_lead_leave(void)
{
	atomic_store(&leader, NULL);
	atomic_store(&word, NOBODY);
	xs_lead_active();
	xs_lead_pass();
}

void xs_lead_drop(struct xs_sleeper *s, bool leads)
{
	if (leads) {
		xs_lead_leave();
		return;
	}
	unfollow(s);
	/* Asked to lead, but leaving: somebody else must. */
	if (atomic_load(&s->state) & XS_SL_LEAD)
		xs_lead_pass();
}

/* --- the progress thread's part ---------------------------------------------------------- */
static void serve_as_progress(bool fired)
{
	xs_lock_take(&poll_lock);
	if (fired)
		disarm_fired();
	poll_all();
	arm_all();
	xs_lock_drop(&poll_lock);
}

/* Takes an event off the channels only with the word: a thread that has taken the word meanwhile,
 * and armed, may be about to sleep on that event. */
static void serve_unarmed(bool fired)
{
	if (!xs_lock_try(&poll_lock))
		return; /* a thread is at it */
	if (fired)
		disarm_fired();
	poll_all();
	xs_lock_drop(&poll_lock);
}

/* The word is PROGRESS_AWAKE. Arms, and sleeps without bound unless a follower can do it. */
static uint64_t watch_channels(bool fired)
{
	serve_as_progress(fired);
	if (!atomic_load(&followers_n)) {
		xs_progress_channels(atomic_load(&channels), true);
		atomic_store(&ticking, false);
		atomic_store(&word, PROGRESS_ASLEEP);
		if (!atomic_load(&followers_n) || !swap(PROGRESS_ASLEEP, PROGRESS_AWAKE))
			return 0;
	}
	/* On every way here: a follower that leads must be the channels' only sleeper. */
	xs_progress_channels(atomic_load(&channels), false);
	atomic_store(&ticking, true);
	atomic_store(&word, NOBODY);
	promote();
	return TICK_NS;
}

static uint64_t tick(bool active)
{
	uint64_t now = xs_now_ns();

	if (active)
		seen_at = now;
	if (!active) /* a thread that sleeps there sees to it meanwhile */
		tick_ns = atomic_load(&word) == NOBODY ? TICK_NS : TICK_MOST_NS;
	else if (tick_ns < TICK_MOST_NS)
		tick_ns *= 2;
	if (atomic_load(&word) == NOBODY || now - seen_at < QUIET_NS) {
		atomic_store(&ticking, true);
		return tick_ns;
	}
	atomic_store(&ticking, false);
	if (atomic_load(&word) != NOBODY)
		return 0;
	atomic_store(&ticking, true);
	return TICK_NS;
}

uint64_t xs_lead_turn(bool fired)
{
	unsigned now = atomic_load_explicit(&activity, memory_order_relaxed);
	bool active = now != seen;

	seen = now;
	if (!xs_pollers())
		return 0;
	if (swap(PROGRESS_ASLEEP, PROGRESS_AWAKE)) {
		if (!active)
			return watch_channels(fired);
		/* Threads poll by themselves: leave the channels to them for a tick. */
		serve_unarmed(fired);
		xs_progress_channels(atomic_load(&channels), false);
		atomic_store(&ticking, true);
		atomic_store(&word, NOBODY);
		promote();
		return tick(true);
	}
	if (!active && atomic_load(&word) == NOBODY) {
		if (xs_now_ns() - seen_at < QUIET_NS)
			serve_unarmed(false);
		else if (swap(NOBODY, PROGRESS_AWAKE))
			return watch_channels(fired);
	}
	return tick(active);
}

void xs_lead_forget(void)
{
	int fd = atomic_exchange(&channels, -1);

	xs_highfd_close(&fd);
	atomic_store(&lead_at, UINT32_MAX);
	atomic_store(&leader, NULL);
	xs_lock_init(&poll_lock, XS_RANK_POLL);
	xs_lock_init(&followers_lock, XS_RANK_LEAF);
	pollers = NULL;
	followers = NULL;
	atomic_store(&pollers_n, 0);
	xs_spin_forget();
	atomic_store(&followers_n, 0);
	atomic_store(&word, NOBODY);
	atomic_store(&ticking, false);
}

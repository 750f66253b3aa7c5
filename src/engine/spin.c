/* SPDX-License-Identifier: MIT */
/*
 * Spinning before a sleep. Each thread keeps a moving average of how often its spins paid; below a
 * quarter it only tries now and then. A turn that takes half of the time that a spin may last, and
 * in which another thread had the processor, says that more threads want to run than there are
 * processors, whether it brought an answer or not: then nobody spins for a while. (A virtual
 * machine's clock interrupt alone can take as long: measured. So the kernel is asked about that,
 * once there has been such a turn; half a millisecond needs no question.) Between
 * polls the thread yields: on few cores the peer, and a software device's kernel threads, need this
 * very processor. Where a poll is a look at memory there are some of them between two yields, which
 * take ten times as long.
 */
#include "base/clock.h"
#include "base/config.h"
#include "base/crit.h"
#include "base/rawsys.h"
#include "engine/engine.h"

#include <sys/resource.h>

#define FULL 1024u
#define WORTH (FULL / 4)
#define PROBE_EVERY 32u
#define BARE_PAYS 4u /* waits that ended there, for each that had to poll and yield */
#define BARE_AGAIN 16u
#define BARE_CYCLES 20000u /* some microseconds: several round trips of two that are awake */
#define BUSY_NS XS_NS_PER_MS
#define BUSY_MOST_NS XS_NS_PER_S
#define CHEAP_POLLS 16u	 /* in a turn, where nothing but memory is looked at */
#define LONE_EVERY 1024u /* spins, between looks how many processors there are */
#define DEAR_TIMES 32u	 /* what a late yield took is at most that part of the time */
#define PAID_WELL 16u	 /* spins that paid since the last late yield: that one was a chance */
#define SLICE_NS (XS_NS_PER_MS / 2) /* no interrupt takes that long: it was another thread */
#define SHARES 4u
#define SHARES_EVERY 64u
#define SIGNALS_EVERY 64u /* turns: far below a millisecond */
#define LOOK_EVERY \
	16u /* turns, at what others may have brought, where a turn is a poll and a yield */

static __thread unsigned pay = FULL / 2;
static __thread unsigned skipped, paid, spins;
static __thread unsigned bare_off; /* times that bare waits are still left out */
static __thread unsigned
	shares; /* answers that came right after a yield: the peer is on this one */
static __thread bool suspicious; /* a yield was late */
static __thread bool lone;	 /* this thread has one processor, which the peer may need */
static _Atomic uint64_t busy_until, busy_ns = BUSY_NS;
static _Atomic unsigned dear; /* pollers that aren't cheap */

static bool signal_pending(void)
{
	uint64_t set = 0, mask = 0;

	xs_sys(__NR_rt_sigpending, &set, sizeof(set));
	if (!set)
		return false;
	xs_sys(__NR_rt_sigprocmask, 0, NULL, &mask, sizeof(mask));
	return (set & ~(xs_crit_inside() ? xs_crit_mask() : mask)) != 0;
}

static bool look(bool (*done)(void *arg), void *arg)
{
	xs_poll_once();
	return done(arg);
}

/* Does a spin promise to pay now? */
static bool promising(uint64_t now)
{
	if (!xs_config()->poll_us || now < atomic_load_explicit(&busy_until, memory_order_relaxed))
		return false;
	if (pay >= WORTH)
		return true;
	if (++skipped < PROBE_EVERY)
		return false;
	skipped = 0;
	return true;
}

/* The other side may need this very processor: then only a yield brings what is waited for. */
uint64_t xs_spin_cycles(unsigned bare)
{
	if (bare >= BARE_PAYS)
		bare_off = 0;
	else if (!bare_off)
		bare_off = BARE_AGAIN;
	else
		bare_off--;
	if (bare_off || lone || shares == SHARES || !xs_config()->poll_us || pay < WORTH ||
	    xs_now_ns() < atomic_load_explicit(&busy_until, memory_order_relaxed))
		return 0;
	return BARE_CYCLES;
}

bool xs_spin(bool (*done)(void *arg), void *arg)
{
	return look(done, arg) || xs_spin_on(done, arg);
}

/* More threads want to run than there are processors. Each try costs up to a scheduler's slice, so
 * as long as that goes on they become rare. Where most spins have paid meanwhile it was no more
 * than an interrupt, or another guest of the same machine: then they're only as rare as it was
 * long. */
static void stay_away(uint64_t now, uint64_t tried)
{
	uint64_t until = atomic_load_explicit(&busy_until, memory_order_relaxed);
	uint64_t ns = 2 * atomic_load_explicit(&busy_ns, memory_order_relaxed);

	if (tried - until > BUSY_MOST_NS || paid >= PAID_WELL)
		ns = BUSY_NS;
	if (ns < DEAR_TIMES * (now - tried))
		ns = DEAR_TIMES * (now - tried);
	if (ns > BUSY_MOST_NS)
		ns = BUSY_MOST_NS;
	paid = 0;
	atomic_store_explicit(&busy_ns, ns, memory_order_relaxed);
	atomic_store_explicit(&busy_until, now + ns, memory_order_relaxed);
}

/* How often this thread has been switched away from. */
static long switches(void)
{
	struct rusage r = {0};

	xs_sys(__NR_getrusage, RUSAGE_THREAD, &r);
	return r.ru_nvcsw + r.ru_nivcsw;
}

static void count_processors(void)
{
	uint64_t set[128]; /* 8192 processors; what has more isn't alone */
	long n = xs_sys(__NR_sched_getaffinity, 0, sizeof(set), set);
	int found = 0;

	for (long i = 0; i < n / (long)sizeof(set[0]); i++)
		found += __builtin_popcountll(set[i]);
	lone = found == 1;
}

/* Polls between two yields. */
static unsigned turn_length(void)
{
	if (spins++ % LONE_EVERY == 0)
		count_processors();
	return lone || atomic_load_explicit(&dear, memory_order_relaxed) ? 1 : CHEAP_POLLS;
}

/* A turn's polls. True: over. */
static bool burst(unsigned polls, bool (*done)(void *arg), void *arg)
{
	while (polls--) {
		if (xs_poll_spin() && done(arg))
			return true;
		if (polls)
			xs_pause();
	}
	return false;
}

/* A turn took long. True: too many want to run. */
static bool crowded(uint64_t before, uint64_t now, long *switched)
{
	if (now - before >= SLICE_NS || (suspicious && switches() != *switched)) {
		stay_away(now, before);
		pay -= pay / 8;
		return true;
	}
	suspicious = !suspicious;
	*switched = switches();
	return false;
}

/* One try that pays brings the other side's next tries luck too: both were asleep because the other
 * one was. */
static void paid_off(void)
{
	pay = pay < WORTH ? FULL / 2 : pay + (FULL - pay) / 8;
	paid++;
}

bool xs_spin_on(bool (*done)(void *arg), void *arg)
{
	uint64_t now = xs_now_ns(), end, late;
	unsigned polls, every;
	bool first; /* yields before it looks at all */
	long switched = 0;

	if (!promising(now))
		return false;
	if (suspicious)
		switched = switches();
	polls = turn_length();
	first = polls == 1 || (shares == SHARES && spins % SHARES_EVERY);
	every = atomic_load_explicit(&dear, memory_order_relaxed) ? LOOK_EVERY : 1;
	late = xs_config()->poll_us * XS_NS_PER_US / 2;
	end = now + 2 * late;
	for (unsigned i = 1; now < end; i++) {
		uint64_t before = now;
		bool over;

		if (i > 1 || first)
			xs_sys(__NR_sched_yield);
		over = burst(polls, done, arg) || (i % every == 0 && done(arg));
		now = xs_now_ns();
		if (now - before > late && crowded(before, now, &switched))
			return over;
		if (over) {
			if (!first)
				shares = i == 1 ? 0 : shares + (i == 2 && shares < SHARES);
			paid_off();
			return true;
		}
		if (i % SIGNALS_EVERY == 0 && signal_pending())
			return false;
	}
	pay -= pay / 8;
	return false;
}

void xs_spin_dear(int more)
{
	atomic_fetch_add(&dear, (unsigned)more);
}

void xs_spin_forget(void)
{
	atomic_store(&dear, 0);
}

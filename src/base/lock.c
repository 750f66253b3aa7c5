/* SPDX-License-Identifier: MIT */
/* What a contended lock does, and the per-thread record of held ones that XS_DEBUG builds check. */
#include "base/lock.h"
#include "base/clock.h"
#include "base/crit.h"
#include "base/rawsys.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>

#define TRIES 32 /* before the sleep: most sections are shorter than a futex call */

#ifdef XS_DEBUG
#include <stdio.h>
#include <stdlib.h>

#define HELD_MAX XS_RANK_COUNT

static __thread const struct xs_lock *held[HELD_MAX];
static __thread unsigned int held_n;

static void broken(const char *rule, const struct xs_lock *lock)
{
	fprintf(stderr, "xshim lock rule broken: %s (rank %d, top rank %d)\n", rule,
		(int)lock->rank, held_n ? (int)held[held_n - 1]->rank : -1);
	abort();
}

void xs_debug_broken(const char *rule)
{
	fprintf(stderr, "xshim rule broken: %s\n", rule);
	abort();
}

static bool is_held(const struct xs_lock *lock)
{
	for (unsigned int i = 0; i < held_n; i++)
		if (held[i] == lock)
			return true;
	return false;
}

void xs_lock_check_take(const struct xs_lock *lock)
{
	if (!xs_crit_inside())
		broken("taken outside a critical section", lock);
	if (held_n && held[held_n - 1]->rank >= lock->rank)
		broken("taken out of order", lock);
}

/* A try can't deadlock, so it may break the order; the record stays sorted by time only. */
void xs_lock_note_taken(const struct xs_lock *lock)
{
	if (held_n == HELD_MAX)
		broken("too many held", lock);
	held[held_n++] = lock;
}

void xs_lock_note_dropped(const struct xs_lock *lock)
{
	unsigned int i = held_n;

	while (i > 0 && held[i - 1] != lock)
		i--;
	if (!i)
		broken("dropped but not held", lock);
	for (held_n--; i <= held_n; i++)
		held[i - 1] = held[i];
}

static void check_held(const struct xs_lock *lock)
{
	if (!is_held(lock))
		broken("not held", lock);
}

static void check_none(void)
{
	if (held_n)
		broken("held where none may be", held[held_n - 1]);
}

static void forget_all(void)
{
	held_n = 0;
}
#else
static inline void check_held(const struct xs_lock *lock)
{
	(void)lock;
}

static inline void check_none(void)
{
}

static inline void forget_all(void)
{
}
#endif

void xs_lock_init(struct xs_lock *lock, enum xs_rank rank)
{
	atomic_store_explicit(&lock->word, XS_LOCK_FREE, memory_order_relaxed);
	lock->rank = rank;
}

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/*
 * Who sleeps leaves WANTED in the word, and so does who takes the lock after a sleep: he can't know
 * whether others still sleep. A ring for nobody is the price, never a lost one.
 */
void xs_lock_wait(struct xs_lock *lock)
{
	for (int i = 0; i < TRIES; i++) {
		relax();
		if (atomic_load_explicit(&lock->word, memory_order_relaxed) == XS_LOCK_FREE &&
		    xs_lock_free_to_taken(lock))
			return;
	}
	while (atomic_exchange_explicit(&lock->word, XS_LOCK_WANTED, memory_order_acquire) !=
	       XS_LOCK_FREE)
		xs_sys(__NR_futex, &lock->word, FUTEX_WAIT_PRIVATE, XS_LOCK_WANTED, NULL);
}

void xs_lock_ring(struct xs_lock *lock)
{
	xs_sys(__NR_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1);
}

void xs_cond_wait(struct xs_cond *cond, struct xs_lock *lock, uint64_t ns) XS_NO_TSA
{
	struct timespec ts = {.tv_sec = (time_t)(ns / XS_NS_PER_S),
			      .tv_nsec = (long)(ns % XS_NS_PER_S)};
	uint32_t turn = atomic_load(&cond->turn);

	atomic_fetch_add(&cond->waiting, 1);
	xs_lock_drop(lock);
	xs_sys(__NR_futex, &cond->turn, FUTEX_WAIT_PRIVATE, turn, ns ? &ts : NULL);
	xs_lock_take(lock);
	atomic_fetch_sub(&cond->waiting, 1);
}

void xs_cond_tell(struct xs_cond *cond)
{
	atomic_fetch_add(&cond->turn, 1);
	if (atomic_load(&cond->waiting))
		xs_sys(__NR_futex, &cond->turn, FUTEX_WAKE_PRIVATE, INT_MAX);
}

void xs_lock_held(const struct xs_lock *lock) XS_NO_TSA
{
	check_held(lock);
}

void xs_lock_none(void)
{
	check_none();
}

void xs_lock_forget_all(void)
{
	forget_all();
}

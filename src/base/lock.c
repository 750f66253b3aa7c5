/* SPDX-License-Identifier: MIT */
/* Ranked locks, and the per-thread record of held ones that XS_DEBUG builds check. */
#include "base/lock.h"
#include "base/crit.h"

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

static bool is_held(const struct xs_lock *lock)
{
	for (unsigned int i = 0; i < held_n; i++)
		if (held[i] == lock)
			return true;
	return false;
}

static void check_take(const struct xs_lock *lock)
{
	if (!xs_crit_inside())
		broken("taken outside a critical section", lock);
	if (held_n && held[held_n - 1]->rank >= lock->rank)
		broken("taken out of order", lock);
}

/* A try can't deadlock, so it may break the order; the record stays sorted by time only. */
static void note_taken(const struct xs_lock *lock)
{
	if (held_n == HELD_MAX)
		broken("too many held", lock);
	held[held_n++] = lock;
}

static void note_dropped(const struct xs_lock *lock)
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

static void forget_all(void)
{
	held_n = 0;
}
#else
static inline void check_take(const struct xs_lock *lock)
{
	(void)lock;
}

static inline void note_taken(const struct xs_lock *lock)
{
	(void)lock;
}

static inline void note_dropped(const struct xs_lock *lock)
{
	(void)lock;
}

static inline void check_held(const struct xs_lock *lock)
{
	(void)lock;
}

static inline void forget_all(void)
{
}
#endif

void xs_lock_init(struct xs_lock *lock, enum xs_rank rank)
{
	pthread_mutex_init(&lock->mutex, NULL);
	lock->rank = rank;
}

void xs_lock_destroy(struct xs_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

void xs_lock_take(struct xs_lock *lock) XS_NO_TSA
{
	check_take(lock);
	pthread_mutex_lock(&lock->mutex);
	note_taken(lock);
}

bool xs_lock_try(struct xs_lock *lock) XS_NO_TSA
{
	if (pthread_mutex_trylock(&lock->mutex))
		return false;
	note_taken(lock);
	return true;
}

void xs_lock_drop(struct xs_lock *lock) XS_NO_TSA
{
	note_dropped(lock);
	pthread_mutex_unlock(&lock->mutex);
}

void xs_lock_held(const struct xs_lock *lock) XS_NO_TSA
{
	check_held(lock);
}

void xs_lock_forget_all(void)
{
	forget_all();
}

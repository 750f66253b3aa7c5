/* SPDX-License-Identifier: MIT */
/*
 * Locks with a rank. A thread takes locks in rising rank order only, never two of one
 * rank, and only inside a critical section; builds with XS_DEBUG assert all of that.
 *
 * The lock is a word and a futex of our own: uncontended it costs one atomic instruction each way,
 * in the caller, where a pthread mutex is two calls into libc; a message takes a dozen of them.
 *
 * clang's -Wthread-safety checks the same where the code says it: a field names its lock
 * with XS_GUARDED_BY(lock_expression), a function that needs a lock with
 * XS_REQUIRES(...). In C a field can't name a sibling lock, so fields name a role: a
 * global of struct xs_lock_role, which a lock operation can take and drop.
 */
#ifndef XS_BASE_LOCK_H
#define XS_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The lock order of the whole library, outermost first. */
enum xs_rank {
	XS_RANK_FDTABLE, /* writers of the descriptor table */
	XS_RANK_POLL,	 /* a plane's completion poller */
	XS_RANK_LINK,	 /* links and the directory of peers */
	XS_RANK_SET,	 /* items of an epoll set */
	XS_RANK_CONN,	 /* one connection's two streams */
	XS_RANK_LANE,	 /* posting on a lane */
	XS_RANK_POOL,	 /* registered memory */
	XS_RANK_ENGINE,	 /* the progress thread's queues */
	XS_RANK_LEAF,	 /* calls nothing that locks */
	XS_RANK_COUNT
};

#ifdef __clang__
#define XS_TSA(x) __attribute__((x))
#else
#define XS_TSA(x)
#endif

#define XS_CAPABILITY(name) XS_TSA(capability(name))
#define XS_GUARDED_BY(...) XS_TSA(guarded_by(__VA_ARGS__))
#define XS_PT_GUARDED_BY(...) XS_TSA(pt_guarded_by(__VA_ARGS__))
#define XS_REQUIRES(...) XS_TSA(requires_capability(__VA_ARGS__))
#define XS_ACQUIRES(...) XS_TSA(acquire_capability(__VA_ARGS__))
#define XS_RELEASES(...) XS_TSA(release_capability(__VA_ARGS__))
#define XS_TRY_ACQUIRES(...) XS_TSA(try_acquire_capability(__VA_ARGS__))
#define XS_EXCLUDES(...) XS_TSA(locks_excluded(__VA_ARGS__))
#define XS_ASSERTS(...) XS_TSA(assert_capability(__VA_ARGS__))
#define XS_NO_TSA XS_TSA(no_thread_safety_analysis)

/* A role is a name for the analysis only. */
struct XS_CAPABILITY("role") xs_lock_role {
	char unused;
};

struct XS_CAPABILITY("mutex") xs_lock {
	_Atomic uint32_t word; /* enum xs_lock_word */
	enum xs_rank rank;
};

enum xs_lock_word { XS_LOCK_FREE, XS_LOCK_TAKEN, XS_LOCK_WANTED /* taken, and somebody sleeps */ };

#define XS_LOCK_INIT(rank_)           \
	{                             \
		XS_LOCK_FREE, (rank_) \
	}

/* Also makes a lock usable again in a forked child, whoever held it. */
void xs_lock_init(struct xs_lock *lock, enum xs_rank rank);

/* The slow halves, and the rules that XS_DEBUG builds check. */
void xs_lock_wait(struct xs_lock *lock);
void xs_lock_ring(struct xs_lock *lock);
#ifdef XS_DEBUG
void xs_lock_check_take(const struct xs_lock *lock);
void xs_lock_note_taken(const struct xs_lock *lock);
void xs_lock_note_dropped(const struct xs_lock *lock);
void xs_debug_broken(const char *rule);
#define xs_debug_rule(holds, rule) ((holds) ? (void)0 : xs_debug_broken(rule))
#else
#define xs_debug_rule(holds, rule) ((void)0)
#define xs_lock_check_take(lock) ((void)0)
#define xs_lock_note_taken(lock) ((void)0)
#define xs_lock_note_dropped(lock) ((void)0)
#endif

static inline bool xs_lock_free_to_taken(struct xs_lock *lock)
{
	uint32_t expect = XS_LOCK_FREE;

	return atomic_compare_exchange_strong_explicit(&lock->word, &expect, XS_LOCK_TAKEN,
						       memory_order_acquire, memory_order_relaxed);
}

static inline void xs_lock_take(struct xs_lock *lock) XS_ACQUIRES(lock) XS_NO_TSA
{
	xs_lock_check_take(lock);
	if (!xs_lock_free_to_taken(lock))
		xs_lock_wait(lock);
	xs_lock_note_taken(lock);
}

static inline bool xs_lock_try(struct xs_lock *lock) XS_TRY_ACQUIRES(true, lock) XS_NO_TSA
{
	if (atomic_load_explicit(&lock->word, memory_order_relaxed) != XS_LOCK_FREE ||
	    !xs_lock_free_to_taken(lock))
		return false;
	xs_lock_note_taken(lock);
	return true;
}

static inline void xs_lock_drop(struct xs_lock *lock) XS_RELEASES(lock) XS_NO_TSA
{
	xs_lock_note_dropped(lock);
	if (atomic_exchange_explicit(&lock->word, XS_LOCK_FREE, memory_order_release) ==
	    XS_LOCK_WANTED)
		xs_lock_ring(lock);
}

/* Something that threads wait for under a lock, which they give up meanwhile. */
struct xs_cond {
	_Atomic uint32_t turn;
	_Atomic uint32_t waiting;
};
/* Until told, `ns` nanoseconds at most (0: no bound), or for no reason: look again. */
void xs_cond_wait(struct xs_cond *cond, struct xs_lock *lock, uint64_t ns) XS_REQUIRES(lock);
/* Wakes all who wait. */
void xs_cond_tell(struct xs_cond *cond);

/* Asserts in XS_DEBUG builds that this thread holds the lock; tells the analysis always. */
void xs_lock_held(const struct xs_lock *lock) XS_ASSERTS(lock);
/* Asserts in XS_DEBUG builds that this thread holds none. */
void xs_lock_none(void);

/* The child of a fork holds no lock, whatever the forking thread held. */
void xs_lock_forget_all(void);

#endif

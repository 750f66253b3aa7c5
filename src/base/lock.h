/* SPDX-License-Identifier: MIT */
/*
 * Locks with a rank. A thread takes locks in rising rank order only, never two of one
 * rank, and only inside a critical section; builds with XS_DEBUG assert all of that.
 *
 * clang's -Wthread-safety checks the same where the code says it: a field names its lock
 * with XS_GUARDED_BY(lock_expression), a function that needs a lock with
 * XS_REQUIRES(...). In C a field can't name a sibling lock, so fields name a role: a
 * global of struct xs_lock_role, which a lock operation can take and drop.
 */
#ifndef XS_BASE_LOCK_H
#define XS_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

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
	pthread_mutex_t mutex;
	enum xs_rank rank;
};

#define XS_LOCK_INIT(rank_)                        \
	{                                          \
		PTHREAD_MUTEX_INITIALIZER, (rank_) \
	}

/* Also makes a lock usable again in a forked child, whoever held it. */
void xs_lock_init(struct xs_lock *lock, enum xs_rank rank);
void xs_lock_destroy(struct xs_lock *lock);
void xs_lock_take(struct xs_lock *lock) XS_ACQUIRES(lock);
bool xs_lock_try(struct xs_lock *lock) XS_TRY_ACQUIRES(true, lock);
void xs_lock_drop(struct xs_lock *lock) XS_RELEASES(lock);

/* Asserts in XS_DEBUG builds that this thread holds the lock; tells the analysis always. */
void xs_lock_held(const struct xs_lock *lock) XS_ASSERTS(lock);

/* The child of a fork holds no lock, whatever the forking thread held. */
void xs_lock_forget_all(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The progress thread: it completes what no call of the program is there to complete. Started by
 * the first xs_progress_*() that needs it; all signals blocked; sleeps when nothing is due.
 */
#ifndef XS_ENGINE_PROGRESS_H
#define XS_ENGINE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Starts it if it isn't running. 0, -ENOMEM, -EMFILE, -EAGAIN. Any thread. */
int xs_progress_start(void);
bool xs_progress_running(void);
/* True in the progress thread. */
bool xs_progress_self(void);

/* A function to run in the progress thread, once per post, no lock held. Posting what is already
 * posted does nothing; posting from inside its own fn posts again. Any thread, any lock held. */
struct xs_work {
	struct xs_work *next;
	void (*fn)(struct xs_work *w);
	_Atomic bool posted;
};
/* True: posted now; false: it was posted already, or there is no thread. */
bool xs_progress_post(struct xs_work *w);

/* A deadline: fn runs in the progress thread at or soon after `when` (xs_now_ns). Setting it again
 * moves it, earlier or later. Any thread, any lock held except XS_RANK_ENGINE. */
struct xs_timer {
	uint64_t when; /* 0: not set */
	unsigned slot; /* place in the heap */
	void (*fn)(struct xs_timer *t);
};
int xs_timer_set(struct xs_timer *t, uint64_t when);
/* After return fn isn't running and won't run (waits for it, unless called from fn or from the
 * progress thread). */
void xs_timer_cancel(struct xs_timer *t);

/* A descriptor (level-triggered, epoll bits). fn runs in the progress thread. */
struct xs_fdwatch {
	int fd;
	void (*fn)(struct xs_fdwatch *w, uint32_t events);
};
int xs_progress_watch(struct xs_fdwatch *w, uint32_t events);
int xs_progress_rewatch(struct xs_fdwatch *w, uint32_t events);
/* Progress thread only. */
void xs_progress_unwatch(struct xs_fdwatch *w);

/* In a forked child: forget the thread (it doesn't exist here), close its descriptors. */
void xs_progress_fork_child(void);
/* Before fork / after it in the parent: no lock of the engine is held by another thread in the
 * child. */
void xs_progress_fork_prepare(void);
void xs_progress_fork_parent(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What must be undone when a call never comes back: the thread is cancelled inside it, or a
 * signal handler jumps out of it (siglongjmp). libc runs these functions in both cases, last
 * in first out, on the thread itself. No exception tables and no libgcc are needed for it.
 *
 * The buffer lives in the frame of the call, and pop follows push on every other way out.
 */
#ifndef XS_BASE_UNWIND_H
#define XS_BASE_UNWIND_H

#include <pthread.h>

struct xs_unwind {
	struct _pthread_cleanup_buffer buffer;
};

/* libc exports these for every version that we support, and declares them no more. */
void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer, void (*fn)(void *), void *arg);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int execute);

static inline void xs_unwind_push(struct xs_unwind *u, void (*fn)(void *arg), void *arg)
{
	_pthread_cleanup_push(&u->buffer, fn, arg);
}

static inline void xs_unwind_pop(struct xs_unwind *u)
{
	_pthread_cleanup_pop(&u->buffer, 0);
}

#endif

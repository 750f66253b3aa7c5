/* SPDX-License-Identifier: MIT */
/*
 * Signals and cancellation around a sleep. While a thread sleeps in xs_sleeper_sleep() every signal is
 * blocked and a signalfd tells that one is pending; handlers run when nothing of the library is
 * registered any more, so that they may jump out of the call.
 */
#ifndef XS_ENGINE_SIGNALS_H
#define XS_ENGINE_SIGNALS_H

#include <signal.h>

#include "engine/wait.h"

/*
 * What takes the caller's waiters and references away if the thread is cancelled in its sleep, or must
 * run handlers that may jump out. With an undo set, xs_sleeper_sleep(restart) never runs handlers: it
 * returns -ERESTART: undo, leave the critical section (they run there), begin again.
 * NULL: none. Reset by xs_sleeper_end().
 */
void xs_sleeper_undo(struct xs_sleeper *s, void (*undo)(void *arg), void *arg);

/*
 * Outside any critical section: runs the handlers of signals that are pending and open in mask, as a
 * ppoll(mask) that returns -EINTR does. After a sleep with a mask of its own was interrupted.
 */
void xs_signals_run(const sigset_t *mask);

#endif

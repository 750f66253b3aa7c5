/* SPDX-License-Identifier: MIT */
/*
 * Signals and cancellation around a sleep. While a thread sleeps in xs_sleeper_sleep() every signal
 * is blocked and a signalfd tells that one is pending; handlers that end the call run when the
 * caller has taken its waiters away and left the critical section, so that they may jump out. A
 * cancelled thread unwinds from the sleep, still inside the critical section: the caller's
 * pthread_cleanup_push undoes what it has registered.
 */
#ifndef XS_ENGINE_SIGNALS_H
#define XS_ENGINE_SIGNALS_H

#include <signal.h>

/*
 * Outside any critical section: runs the handlers of signals that are pending and open in mask, as
 * a ppoll(mask) that returns -EINTR does. After a sleep with a mask of its own was interrupted.
 */
void xs_signals_run(const sigset_t *mask);

#endif

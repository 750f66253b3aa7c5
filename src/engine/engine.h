/* SPDX-License-Identifier: MIT */
/* Inside the engine: what progress.c, timer.c, lead.c, sleeper.c, signals.c and spin.c share. */
#ifndef XS_ENGINE_ENGINE_H
#define XS_ENGINE_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "engine/wait.h"

/* Work queue and timers; XS_RANK_ENGINE. */
extern struct xs_lock xs_engine_lock;

/* --- an array of pointers that grows without malloc (any lock may be held) --------------- */
struct xs_ptrs {
	void **at;
	unsigned n, room;
};
/* Room for one more. 0 or -ENOMEM. */
int xs_ptrs_reserve(struct xs_ptrs *p);
int xs_ptrs_grow(struct xs_ptrs *p);

/* --- progress.c -------------------------------------------------------------------------- */
/* Wakes the progress thread if it sleeps. Any thread, any lock held. */
void xs_progress_ring(void);
/* The progress thread watches the pollers' channels (an epoll set), or no longer. */
void xs_progress_channels(int fd, bool on);

/* --- timer.c ----------------------------------------------------------------------------- */
/* Runs what's due. Progress thread. */
void xs_timer_run(uint64_t now);
/* The earliest deadline, 0: none. */
uint64_t xs_timer_next(void);
void xs_timer_forget(void);

/* --- lead.c ------------------------------------------------------------------------------ */
/* The progress thread's part: called before it sleeps; fired: the channels are readable. Returns
 * how long it may sleep (ns), 0: without bound. */
uint64_t xs_lead_turn(bool fired);
/* Becomes the leader: everything is armed and has been polled once more. False: somebody else is,
 * or there's nothing to watch. */
bool xs_lead_take(struct xs_sleeper *s);
/* The leader stops sleeping on the channels: somebody else must watch them from now on. */
void xs_lead_leave(void);
/* After the sleep: gives the word back, or stops following. */
void xs_lead_drop(struct xs_sleeper *s, bool leads);
/* If nobody leads, see that somebody does. */
void xs_lead_pass(void);
/* The leader's channels are readable: serve them. Whoever sleeps on arms again first. */
void xs_lead_serve(void);
void xs_lead_rearm(void);
/* What a leader sleeps on: the only poller's descriptor, or an epoll set of all channels; whether
 * it tells each time anew (edge-triggered); and a count, which makes it a name. */
uint64_t xs_lead_at(void);
#define XS_LEAD_EDGE (1ULL << 32)
#define XS_LEAD_NEXT (1ULL << 33)
static inline int xs_lead_fd(uint64_t at)
{
	return (int)(uint32_t)at;
}
void xs_lead_forget(void);
/* Counts as a thread of the program that polls. */
void xs_lead_active(void);
/* A spinning thread's poll, after an xs_poll_once(). True: something was dispatched, or another
 * thread is at it. Inside a critical section. */
bool xs_poll_spin(void);
/* spin.c: one more, or one less, poller that isn't cheap. */
void xs_spin_dear(int more);
void xs_spin_forget(void); /* in a forked child */

/* --- sleeper.c --------------------------------------------------------------------------- */
enum xs_sleeper_bits {
	XS_SL_ANNOUNCED = 1, /* wakes count from now on */
	XS_SL_ASLEEP = 2,    /* in ppoll: a wake must ring */
	XS_SL_WOKEN = 4,
	XS_SL_LEAD = 8, /* asked to become the leader */
};

/* A thread's own epoll set (rest.c). Our own three places are the first of a sleep's list too. */
enum { XS_REST_WAKE, XS_REST_SIGNALS, XS_REST_CHANNELS, XS_REST_OWN, XS_REST_PLACES };

struct xs_rest {
	int fd;
	uint32_t serials;
	struct xs_rest_place {
		int fd; /* -1: nothing */
		uint32_t bits, serial;
		uint64_t name;
	} in[XS_REST_PLACES];
	uint64_t last; /* what the last sleep was about */
};

struct xs_sleeper {
	_Atomic unsigned state;
	int wake_fd;
	struct xs_rest rest;
	uint64_t about; /* the name of the caller's only descriptor; 0: none */
	/* the signal descriptor last used, and for which program mask */
	int signal_fd;
	uint64_t signal_mask;
	bool signal_own;	/* not one of the shared ones */
	unsigned generation;	/* counts begins: a handler may have slept in between */
	struct xs_ptrs scratch; /* of struct pollfd */
	/* followers list, under the followers lock */
	bool follows;
	struct xs_sleeper *next, *prev;
	struct xs_sleeper *all, *spare; /* every record; those without a thread */
};
/* Sets bits in a sleeper that has announced itself and rings if it's in ppoll. */
void xs_sleeper_tell(struct xs_sleeper *s, unsigned bits);
void xs_sleeper_forget(void);

/* --- rest.c ------------------------------------------------------------------------------ */
void xs_rest_init(struct xs_sleeper *s);
void xs_rest_drop(struct xs_sleeper *s);
/* Once a sleep: it's about the same thing as the one before. */
bool xs_rest_again(struct xs_sleeper *s);
/* The thread's set holds what's in the list (XS_REST_PLACES). False: sleep in ppoll. */
bool xs_rest_make(struct xs_sleeper *s, const struct pollfd *set, uint64_t lead, uint64_t signals);
/* Like ppoll() on the list, and a cancellation point too. 1 without any revents: look again. */
int xs_rest_sleep(struct xs_sleeper *s, struct pollfd *set, const struct timespec *ts);

/* --- signals.c --------------------------------------------------------------------------- */
enum xs_sig_verdict {
	XS_SIG_NONE,	/* nothing that the program would see */
	XS_SIG_SILENT,	/* ignored, or the default action: let it act, go on sleeping */
	XS_SIG_RESTART, /* handlers, all with SA_RESTART */
	XS_SIG_EINTR,
};
/* What's pending for this thread and open in mask (kernel layout). */
enum xs_sig_verdict xs_sig_pending(uint64_t mask);
/* A descriptor that's readable when a signal outside mask is pending; -1: none to be had. */
int xs_sig_fd(struct xs_sleeper *s, uint64_t mask);
/* The program closed it. */
void xs_sig_stale(struct xs_sleeper *s);
void xs_sig_forget(void);

#endif

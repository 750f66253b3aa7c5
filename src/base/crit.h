/* SPDX-License-Identifier: MIT */
/*
 * Critical sections: the library's locks are taken only inside one, so that no signal
 * handler can run, jump out or call us while a lock is held, and no thread is cancelled
 * there. A section never waits for a peer and never sleeps for long.
 *
 * Left open are the signals of a fault (SEGV, BUS, FPE, ILL, TRAP, SYS): blocked they'd
 * kill without the program's own report, and sandboxes emulate calls by SYS; and the
 * two of libc itself: setuid in another thread waits for each thread's answer.
 */
#ifndef XS_BASE_CRIT_H
#define XS_BASE_CRIT_H

#include <stdbool.h>
#include <stdint.h>

/* What enter saved; lives on the caller's stack. */
struct xs_crit {
	uint64_t mask;	  /* the program's signal mask, kernel layout */
	int cancel_state; /* of pthread_setcancelstate */
	bool outermost;
};

/* Nests: only the outermost pair makes system calls. Both keep errno. */
void xs_crit_enter(struct xs_crit *cs);
void xs_crit_leave(struct xs_crit *cs);

bool xs_crit_inside(void);

/* The program's mask as saved by the outermost section: only inside. Bit n-1 = signal n. */
uint64_t xs_crit_mask(void);
/* Its pthread_setcancelstate, the same way. */
int xs_crit_cancel_state(void);

/*
 * A gap in a section, no lock held: the program's mask and cancel state are in force and handlers
 * run until close. What opened it must be fit for handlers that jump out, or for being cancelled.
 */
struct xs_crit_gap {
	unsigned int depth;
};
void xs_crit_open(struct xs_crit_gap *gap);
void xs_crit_close(struct xs_crit_gap *gap);

#endif

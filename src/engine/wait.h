/* SPDX-License-Identifier: MIT */
/*
 * How threads of the program wait for a plane: spin a little, then sleep in ppoll(). Leader and
 * followers: the sleeping thread that holds the leader word watches the pollers' channels itself,
 * the others only their own wake descriptor. The protocol is tests/model/sleep.pml.
 */
#ifndef XS_ENGINE_WAIT_H
#define XS_ENGINE_WAIT_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* A completion queue (or the tests' socket): something that must be polled to make progress. */
struct xs_poller {
	struct xs_poller *next;
	int fd;	    /* readable when armed and something came */
	bool cheap; /* its poll looks at memory only, and needs no thread of the kernel's */
	/* Dispatches what has come; returns how many. Called by one thread at a time (the engine's
	 * trylock), inside a critical section, no other lock held. */
	int (*poll)(struct xs_poller *p);
	/* After arm, the next arrival makes fd readable. Call poll once more after it. */
	void (*arm)(struct xs_poller *p);
	/* fd was readable: take the event off. */
	void (*disarm)(struct xs_poller *p);
};
int xs_poller_add(struct xs_poller *p);
/* Progress thread only; on return nobody polls it or sleeps on it. */
void xs_poller_remove(struct xs_poller *p);
/* Is there any? (One relaxed load: doors ask before anything else.) */
bool xs_pollers(void);

/* Polls every poller once, unless another thread is doing it. True: something was dispatched. */
bool xs_poll_once(void);

/* One per sleeping thread; its wake descriptor is made on demand and reused. */
struct xs_sleeper;
/* This thread's. NULL: no memory or descriptors. */
struct xs_sleeper *xs_sleeper_self(void);
/* Announce: from here on xs_sleeper_wake() is not lost. Then look at your data once more. */
void xs_sleeper_begin(struct xs_sleeper *s);
/*
 * Sleeps until woken, one of fds is ready, the deadline (xs_now_ns; 0 = none) has passed or a
 * signal handler ran. fds[].revents are filled. mask: the signal mask to sleep with (NULL:
 * xs_crit_mask()). Returns > 0: woken or fds ready; 0: deadline; -EINTR. restart: signals whose
 * handlers are all SA_RESTART are run and the sleep goes on (recv, send, accept, ... without a
 * timeout); otherwise any handler gives -EINTR. No lock may be held. Called inside a critical
 * section; handlers run inside this call only.
 */
int xs_sleeper_sleep(struct xs_sleeper *s, struct pollfd *fds, unsigned nfds, uint64_t deadline,
		     const sigset_t *mask, bool restart);
void xs_sleeper_end(struct xs_sleeper *s);
/* After begin: the sleep's only descriptor is that of the object with this serial number. A thread
 * that sleeps on the same again does so in fewer steps. */
void xs_sleeper_about(struct xs_sleeper *s, uint64_t serial);
/* Any thread, any lock held. Cheap when nobody sleeps. */
void xs_sleeper_wake(struct xs_sleeper *s);

/* Processor cycles that a wait for memory alone is worth, without a poll or a yield; 0: none. Asked
 * when one wasn't enough; bare: how many were since. */
uint64_t xs_spin_cycles(unsigned bare);

/*
 * Spins for as long as it has paid lately (poll_us at most, 0 when the machine is busy), polling
 * and yielding. Inside a critical section. done(arg) is asked when a poll has brought something.
 * True: done said yes. Ends at once on a pending signal.
 */
bool xs_spin(bool (*done)(void *arg), void *arg);
/* The same without the first look: the caller has polled and asked just now. */
bool xs_spin_on(bool (*done)(void *arg), void *arg);

#endif

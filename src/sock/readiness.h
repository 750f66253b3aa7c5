/* SPDX-License-Identifier: MIT */
/*
 * The one answer to "readable, writable, hang-up, error?" (design 6), and how waiters hear that it
 * may have changed. poll, select, epoll, blocking calls and FIONREAD all ask here.
 */
#ifndef XS_SOCK_READINESS_H
#define XS_SOCK_READINESS_H

#include <stdbool.h>
#include <stdint.h>

struct xs_sock;

/*
 * The poll mask (POLLIN POLLOUT POLLRDHUP POLLHUP POLLERR POLLPRI POLLRDNORM POLLWRNORM...) as the
 * kernel would give it. Takes the connection's lock; may look at the twin by a poll(2) of it.
 * Asking for POLLOUT while there's no room asks to be told (the kernel's SOCK_NOSPACE), but with
 * XS_WANT_QUIET: where it's we who ask, and not the program.
 */
#define XS_WANT_QUIET 0x20000000u
unsigned xs_ready(struct xs_sock *s, unsigned want);

/*
 * Is any direction of it off the plain kernel path (READY wanted or later, or returning)? If not,
 * the kernel's own answer for the descriptor is the whole truth. One load; may change at any time
 * towards true only after xs_poll_sleepers() and xs_ep_sleepers() have said that nobody sleeps on
 * the old answer.
 */
bool xs_managed(const struct xs_sock *s);
/* Its twin may stay open behind the program's last close. */
bool xs_outlives(struct xs_sock *s);

/*
 * What a sleeper on the *twin* must watch while managed (design 6, kernel item). In sets: the bits
 * that the kernel still serves (POLLIN, POLLOUT, and the end's as long as it hasn't come in band:
 * deliver them after asking xs_ready), besides the watch bits, which are edge-triggered there. In
 * poll, select and blocking calls, which ask for
 * `want`: bits of which none stands already where it means nothing new; 0: leave the twin out.
 */
unsigned xs_twin_serves(struct xs_sock *s);
unsigned xs_twin_watch(struct xs_sock *s, unsigned want);

/*
 * The twin says that it has room, which the kernel tells, with whatever else there is: true: it was
 * known to have, and nothing was written to it since, so that's no news. Asks it anew.
 */
bool xs_twin_roomy(struct xs_sock *s);

/* The twin reported something (any of the bits above, HUP or ERR): looks at it: frame, FIN, RST. */
void xs_twin_event(struct xs_sock *s);

/* --- waiters ---------- */
/*
 * On a socket's list of waiters. notify runs with the connection's lock held, in any thread, inside
 * a critical section: it may take ranks below XS_RANK_CONN only (a ready list's lock), and must not
 * call back. `what`: the poll bits that may have come (the kernel's wake key: POLLIN on arrival of
 * bytes or FIN, POLLOUT when there's room again and somebody had asked, all of them on HUP/ERR), or
 * XS_WHAT_MOVED: a plane switched: recompute the kernel item (in the waiting thread, or by
 * xs_progress_post, not inside notify).
 */
#define XS_WHAT_MOVED 0x40000000u
/* An end: the kernel wakes whatever was asked for. */
#define XS_WHAT_END 0x0000ffffu
struct xs_waiter {
	struct xs_waiter *next, **prev; /* under the connection's lock */
	void (*notify)(struct xs_waiter *w, unsigned what);
};
void xs_waiter_add(struct xs_sock *s, struct xs_waiter *w);
void xs_waiter_del(struct xs_sock *s, struct xs_waiter *w);

/* --- READY's counter (design 2.2, tests/model/ready.pml) ---------- */
/*
 * Implemented by pollset.c and epollset.c, asked by the switch before READY: does any thread sleep
 * in a kernel-only poll, select or epoll_wait that covers this socket? Called with no lock held in
 * the progress thread after the socket was marked managed (and a full fence). epollset.c also kicks
 * the sleepers of sets out of their wait (they come back and see that it is managed). When the
 * answer was true, whoever leaves such a sleep and finds xs_ready_wanted() calls xs_ready_look().
 */
bool xs_poll_sleepers(struct xs_sock *s, int fd);
bool xs_ep_sleepers(struct xs_sock *s);
/* One relaxed load: is any READY being waited for in this process? */
bool xs_ready_wanted(void);
/* The progress thread looks again. Any thread, any lock held. */
void xs_ready_look(void);

/*
 * May this socket be upgraded as far as epoll sets go? 0 or XS_R_EPOLL_SET (exclusive items, a set
 * shared over fork), XS_R_ORPHAN (an item whose adding descriptor was closed while a dup lives).
 */
int xs_ep_obstacle(struct xs_sock *s);

/* fd, a name of s, is being closed (before the kernel's close): epoll items of it go. last: no
 * other descriptor of the same socket in this process stays. Also called when fd turned out to be
 * stale. */
void xs_ep_fd_closed(struct xs_sock *s, int fd, bool last);
/* The epoll set epfd is closed / duplicated. */
void xs_ep_set_closed(int epfd);
void xs_ep_fork_child(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Threads inside a kernel-only poll, select or epoll_wait (readiness.h, READY's counter). Each
 * thread has one record: what it sleeps on, and whether it does. Entering and leaving cost one
 * locked store each. A handler that jumps out of the real call leaves its record on; the thread's
 * next call corrects that.
 */
#ifndef XS_SOCK_SLEEPS_H
#define XS_SOCK_SLEEPS_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/select.h>

enum xs_sleep_kind { XS_SLEEP_NONE, XS_SLEEP_POLL, XS_SLEEP_SELECT, XS_SLEEP_EPOLL };

struct xs_sleep;
/* This thread's record; NULL without memory. Keeps errno. */
struct xs_sleep *xs_sleep_self(void);
/* From here on xs_sleeps_*() see it: look whether anything is managed after this. */
void xs_sleep_poll(struct xs_sleep *r, const struct pollfd *fds, nfds_t n);
void xs_sleep_select(struct xs_sleep *r, int n, const fd_set *const set[3]);
void xs_sleep_epoll(struct xs_sleep *r, const void *set);
/* Out again; if a READY waits for that it's looked at. Keeps errno. */
void xs_sleep_leave(struct xs_sleep *r);

/* Does a thread sleep in epoll_wait on this set / in poll or select on this descriptor? */
bool xs_sleeps_on_set(const void *set);
bool xs_sleeps_on_fd(int fd);
void xs_sleeps_fork_child(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Forked children. A fork moves nothing. Each socket that exists then is `shared` in the parent;
 * one without a channel stays on the kernel for good in both; one with a channel stays the
 * parent's, and in the child it is `foreign`: its first touch asks the parent, through a word in
 * shared memory and an inherited eventfd, to return both directions; both then use the kernel.
 */
#ifndef XS_SOCK_FORK_H
#define XS_SOCK_FORK_H

#include "sock/conn.h"

void xs_fork_init(void);
/* In the child: waits until the parent has returned s. 0, or -ECONNRESET (s is marked). */
int xs_fork_claim(struct xs_sock *s, int fd);
/* Parent, locked: a child's request is answered as soon as the stream is back. */
void xs_fork_look(struct xs_sock *s);

/* Parent, at exit: children may use it now. */
void xs_fork_release(struct xs_sock *s);

#endif

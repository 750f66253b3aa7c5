/* SPDX-License-Identifier: MIT */
/*
 * Streams that forked children inherit. The stream stays its owner's, the process that paired it;
 * in the others it is `foreign`: their first touch asks the owner to return both directions, and
 * from then on all of them use the kernel's connection.
 */
#ifndef XS_SOCK_HEIRS_H
#define XS_SOCK_HEIRS_H

#include "sock/conn.h"

/* --- the owner, locked ---------- */
/* At the first pairing, before any stream can move: pins s where no word is to be had. */
void xs_heirs_begin(struct xs_sock *s);
/* The object's memory goes back. */
void xs_heirs_end(struct xs_sock *s);
/* An heir's request is answered as soon as the stream is back. */
void xs_heirs_look(struct xs_sock *s);
/* The owner is done with s, one way or the other: heirs may use it now. */
void xs_heirs_release(struct xs_sock *s);
/* Heirs have been told that it's whole, and may use it. */
bool xs_heirs_told(const struct xs_sock *s);
/* May another process have it, by a fork or because it was passed on? Once all children that were
 * forked have ended, or are other programs, it's the owner's alone again. */
bool xs_heirs_maybe(struct xs_sock *s);
/* Around a fork, one at a time. */
void xs_heirs_fork_prepare(void);
void xs_heirs_fork_parent(void);

/* --- an heir ---------- */
/* Waits until the owner has returned s. 0, or -ECONNRESET (s is marked). */
int xs_heirs_claim(struct xs_sock *s, int fd);
/* The calls that move bytes, on a foreign s. */
ssize_t xs_heirs_recv(struct xs_sock *s, int fd, struct msghdr *msg, int flags);
ssize_t xs_heirs_send(struct xs_sock *s, int fd, const struct msghdr *msg, int flags);
/* The parent's progress thread has to look at its streams. */
void xs_heirs_ring(void);
void xs_heirs_fork_child(void);

#endif

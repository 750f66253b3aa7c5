/* SPDX-License-Identifier: MIT */
/* Options of the twin that are ours while we send on a plane, unseen by the program (lend.c). */
#ifndef XS_SOCK_LEND_H
#define XS_SOCK_LEND_H

#include <stdbool.h>
#include <sys/socket.h>

struct xs_sock;

enum xs_lent {
	XS_LENT_CORK,
	XS_LENT_USER_TIMEOUT,
	XS_LENT_IDLE,
	XS_LENT_INTERVAL,
	XS_LENT_COUNT,
	XS_LENT_KEEPALIVE,
	XS_LENT
};

/* Locked: the sending direction goes on a plane, and leaves it. */
void xs_lend(struct xs_sock *s);
void xs_lend_back(struct xs_sock *s);
/* Locked: is the program's TCP_USER_TIMEOUT due? */
void xs_lend_drive(struct xs_sock *s);
/* getsockopt has given the twin's value: puts the program's in its place. */
void xs_lend_show(struct xs_sock *s, int level, int name, void *val, socklen_t len);
/* setsockopt of such an option, the real call included. False: not one of them. No lock. */
bool xs_lend_set(struct xs_sock *s, int fd, int level, int name, const void *val, socklen_t len,
		 int *r);

#endif

/* SPDX-License-Identifier: MIT */
/* Policy, and the tuples of accepted connections (pairing.c). */
#ifndef XS_SOCK_PAIRING_H
#define XS_SOCK_PAIRING_H

#include "link/link.h"
#include "sock/conn.h"

/* The connection is established: is it watched, or on the kernel for good? Locked or not yet
 * published. */
void xs_policy_begin(struct xs_sock *s);
/* Options and rules that keep a connection on the kernel from the start (fds.c). */
enum xs_reason xs_policy_excluded(struct xs_sock *s);
/* An accepted, named connection can be found / can't any more. Locked. */
void xs_tuple_add(struct xs_sock *s);
void xs_tuple_del(struct xs_sock *s);
void xs_tuples_fork_child(void);
/* Progress thread: back to the kernel, and stay (fd -1: all). */
void xs_pair_request(int fd);

extern const struct xs_pair_events xs_conn_pairing;

#endif

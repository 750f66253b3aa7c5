/* SPDX-License-Identifier: MIT */
/*
 * Forked children. A fork moves nothing. Each socket that exists then is `shared` in the parent;
 * one without a channel stays on the kernel for good in both; one with a channel stays the
 * parent's, and the child is its heir (heirs.h).
 */
#ifndef XS_SOCK_FORK_H
#define XS_SOCK_FORK_H

void xs_fork_init(void);

#endif

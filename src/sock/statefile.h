/* SPDX-License-Identifier: MIT */
/*
 * The state file itself, private to stats.c and report.c: made, grown, unlinked. Not thread-safe:
 * the caller holds the lock of stats.c.
 */
#ifndef XS_SOCK_STATEFILE_H
#define XS_SOCK_STATEFILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "xshim.h"

#define XS_STATE_ROWS 65536 /* at most; address space is taken for all of them at once */

/* Makes the file that head describes and maps it. NULL: not possible here. */
struct xshim_state *xs_statefile_make(const struct xshim_state *head);
/* Room for more rows; false: no more. Rows stay where they are. */
bool xs_statefile_grow(struct xshim_state *state);
const char *xs_statefile_path(void);
/* Unlinks the file if the name still means it. */
void xs_statefile_unlink(void);
/* Unmaps it, in a forked child: the file is the parent's. */
void xs_statefile_forget(struct xshim_state *state);

/* stats.c: what this process's rows have in common; always there. */
const struct xshim_state *xs_stats_head(void);
/* May a file become so long? Beyond RLIMIT_FSIZE the kernel sends SIGXFSZ, which kills. */
bool xs_statefile_allowed(uint64_t size);

#endif

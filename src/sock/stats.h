/* SPDX-License-Identifier: MIT */
/*
 * The state file (include/xshim.h) and the report. Silent in every failure: without a file, rows
 * come from private memory and all else works.
 */
#ifndef XS_SOCK_STATS_H
#define XS_SOCK_STATS_H

#include <sys/socket.h>

#include "xshim.h"

/* A row for a new connection; never NULL (a shared dummy when there's no memory). Makes the file at
 * the first call. Any thread. */
struct xshim_conn *xs_stats_row(void);
void xs_stats_release(struct xshim_conn *row);
/* Fills the row's description. */
void xs_stats_name(struct xshim_conn *row, int fd, unsigned role, const struct sockaddr *local,
		   const struct sockaddr *peer);
void xs_stats_pair(struct xshim_conn *row, uint32_t id, uint64_t link, unsigned wire);

/* The connection has ended: one JSON line to the report file, with `end` (closed, reset, exit,
 * exec, or a reason's name). One write(2) with O_APPEND. */
void xs_stats_report(const struct xshim_conn *row, const char *end);

/* Process-wide counters from the links (xs_link_info): at the end, and when the file asks for it.
 * Takes the links' lock. */
void xs_stats_links(void);

/* `xshim return`: starts to watch the file for requests (inotify, in the progress thread) once a
 * link exists; request(fd, -1: all) is called in the progress thread; then answered is set. */
void xs_stats_watch(void (*request)(int fd));

/* exit: unlink the file. Fork child: a file of its own at its first connection. */
void xs_stats_exit(void);
void xs_stats_fork_child(void);

/* Counts where a lock of the caller's keeps others out: no atomic addition. */
static inline void xs_stats_count(_Atomic uint64_t *at, uint64_t n)
{
	atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

#endif

/* SPDX-License-Identifier: MIT */
/* The state files of running processes, copied and checked: nothing that they say is trusted. */
#ifndef XS_TOOL_STATES_H
#define XS_TOOL_STATES_H

#include "xshim.h"

#include <stdbool.h>
#include <stddef.h>

struct state {
	struct xshim_conn *rows; /* those in use */
	size_t n;
	struct xshim_state head; /* without its rows */
};

struct states {
	struct state *list; /* by process number */
	size_t n;
};

/*
 * Ours, or everybody's if we are root. Removes the files of processes that have ended. pid 0,
 * program NULL: all. False without memory, or when the directory can't be read (said on stderr).
 */
bool states_read(struct states *all, int pid, const char *program);
void states_free(struct states *all);

/* The state file of a running process, open for writing, with its head; or a negative errno. */
int state_open(int pid, struct xshim_state *head);
/* Reads head and rows again; false: it's no state file (any more), or no memory. */
bool state_load(int fd, struct state *state);

#endif

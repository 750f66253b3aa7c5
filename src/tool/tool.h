/* SPDX-License-Identifier: MIT */
/* The xshim command: its parts. Each gets the arguments behind its own name and gives the exit
 * status. */
#ifndef XS_TOOL_TOOL_H
#define XS_TOOL_TOOL_H

#include <stdbool.h>

#define TOOL_OK 0
#define TOOL_NONE 1 /* no such process, or it didn't do as asked */
#define TOOL_USAGE 2
#define TOOL_TROUBLE 125 /* `run` alone: xshim's own trouble, as env(1) */
#define TOOL_CANT_RUN 126
#define TOOL_NOT_FOUND 127

int tool_run(int argc, char **argv);
int tool_stat(int argc, char **argv);
int tool_return(int argc, char **argv);

/* One line on stderr, headed by the command's name. */
void tool_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void tool_usage(bool asked);

/* All of it is digits, and it fits. */
bool tool_number(const char *text, int *number);

/* The library that belongs to this command; false: not found. */
bool tool_library(char *path, int room);

#endif

/* SPDX-License-Identifier: MIT */
/* Can the library be preloaded into a program? */
#ifndef XS_TOOL_PROGRAM_H
#define XS_TOOL_PROGRAM_H

#include <stddef.h>

/*
 * NULL: yes, or it can't be said (then the attempt to run it tells). Else why not, to follow
 * "PROGRAM ". A script is judged by its interpreter.
 */
const char *program_unfit(const char *program);

#endif

/* SPDX-License-Identifier: MIT */
/* Keeps the library's own descriptors out of the numbers that programs use. */
#ifndef XS_BASE_HIGHFD_H
#define XS_BASE_HIGHFD_H

#include <stdbool.h>

/*
 * Moves an internal descriptor to a high number with CLOEXEC and closes the old one.
 * Where the limit leaves no room it settles for any number above 2. Returns the new
 * number, or a negative errno with fd closed. A negative fd is returned as it is.
 */
int xs_highfd(int fd);

/*
 * The lowest descriptor >= from that is ours, or -1: close_range() leaves them alone. xs_highfd()
 * notes what it returns; whoever closes such a descriptor calls xs_highfd_gone() first. More than
 * 256 at a time aren't noted and can be closed by the program.
 */
int xs_highfd_next(int from);
void xs_highfd_gone(int fd);
/* Both, and *fd is -1 then; one that's -1 already stays so. */
void xs_highfd_close(int *fd);
/* Noted, and still the same file: a program that closes it closes a number that it never got. One
 * comparison for numbers below all of ours. Keeps errno. */
bool xs_highfd_ours(int fd);

#endif

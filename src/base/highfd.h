/* SPDX-License-Identifier: MIT */
/* Keeps the library's own descriptors out of the numbers that programs use. */
#ifndef XS_BASE_HIGHFD_H
#define XS_BASE_HIGHFD_H

/*
 * Moves an internal descriptor to a high number with CLOEXEC and closes the old one.
 * Where the limit leaves no room it settles for any number above 2. Returns the new
 * number, or a negative errno with fd closed. A negative fd is returned as it is.
 */
int xs_highfd(int fd);

#endif

/* SPDX-License-Identifier: MIT */
/* Built with 64-bit offsets, so that fcntl, sendfile and the like are their 64-bit names. */
#include "flags.c"

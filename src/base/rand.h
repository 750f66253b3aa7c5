/* SPDX-License-Identifier: MIT */
/* Random bytes for secrets, ids and tokens. */
#ifndef XS_BASE_RAND_H
#define XS_BASE_RAND_H

#include <stddef.h>

/* 0, or a negative errno when neither the kernel call nor /dev/urandom answers. */
int xs_random(void *buf, size_t n);

#endif

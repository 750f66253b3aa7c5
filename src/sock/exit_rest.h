/* SPDX-License-Identifier: MIT */
/* Bytes that the twins haven't taken when the process ends (exit_rest.c). */
#ifndef XS_SOCK_EXIT_REST_H
#define XS_SOCK_EXIT_REST_H

#include <stdbool.h>
#include <stddef.h>

struct xs_rest {
	int fd;
	size_t len, at;
	char *data; /* ordinary memory: the pool isn't inherited */
};

/* Has them written by a detached process. 0 or a negative errno (no fork here). */
int xs_rest_detach(struct xs_rest *r, unsigned n);

#endif

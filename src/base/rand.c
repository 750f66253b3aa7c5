/* SPDX-License-Identifier: MIT */
/* Random bytes: getrandom, and /dev/urandom where a sandbox refuses it. */
#include "base/rand.h"
#include "base/rawsys.h"

#include <errno.h>
#include <fcntl.h>

static int from_device(char *at, size_t left)
{
	long fd = xs_sys(__NR_openat, AT_FDCWD, "/dev/urandom", O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return (int)fd;
	while (left) {
		long n = xs_sys(__NR_read, fd, at, left);

		if (n == -EINTR)
			continue;
		if (n <= 0) {
			xs_sys(__NR_close, fd);
			return n ? (int)n : -EIO;
		}
		at += n;
		left -= (size_t)n;
	}
	xs_sys(__NR_close, fd);
	return 0;
}

int xs_random(void *buf, size_t n)
{
	char *at = buf;

	while (n) {
		long got = xs_sys(__NR_getrandom, at, n, 0);

		if (got == -EINTR)
			continue;
		if (got <= 0)
			return from_device(at, n);
		at += got;
		n -= (size_t)got;
	}
	return 0;
}

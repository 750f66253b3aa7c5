/* SPDX-License-Identifier: MIT */
/*
 * High descriptor numbers. Shells and daemons dup2 onto small numbers and close "all"
 * small ones at start; select() can't take numbers above 1023, so nothing of a program
 * may end up there because of us.
 */
#include "base/highfd.h"
#include "base/rawsys.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>

#define WISHED_FLOOR 1024L

static long soft_limit(void)
{
	struct rlimit lim;

	if (xs_sys(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, &lim) < 0)
		return 0;
	return lim.rlim_cur > (1L << 30) ? 1L << 30 : (long)lim.rlim_cur;
}

int xs_highfd(int fd)
{
	long limit, got = -1;

	if (fd < 0)
		return fd;
	limit = soft_limit();
	for (long left = 64; got < 0 && left < limit; left *= 4) {
		long floor = limit - left;

		got = xs_sys(__NR_fcntl, fd, F_DUPFD_CLOEXEC,
			     floor < WISHED_FLOOR ? floor : WISHED_FLOOR);
	}
	if (got < 3)
		got = xs_sys(__NR_fcntl, fd, F_DUPFD_CLOEXEC, 3);
	if (got < 0 && fd > 2) {
		xs_sys(__NR_fcntl, fd, F_SETFD, FD_CLOEXEC);
		return fd;
	}
	xs_sys(__NR_close, fd);
	return (int)got;
}

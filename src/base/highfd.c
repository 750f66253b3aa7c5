/* SPDX-License-Identifier: MIT */
/*
 * High descriptor numbers. Shells and daemons dup2 onto small numbers and close "all"
 * small ones at start; select() can't take numbers above 1023, so nothing of a program
 * may end up there because of us.
 */
#include "base/highfd.h"
#include "base/rawsys.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#define WISHED_FLOOR 1024L

static long soft_limit(void)
{
	struct rlimit lim;

	if (xs_sys(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, &lim) < 0)
		return 0;
	return lim.rlim_cur > (1L << 30) ? 1L << 30 : (long)lim.rlim_cur;
}

/* Numbers plus one; 0: free. */
static _Atomic int ours[256];
#define OURS (sizeof(ours) / sizeof(ours[0]))

static int note(int fd)
{
	int none;

	for (size_t i = 0; fd >= 0 && i < OURS; i++) {
		none = 0;
		if (atomic_compare_exchange_strong(&ours[i], &none, fd + 1))
			break;
	}
	return fd;
}

void xs_highfd_gone(int fd)
{
	for (size_t i = 0; i < OURS; i++) {
		int held = fd + 1;

		if (atomic_compare_exchange_strong(&ours[i], &held, 0))
			return;
	}
}

int xs_highfd_next(int from)
{
	int best = -1;

	for (size_t i = 0; i < OURS; i++) {
		int fd = atomic_load_explicit(&ours[i], memory_order_relaxed) - 1;

		if (fd >= from && (best < 0 || fd < best))
			best = fd;
	}
	return best;
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
		return note(fd);
	}
	xs_sys(__NR_close, fd);
	return note((int)got);
}

/* SPDX-License-Identifier: MIT */
/*
 * High descriptor numbers. Shells and daemons dup2 onto small numbers and close "all"
 * small ones at start; select() can't take numbers above 1023, so nothing of a program
 * may end up there because of us.
 */
#include "base/highfd.h"
#include "base/rawsys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define WISHED_FLOOR 1024L

static long soft_limit(void)
{
	struct rlimit lim;

	if (xs_sys(__NR_prlimit64, 0, RLIMIT_NOFILE, 0, &lim) < 0)
		return 0;
	return lim.rlim_cur > (1L << 30) ? 1L << 30 : (long)lim.rlim_cur;
}

/* By number plus one; 0: free. The file tells a number of ours from one that the program has got.
 */
static struct {
	_Atomic int held;
	dev_t dev;
	ino_t ino;
} ours[256];
#define OURS (sizeof(ours) / sizeof(ours[0]))
#define TAKEN (-1)		     /* held: being filled in */
static _Atomic int lowest = INT_MAX; /* none below was ever ours */

static int note(int fd)
{
	int saved = errno, none, low = atomic_load(&lowest);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd;
	while (fd < low && !atomic_compare_exchange_weak(&lowest, &low, fd))
		;
	for (size_t i = 0; i < OURS; i++) {
		none = 0;
		if (!atomic_compare_exchange_strong(&ours[i].held, &none, TAKEN))
			continue;
		ours[i].dev = st.st_dev;
		ours[i].ino = st.st_ino;
		atomic_store_explicit(&ours[i].held, fd + 1, memory_order_release);
		break;
	}
	errno = saved;
	return fd;
}

void xs_highfd_gone(int fd)
{
	for (size_t i = 0; fd >= atomic_load(&lowest) && i < OURS; i++) {
		int held = fd + 1;

		if (atomic_compare_exchange_strong(&ours[i].held, &held, 0))
			return;
	}
}

void xs_highfd_close(int *fd)
{
	if (*fd >= 0) {
		xs_highfd_gone(*fd);
		xs_sys(__NR_close, *fd);
	}
	*fd = -1;
}

bool xs_highfd_ours(int fd)
{
	int saved = errno;
	struct stat st;
	bool yes = false;

	if (fd < atomic_load_explicit(&lowest, memory_order_relaxed))
		return false;
	for (size_t i = 0; i < OURS && !yes; i++)
		yes = atomic_load_explicit(&ours[i].held, memory_order_acquire) == fd + 1 &&
		      fstat(fd, &st) == 0 && st.st_dev == ours[i].dev && st.st_ino == ours[i].ino;
	errno = saved;
	return yes;
}

int xs_highfd_next(int from)
{
	int best;

	for (;;) {
		best = -1;
		for (size_t i = 0; i < OURS; i++) {
			int fd = atomic_load_explicit(&ours[i].held, memory_order_relaxed) - 1;

			if (fd >= 0 && fd >= from && (best < 0 || fd < best))
				best = fd;
		}
		if (best < 0 || xs_highfd_ours(best))
			return best;
		xs_highfd_gone(best);
	}
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

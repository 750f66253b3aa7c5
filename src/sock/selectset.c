/* SPDX-License-Identifier: MIT */
/*
 * select and pselect: as poll, by way of a list of pollfds. The sets are as long as n says, however
 * long fd_set is. The bits that make a descriptor readable, writable and exceptional are the
 * kernel's.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/crit.h"
#include "base/rawsys.h"
#include "engine/signals.h"
#include "sock/pollset.h"
#include "sock/sleeps.h"
#include "sock/sock.h"

#define WORD_BITS (8 * (int)sizeof(unsigned long))
enum { RD, WR, EX, SETS };

static const unsigned short asks[SETS] = {
	[RD] = POLLIN | POLLRDNORM | POLLRDBAND,
	[WR] = POLLOUT | POLLWRNORM | POLLWRBAND,
	[EX] = POLLPRI,
};
static const unsigned short counts[SETS] = {
	[RD] = POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR,
	[WR] = POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR,
	[EX] = POLLPRI,
};

struct sets {
	fd_set *set[SETS];
	int n;
};

static unsigned long word_of(const struct sets *s, int i, int k)
{
	return s->set[k] ? ((const unsigned long *)s->set[k])[i] : 0;
}

static bool is_set(const struct sets *s, int k, int fd)
{
	return word_of(s, fd / WORD_BITS, k) >> (fd % WORD_BITS) & 1;
}

/* The next descriptor >= fd in any of the sets, or -1. */
static int next_fd(const struct sets *s, int fd)
{
	while (fd < s->n) {
		int i = fd / WORD_BITS;
		unsigned long word = word_of(s, i, RD) | word_of(s, i, WR) | word_of(s, i, EX);

		word &= ~0UL << (fd % WORD_BITS);
		if (word) {
			fd = i * WORD_BITS + __builtin_ctzl(word);
			return fd < s->n ? fd : -1;
		}
		fd = (i + 1) * WORD_BITS;
	}
	return -1;
}

static bool any_managed(const struct sets *s)
{
	for (int fd = next_fd(s, 0); fd >= 0; fd = next_fd(s, fd + 1))
		if (xs_pollset_managed(fd))
			return true;
	return false;
}

static nfds_t to_list(const struct sets *s, struct pollfd *fds, unsigned short *count)
{
	nfds_t n = 0;

	for (int fd = next_fd(s, 0); fd >= 0; fd = next_fd(s, fd + 1), n++) {
		unsigned want = 0, ends = 0;

		for (int k = 0; k < SETS; k++) {
			want |= is_set(s, k, fd) ? asks[k] : 0u;
			ends |= is_set(s, k, fd) ? counts[k] : 0u;
		}
		fds[n] = (struct pollfd){.fd = fd, .events = (short)want};
		count[n] = (unsigned short)ends;
	}
	return n;
}

/* Bits, counted as select does; -EBADF. The sets are written only when all is well. */
static int from_list(const struct sets *s, const struct pollfd *fds, nfds_t n)
{
	int bits = 0;

	for (nfds_t i = 0; i < n; i++)
		if (fds[i].revents & POLLNVAL)
			return -EBADF;
	for (nfds_t i = 0; i < n; i++) {
		for (int k = 0; k < SETS; k++) {
			unsigned long bit = 1UL << (fds[i].fd % WORD_BITS);
			unsigned long *word;

			if (!s->set[k] || !is_set(s, k, fds[i].fd))
				continue;
			word = (unsigned long *)s->set[k] + fds[i].fd / WORD_BITS;
			if (fds[i].revents & counts[k])
				bits++;
			else
				*word &= ~bit;
		}
	}
	return bits;
}

struct mapping {
	long at;
	size_t len;
};

static void unmap(void *arg)
{
	struct mapping *m = arg;

	xs_sys(__NR_munmap, m->at, m->len);
}

static int select_managed(const struct sets *s, bool now, uint64_t deadline, const sigset_t *mask)
{
	size_t each = sizeof(struct pollfd) + sizeof(unsigned short);
	struct mapping m = {.len = (size_t)s->n * each};
	struct pollfd *fds;
	unsigned short *count;
	nfds_t n;
	int r;

	m.at = xs_sys(__NR_mmap, 0, m.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (m.at <= 0 && m.at > -4096)
		return -ENOMEM;
	fds = (struct pollfd *)m.at;
	count = (unsigned short *)(fds + s->n);
	pthread_cleanup_push(unmap, &m);
	n = to_list(s, fds, count);
	r = xs_pollset_wait(fds, count, n, now, deadline, mask);
	if (r >= 0)
		r = from_list(s, fds, n);
	pthread_cleanup_pop(1);
	return r;
}

static void time_left(struct timespec *left, bool now, uint64_t deadline)
{
	uint64_t at = deadline ? xs_now_ns() : 0, ns = deadline > at ? deadline - at : 0;

	if (!left || (!deadline && !now))
		return;
	left->tv_sec = (time_t)(ns / XS_NS_PER_S);
	left->tv_nsec = (long)(ns % XS_NS_PER_S);
}

struct xs_sleep *xs_select_enter(int n, fd_set *rd, fd_set *wr, fd_set *ex)
{
	const struct sets s = {.set = {rd, wr, ex}, .n = n};
	struct xs_sleep *record = xs_sleep_self();

	if (!record)
		return NULL;
	xs_sleep_select(record, n, (const fd_set *const *)s.set);
	if (!any_managed(&s))
		return record;
	xs_sleep_leave(record);
	return NULL;
}

int xs_select(int n, fd_set *rd, fd_set *wr, fd_set *ex, const struct timespec *timeout,
	      struct timespec *left, const sigset_t *mask)
{
	struct sets s = {.set = {rd, wr, ex}, .n = n};
	int keep = errno, r;
	struct xs_crit cs;
	uint64_t deadline;
	bool now;

	deadline = xs_pollset_deadline(timeout, &now);
	xs_crit_enter(&cs);
	r = select_managed(&s, now, deadline, mask);
	time_left(left, now, deadline);
	xs_crit_leave(&cs);
	if (mask && r == -EINTR)
		xs_signals_run(mask);
	errno = keep;
	return r;
}

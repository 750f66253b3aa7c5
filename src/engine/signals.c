/* SPDX-License-Identifier: MIT */
/*
 * Which signals are pending, what the kernel would do with them, and a descriptor that tells.
 * Signal descriptors report what's pending for the thread that asks, so threads with one mask share
 * one.
 */
#include "engine/signals.h"
#include "base/clock.h"
#include "base/highfd.h"
#include "base/rawsys.h"
#include "engine/engine.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>

#define SIGNALS 64
#define SHARED 4
#define BIT(sig) (1ULL << ((sig)-1))

static struct xs_lock shared_lock = XS_LOCK_INIT(XS_RANK_LEAF);
/* shared lock; slots are only ever filled */
static struct {
	uint64_t mask;
	int fd; /* plus one; 0: free */
} shared[SHARED];

static enum xs_sig_verdict verdict_of(int sig)
{
	struct sigaction sa;

	if (sigaction(sig, NULL, &sa))
		return XS_SIG_NONE;
	if (sa.sa_handler == SIG_IGN || sa.sa_handler == SIG_DFL)
		return XS_SIG_SILENT;
	return sa.sa_flags & SA_RESTART ? XS_SIG_RESTART : XS_SIG_EINTR;
}

enum xs_sig_verdict xs_sig_pending(uint64_t mask)
{
	enum xs_sig_verdict worst = XS_SIG_NONE, v;
	uint64_t set = 0;

	xs_sys(__NR_rt_sigpending, &set, sizeof(set));
	set &= ~mask;
	for (int sig = 1; set && sig <= SIGNALS; sig++, set >>= 1) {
		if (!(set & 1))
			continue;
		v = verdict_of(sig);
		if (v > worst)
			worst = v;
	}
	return worst;
}

static int make_fd(uint64_t mask)
{
	uint64_t open = ~mask;

	return xs_highfd(
		(int)xs_sys(__NR_signalfd4, -1, &open, sizeof(open), SFD_CLOEXEC | SFD_NONBLOCK));
}

/* -1: the table is full of others. */
static int shared_fd(uint64_t mask)
{
	int fd = -1;

	xs_lock_take(&shared_lock);
	for (int i = 0; i < SHARED && fd < 0; i++) {
		if (!shared[i].fd) {
			shared[i].mask = mask;
			shared[i].fd = make_fd(mask) + 1;
			if (shared[i].fd <= 0) {
				shared[i].fd = 0;
				break;
			}
		}
		if (shared[i].mask == mask)
			fd = shared[i].fd - 1;
	}
	xs_lock_drop(&shared_lock);
	return fd;
}

int xs_sig_fd(struct xs_sleeper *s, uint64_t mask)
{
	if (s->signal_fd >= 0 && s->signal_mask == mask)
		return s->signal_fd;
	if (s->signal_own) {
		xs_highfd_close(&s->signal_fd);
		xs_rest_drop(s); /* the next one may have the same number */
	}
	s->signal_own = false;
	s->signal_mask = mask;
	s->signal_fd = shared_fd(mask);
	if (s->signal_fd >= 0)
		return s->signal_fd;
	s->signal_fd = make_fd(mask);
	s->signal_own = s->signal_fd >= 0;
	return s->signal_fd;
}

void xs_sig_stale(struct xs_sleeper *s)
{
	xs_lock_take(&shared_lock);
	for (int i = 0; i < SHARED; i++)
		if (shared[i].fd == s->signal_fd + 1)
			shared[i].fd = 0;
	xs_lock_drop(&shared_lock);
	s->signal_fd = -1;
	s->signal_own = false;
}

void xs_signals_run(const sigset_t *mask)
{
	struct timespec now = {0, 0};

	xs_sys(__NR_ppoll, NULL, 0, &now, mask, sizeof(uint64_t));
}

void xs_sig_forget(void)
{
	xs_lock_init(&shared_lock, XS_RANK_LEAF);
	for (int i = 0; i < SHARED; i++) {
		int fd = shared[i].fd - 1;

		xs_highfd_close(&fd);
		shared[i].fd = 0;
	}
}

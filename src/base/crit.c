/* SPDX-License-Identifier: MIT */
/*
 * Critical sections. The depth is in initial-exec TLS: a handler that runs before the
 * mask is set, or after it's restored, sees depth 0 and nests correctly by itself.
 */
#include "base/crit.h"
#include "base/rawsys.h"

#include <pthread.h>
#include <signal.h>

#define BIT(sig) (1ULL << ((sig)-1))
#define LIBC_CANCEL 32
#define LIBC_SETXID 33

static const uint64_t blocked = ~(BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) |
				  BIT(SIGTRAP) | BIT(SIGSYS) | BIT(LIBC_CANCEL) | BIT(LIBC_SETXID));

static __thread unsigned int depth;
static __thread uint64_t outer_mask;
static __thread int outer_cancel;

void xs_crit_enter(struct xs_crit *cs)
{
	cs->outermost = depth == 0;
	if (cs->outermost) {
		xs_sys(__NR_rt_sigprocmask, SIG_BLOCK, &blocked, &cs->mask, sizeof(cs->mask));
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cs->cancel_state);
		outer_mask = cs->mask;
		outer_cancel = cs->cancel_state;
	}
	depth++;
}

void xs_crit_leave(struct xs_crit *cs)
{
	depth--;
	if (!cs->outermost)
		return;
	pthread_setcancelstate(cs->cancel_state, NULL);
	xs_sys(__NR_rt_sigprocmask, SIG_SETMASK, &cs->mask, NULL, sizeof(cs->mask));
}

bool xs_crit_inside(void)
{
	return depth != 0;
}

uint64_t xs_crit_mask(void)
{
	return outer_mask;
}

int xs_crit_cancel_state(void)
{
	return outer_cancel;
}

void xs_crit_open(struct xs_crit_gap *gap)
{
	uint64_t mask = outer_mask;

	gap->depth = depth;
	depth = 0;
	pthread_setcancelstate(outer_cancel, NULL);
	xs_sys(__NR_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

void xs_crit_close(struct xs_crit_gap *gap)
{
	xs_sys(__NR_rt_sigprocmask, SIG_BLOCK, &blocked, &outer_mask, sizeof(outer_mask));
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &outer_cancel);
	depth = gap->depth;
}

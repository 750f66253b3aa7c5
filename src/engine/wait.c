/* SPDX-License-Identifier: MIT */
/*
 * One sleep of a thread of the program.
 *
 * Order of events: the caller has announced itself (state = ANNOUNCED) and looked at its data
 * again. Here: become leader or follower (lead.c), mark ASLEEP, but only if nobody has woken us
 * since, ppoll. A waker sets WOKEN first and writes the wake descriptor only if it saw ASLEEP. So a
 * wake between announce and ppoll costs no system call, and none is lost.
 *
 * Signals: all of them stay blocked, a signalfd says that one is pending (signals.c). Handlers that
 * end the call run after it, when the caller's waiters are gone and the critical section is left: a
 * handler may jump out. Those of a call that goes on (SA_RESTART) run here, in a gap of the
 * critical section. ppoll itself is libc's, with the program's own cancel state: the sleep is the
 * cancellation point.
 */
#include "base/clock.h"
#include "base/crit.h"
#include "base/rawsys.h"
#include "base/real.h"
#include "base/unwind.h"
#include "engine/engine.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

/* What we put before the caller's descriptors. */
enum { WAKE = XS_REST_WAKE, SIGNALS, CHANNELS, OURS };

struct nap {
	struct xs_sleeper *s;
	struct pollfd *set; /* ours and the caller's */
	struct pollfd *fds;
	unsigned nfds;
	uint64_t deadline, mask;
	bool restart;
	bool leads, no_lead;
	bool unblocked; /* no signalfd to be had: sleep with the mask itself */
	bool again;	/* on what the last sleep was on */
	bool rests;	/* in the thread's own set (rest.c) */
	unsigned generation;
};

static void cancelled(void *arg)
{
	struct nap *nap = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	xs_lead_drop(nap->s, nap->leads);
	atomic_store(&nap->s->state, 0);
}

static void fill_set(struct nap *nap)
{
	struct xs_sleeper *s = nap->s;
	int sig = xs_sig_fd(s, nap->mask);
	uint64_t lead = xs_lead_at();

	nap->unblocked = sig < 0;
	nap->set[WAKE] = (struct pollfd){.fd = s->wake_fd, .events = POLLIN};
	nap->set[SIGNALS] = (struct pollfd){.fd = sig, .events = POLLIN};
	nap->set[CHANNELS] =
		(struct pollfd){.fd = nap->leads ? xs_lead_fd(lead) : -1, .events = POLLIN};
	nap->rests = nap->again && nap->leads && xs_rest_make(s, nap->set, lead, nap->mask);
}

/* The sleep itself, with the program's cancel state: r, or -errno. */
static int cancellable(struct nap *nap, const struct timespec *ts, const sigset_t *mask)
{
	struct xs_unwind undo;
	int r;

	xs_unwind_push(&undo, cancelled, nap);
	pthread_setcancelstate(xs_crit_cancel_state(), NULL);
	r = nap->rests ? xs_rest_sleep(nap->s, nap->set, ts)
		       : xs_real.ppoll(nap->set, nap->nfds + OURS, ts, mask);
	if (r < 0)
		r = -errno;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	xs_unwind_pop(&undo);
	return r;
}

static int doze(struct nap *nap)
{
	uint64_t now = nap->deadline ? xs_now_ns() : 0, left;
	struct timespec ts = {0, 0};
	sigset_t mask;

	if (nap->deadline > now) {
		left = nap->deadline - now;
		ts.tv_sec = (time_t)(left / XS_NS_PER_S);
		ts.tv_nsec = (long)(left % XS_NS_PER_S);
	}
	memset(&mask, 0, sizeof(mask));
	memcpy(&mask, &nap->mask, sizeof(nap->mask));
	return cancellable(nap, nap->deadline ? &ts : NULL, nap->unblocked ? &mask : NULL);
}

static void serve_own(struct nap *nap)
{
	struct xs_sleeper *s = nap->s;
	uint64_t n;

	if (nap->set[WAKE].revents & POLLNVAL) {
		s->wake_fd = -1; /* the program closed it: xs_sleeper_self makes another */
		xs_rest_drop(s);
		atomic_fetch_or(&s->state, XS_SL_WOKEN);
	} else if (nap->set[WAKE].revents) {
		xs_sys(__NR_read, s->wake_fd, &n, sizeof(n));
	}
	if (nap->set[SIGNALS].revents & POLLNVAL)
		xs_sig_stale(s);
	if (nap->set[CHANNELS].revents & POLLNVAL)
		nap->no_lead = true;
	else if (nap->set[CHANNELS].revents)
		xs_lead_serve();
}

/* The caller's descriptors that are ready, with their revents. */
static int count_ready(struct nap *nap)
{
	int n = 0;

	for (unsigned i = 0; i < nap->nfds; i++) {
		nap->fds[i].revents = nap->set[OURS + i].revents;
		n += nap->fds[i].revents != 0;
	}
	return n;
}

/* Handlers run here, and the sleep goes on: 0; or the caller must look again: 1. */
static int run_handlers(struct nap *nap)
{
	struct xs_crit_gap gap;

	xs_lead_drop(nap->s, nap->leads);
	nap->leads = false;
	xs_crit_open(&gap);
	xs_crit_close(&gap);
	return nap->s->generation != nap->generation;
}

/* 0: go on sleeping. */
static int look_at_signals(struct nap *nap, bool interrupted)
{
	struct timespec now = {0, 0};
	enum xs_sig_verdict v;

	if (!interrupted && !nap->set[SIGNALS].revents)
		return 0;
	v = xs_sig_pending(nap->mask);
	if (v == XS_SIG_NONE)
		return interrupted && !nap->restart ? -EINTR : 0;
	if (v == XS_SIG_EINTR || (v == XS_SIG_RESTART && !nap->restart))
		return -EINTR;
	if (v == XS_SIG_RESTART)
		return run_handlers(nap);
	xs_sys(__NR_ppoll, NULL, 0, &now, &nap->mask, sizeof(nap->mask));
	return 0;
}

/* Takes the lead if it's free, and marks us asleep. False: don't sleep, look at the state. */
static bool settle(struct nap *nap)
{
	unsigned expect = XS_SL_ANNOUNCED;

	atomic_fetch_and(&nap->s->state, ~(unsigned)XS_SL_LEAD);
	if (nap->leads)
		xs_lead_rearm();
	else if (!nap->no_lead)
		nap->leads = xs_lead_take(nap->s);
	fill_set(nap);
	return atomic_compare_exchange_strong(&nap->s->state, &expect,
					      XS_SL_ANNOUNCED | XS_SL_ASLEEP);
}

/* One round. 0: another one. */
static int round_once(struct nap *nap)
{
	unsigned state;
	int r = 0, n, sig;

	if (settle(nap)) {
		r = doze(nap);
		atomic_fetch_and(&nap->s->state, ~(unsigned)XS_SL_ASLEEP);
	} else {
		for (unsigned i = 0; i < nap->nfds + OURS; i++)
			nap->set[i].revents = 0;
	}
	if (r < 0 && r != -EINTR)
		return r;
	if (r > 0)
		serve_own(nap);
	n = r > 0 ? count_ready(nap) : 0;
	state = atomic_load(&nap->s->state);
	if (n > 0 || (state & XS_SL_WOKEN) || !(state & XS_SL_ANNOUNCED))
		return n > 0 ? n : 1;
	sig = look_at_signals(nap, r == -EINTR);
	if (sig)
		return sig;
	if (nap->no_lead && nap->leads) {
		xs_lead_drop(nap->s, true);
		nap->leads = false;
	}
	return 0;
}

static int nap_until(struct nap *nap)
{
	int r;

	do {
		r = round_once(nap);
		if (!r && nap->deadline && xs_now_ns() >= nap->deadline)
			break;
	} while (!r);
	return r;
}

int xs_sleeper_sleep(struct xs_sleeper *s, struct pollfd *fds, unsigned nfds, uint64_t deadline,
		     const sigset_t *mask, bool restart)
{
	struct nap nap = {.s = s,
			  .fds = fds,
			  .nfds = nfds,
			  .deadline = deadline,
			  .restart = restart,
			  .generation = s->generation};
	int keep = errno, r;

	_Static_assert(sizeof(struct pollfd) == sizeof(void *), "the scratch holds pollfds");
	nap.again = nfds == 1 && xs_rest_again(s);
	nap.mask = xs_crit_mask();
	if (mask)
		memcpy(&nap.mask, mask, sizeof(nap.mask));
	for (s->scratch.n = nfds + OURS; s->scratch.room <= s->scratch.n;)
		if (xs_ptrs_grow(&s->scratch))
			return -ENOMEM;
	nap.set = (struct pollfd *)s->scratch.at;
	if (nfds)
		memcpy(nap.set + OURS, fds, nfds * sizeof(*fds));
	for (unsigned i = 0; i < nfds; i++)
		fds[i].revents = 0;
	r = nap_until(&nap);
	xs_lead_drop(s, nap.leads);
	errno = keep;
	return r;
}

/* SPDX-License-Identifier: MIT */
/*
 * Back to the kernel, and waiting for it: what exec, descriptor passing, set*id and all the calls
 * do that a plane can't serve (design 2.3). Many streams are asked first and waited for together,
 * so that the time limit is one.
 *
 * These waits end neither by a signal nor by cancellation: the call that needs the stream on the
 * kernel hasn't begun yet, and return_ms bounds them.
 */
#include <errno.h>
#include <pthread.h>

#include "base/config.h"
#include "base/real.h"
#include "sock/heirs.h"
#include "sock/sock.h"

#define FULL_MS 100 /* a queue that hasn't grown for so long is full, on kernels that don't say */

void xs_return_announce(struct xs_sock *s)
{
	s->announced = xs_rx_held(s);
	s->queued_since = 0;
}

/*
 * [15] S has said that all is in the twin, and [7] what poll has announced has come; or the twin is
 * full, where S and TCP can do no more before somebody reads.
 */
static bool covered(struct xs_sock *s)
{
	uint32_t queued = xs_twin_unread(s->fd);
	uint64_t now = xs_now_ns();
	int window;

	if (!s->queued_since || queued != s->queued) {
		s->queued = queued;
		s->queued_since = now;
	}
	if (queued >= s->announced && !xs_r_in_doubt(&s->rx))
		return true;
	window = xs_twin_window(s->fd);
	return queued && (window < 0 ? now - s->queued_since >= FULL_MS * XS_NS_PER_MS : !window);
}

bool xs_returned(struct xs_sock *s, bool out)
{
	if (s->peer_rst || s->error || !s->chan)
		return true;
	if (s->tx.state == XS_S_RET || xs_s_on_plane(&s->tx) || !xs_s_told(&s->tx))
		return false;
	if (s->rx.state != XS_R_KERN)
		return false;
	if (!out || xs_heirs_told(s)) /* an heir may have read of it already */
		return true;
	xs_rx_look(s);
	if (s->rx.t != s->rx.c)
		return false;
	return covered(s);
}

static bool returned_out(struct xs_sock *s)
{
	return xs_returned(s, true);
}

static bool returned_plain(struct xs_sock *s)
{
	return xs_returned(s, false);
}

void xs_return_begin(struct xs_sock *s, enum xs_reason why, bool out)
{
	if (!s->pin)
		s->pin = why;
	s->rx.pinned = true;
	s->tx.giving = true;
	xs_return_announce(s);
	s->rx.frozen = out;
	xs_return_tx(s, why);
	xs_return_rx(s, why);
}

int xs_return_await(struct xs_sock *s, bool out, uint64_t until)
{
	int cancel, r;
	struct xs_crit cs;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	r = xs_conn_await(s, out ? returned_out : returned_plain, until, false);
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (r < 0)
		xs_conn_reset(s, XS_R_RETURN_TIMEOUT);
	s->rx.frozen = false;
	if (!r && out && s->rx.state == XS_R_KERN) {
		s->rx.copies = s->rx.c; /* the twin has them */
		xs_heirs_release(s);	/* ... and for good */
	}
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	pthread_setcancelstate(cancel, NULL);
	return r < 0 ? -ETIMEDOUT : 0;
}

void xs_return_ask(struct xs_sock *s, enum xs_reason why, bool out)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	xs_return_begin(s, why, out);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
}

uint64_t xs_return_deadline(void)
{
	return xs_now_ns() + xs_conf.return_ms * XS_NS_PER_MS;
}

int xs_return_wait(struct xs_sock *s, enum xs_reason why, bool out)
{
	xs_return_ask(s, why, out);
	return xs_return_await(s, out, xs_return_deadline());
}

/* --- by descriptor ---------- */

void xs_fd_share(int fd)
{
	struct xs_sock *s = xs_sock_get(fd);

	if (!s)
		return;
	s->shared = s->passed = true;
	xs_sock_put(s);
}

/* True: it has to be waited for. */
static bool pin(struct xs_sock *s, int fd, enum xs_reason why)
{
	struct xs_crit cs;
	bool wait;

	if (s->foreign)
		xs_heirs_claim(s, fd);
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	wait = s->chan != NULL && (!s->pin || xs_managed(s));
	if (!s->pin) {
		s->pin = why;
		s->tx_why = s->rx_why = why;
		xs_conn_publish(s);
	}
	if (wait)
		xs_return_begin(s, why, true);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	return wait;
}

void xs_fd_pin(int fd, enum xs_reason why)
{
	struct xs_sock *s = xs_sock_get(fd);
	int saved = errno;

	if (!s)
		return;
	if (pin(s, fd, why))
		xs_return_await(s, true, xs_return_deadline());
	xs_sock_put(s);
	errno = saved;
}

void xs_fd_pin_all(bool (*which)(int fd), enum xs_reason why)
{
	uint64_t until = xs_return_deadline();
	bool any = false;
	struct xs_sock *s;

	for (int fd = xs_fdtable_next(0); fd >= 0; fd = xs_fdtable_next(fd + 1)) {
		s = which(fd) ? xs_sock_get(fd) : NULL;
		if (!s)
			continue;
		any |= pin(s, fd, why);
		xs_sock_put(s);
	}
	for (int fd = xs_fdtable_next(0); any && fd >= 0; fd = xs_fdtable_next(fd + 1)) {
		s = which(fd) ? xs_sock_get(fd) : NULL;
		if (!s)
			continue;
		if (s->rx.frozen)
			xs_return_await(s, true, until);
		xs_sock_put(s);
	}
}

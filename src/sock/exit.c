/* SPDX-License-Identifier: MIT */
/*
 * The process ends (design 2.4): every stream is told its end in band and returned to TCP, all at
 * once and for exit_ms at most, without waiting for anybody's application. What the twins haven't
 * taken then is copied to ordinary memory and finished by a detached grandchild, as the kernel
 * would have done.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/config.h"
#include "base/log.h"
#include "base/real.h"
#include "engine/wait.h"
#include "sock/exit_rest.h"
#include "sock/heirs.h"
#include "sock/pairing.h"
#include "sock/sock.h"

#define RESTS 4096

struct state {
	unsigned open;
	struct xs_rest *rest;
	unsigned rests;
	const char *end;
};

static void begin(struct xs_sock *s, void *arg)
{
	struct state *st = arg;

	xs_conn_enter(s);
	if (!s->pin && !s->foreign)
		s->pin = XS_R_EXITING; /* one that's being paired must not begin an epoch now */
	if (!s->chan || s->foreign) {
		xs_conn_leave(s);
		return;
	}
	s->exiting = true;
	if (!s->orphan && !xs_heirs_maybe(s) && xs_rx_readable(s)) {
		/* Unread bytes: the kernel's close would be RST, and would send nothing more. */
		xs_conn_abort(s);
		xs_conn_finish(s, st->end);
		xs_conn_leave(s);
		xs_conn_report(s);
		return;
	}
	s->rx.pinned = true;
	xs_return_announce(s);
	s->rx.frozen = s->shared; /* an heir reads on */
	s->tx.giving = s->shared;
	if (!s->shared || s->wr_shut)
		xs_drive_end(s);
	xs_return_tx(s, XS_R_EXITING);
	xs_return_rx(s, XS_R_EXITING);
	xs_conn_leave(s);
	st->open++;
}

static void count_open(struct xs_sock *s, void *arg)
{
	struct state *st = arg;

	xs_conn_enter(s);
	if (s->chan && !s->foreign)
		xs_drive(s);
	if (s->chan && !s->foreign && !xs_returned(s, s->shared))
		st->open++;
	xs_conn_leave(s);
}

/* Copies what is still kept, frame first. */
static void keep_rest(struct xs_sock *s, struct state *st)
{
	struct iovec iov[3];
	struct xs_return_frame f;
	size_t n = xs_tx_frame(s, &f, iov), len = 0, at = 0;
	struct xs_rest *r = &st->rest[st->rests];

	n += xs_chan_ops(s->chan)->tx_kept(s->chan, s->tx.flush, iov + n);
	for (size_t i = 0; i < n; i++)
		len += iov[i].iov_len;
	r->data = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->data == MAP_FAILED)
		return;
	for (size_t i = 0; i < n; at += iov[i++].iov_len)
		memcpy(r->data + at, iov[i].iov_base, iov[i].iov_len);
	r->fd = s->fd;
	r->len = len;
	st->rests++;
}

static void finish(struct xs_sock *s, void *arg)
{
	struct state *st = arg;

	xs_conn_enter(s);
	if (s->chan && !s->foreign) {
		xs_rx_look(s); /* frames and repeats out of the queue */
		if (s->tx.state == XS_S_RET && s->fd >= 0 && st->rest && st->rests < RESTS)
			keep_rest(s, st);
		else if (s->tx.state == XS_S_RET || xs_rx_held(s))
			xs_twin_abort(s->fd);
		if (s->child_asks || s->shared)
			xs_heirs_release(s);
	}
	if (s->named && s->row) {
		s->named = false;
		atomic_store(&s->end, st->end);
	}
	xs_fast_end(s);
	xs_lock_drop(&s->lock); /* nothing is due any more */
	xs_conn_report(s);
}

void xs_sock_exit(void)
{
	static _Atomic bool done;
	struct state st = {.end = "exit"};
	uint64_t until = xs_now_ns() + xs_conf.exit_ms * XS_NS_PER_MS;
	struct xs_crit cs;

	if (xs_conf.mode != XS_MODE_ON || xs_fdtable_other_process() ||
	    atomic_exchange(&done, true))
		return;
	xs_crit_enter(&cs);
	xs_conn_each(begin, &st);
	if (st.open) {
		while (st.open && xs_now_ns() < until) {
			if (!xs_poll_once())
				xs_real.poll(NULL, 0, 1);
			st.open = 0;
			xs_conn_each(count_open, &st);
		}
		st.rest = mmap(NULL, RESTS * sizeof(*st.rest), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (st.rest == MAP_FAILED)
			st.rest = NULL;
	}
	xs_stats_links();
	xs_conn_each(finish, &st);
	while (xs_conn_reporting() && xs_now_ns() < until)
		xs_real.poll(NULL, 0, 1);
	if (st.rests && xs_rest_detach(st.rest, st.rests) < 0)
		XS_LOG(ERROR, "exit: %u streams cut short: no fork", st.rests);
	xs_stats_exit();
	xs_crit_leave(&cs);
}

/* SPDX-License-Identifier: MIT */
/*
 * Room to write is news only to who was told that there was none: the kernel gives an edge by
 * SOCK_NOSPACE, a plane by s->nospace. A converted epoll item watches the twin for more than the
 * program asked for, and the kernel's event then shows room too. It's taken for no edge where the
 * twin is known to have had room at a count of bytes written that still stands (s->roomy): nobody
 * can have been told that it's full. A call that fails, a look that finds no room and an option
 * that's set end that knowledge; a call counts its bytes before it counts itself out.
 */
#include <poll.h>

#include "base/real.h"
#include "sock/conn.h"

/* Locked. True: it was known. */
static bool look(struct xs_sock *s)
{
	struct pollfd p = {.fd = s->fd, .events = POLLOUT};
	uint64_t now = atomic_load(&s->tx_twin) + 1;

	if (atomic_load(&s->roomy) == now)
		return true;
	if (!s->shared && s->fd >= 0 && xs_real.poll(&p, 1, 0) > 0 && p.revents == POLLOUT)
		atomic_store(&s->roomy, now);
	return false;
}

bool xs_twin_roomy(struct xs_sock *s)
{
	bool known;

	if (atomic_load(&s->tx_kernel))
		return false;
	xs_conn_enter(s);
	known = look(s) && !s->shared;
	xs_conn_leave_quiet(s);
	return known;
}

/* While S returns there's no room yet. */
void xs_tx_moved(struct xs_sock *s)
{
	bool there = s->tx.state != XS_S_RET, news = s->nospace && there;

	if (there)
		(void)look(s);
	s->nospace &= !news;
	xs_wake(s, XS_WHAT_MOVED | (news ? POLLOUT : 0));
}

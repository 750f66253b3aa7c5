/* SPDX-License-Identifier: MIT */
/*
 * Options of the twin that are ours while we send on a plane (design 2.4). The twin is idle then:
 *
 * TCP_USER_TIMEOUT is 0. Together with keepalive probes the kernel takes an idle connection for
 * unanswered at the first probe that is lost. What the program asked for is done here: bytes that
 * stay unconsumed for a part of it go back to the kernel, which times them as it always would.
 *
 * TCP_CORK is off. A tail that it holds back, or MSG_MORE does, is let go when the direction moves:
 * the receiver has to come to X, and the write that would complete it goes to the plane, which
 * holds back nothing.
 *
 * Unless the program sends keepalive probes of its own, we send some, rarely and with many tries,
 * so that what stands between the hosts doesn't forget the connection.
 *
 * The program goes on seeing and setting its own values.
 */
#include "sock/lend.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/real.h"
#include "sock/conn.h"

#define TIMEOUT_PARTS \
	4 /* of the user timeout: unconsumed for one of them, and back to the kernel */

struct lent {
	int level, name, ours;
};

/* In the order in which they're lent; SO_KEEPALIVE comes last, and back first. */
static const struct lent options[XS_LENT] = {
	[XS_LENT_CORK] = {IPPROTO_TCP, TCP_CORK, 0},
	[XS_LENT_USER_TIMEOUT] = {IPPROTO_TCP, TCP_USER_TIMEOUT, 0},
	[XS_LENT_IDLE] = {IPPROTO_TCP, TCP_KEEPIDLE, 100},
	[XS_LENT_INTERVAL] = {IPPROTO_TCP, TCP_KEEPINTVL, 75},
	[XS_LENT_COUNT] = {IPPROTO_TCP, TCP_KEEPCNT, 127},
	[XS_LENT_KEEPALIVE] = {SOL_SOCKET, SO_KEEPALIVE, 1},
};

static int find(int level, int name)
{
	for (int i = 0; i < XS_LENT; i++)
		if (options[i].level == level && options[i].name == name)
			return i;
	return -1;
}

static bool set(int fd, int i, int value)
{
	return xs_real.setsockopt(fd, options[i].level, options[i].name, &value, sizeof(value)) ==
	       0;
}

/* Shown as the program's own from before it changes. */
static void lend_one(struct xs_sock *s, int i)
{
	s->lent |= (uint8_t)(1u << i);
	if (!set(s->fd, i, options[i].ours))
		s->lent &= (uint8_t) ~(1u << i);
}

void xs_lend(struct xs_sock *s)
{
	if (s->lent || s->fd < 0)
		return;
	for (int i = 0; i < XS_LENT; i++) {
		socklen_t len = sizeof(s->own[i]);

		if (xs_real.getsockopt(s->fd, options[i].level, options[i].name, &s->own[i], &len))
			return;
	}
	if (s->own[XS_LENT_CORK])
		lend_one(s, XS_LENT_CORK);
	else
		set(s->fd, XS_LENT_CORK, 0); /* of MSG_MORE */
	if (s->own[XS_LENT_USER_TIMEOUT])
		lend_one(s, XS_LENT_USER_TIMEOUT);
	for (int i = XS_LENT_IDLE; i < XS_LENT && !s->own[XS_LENT_KEEPALIVE]; i++)
		lend_one(s, i);
	s->unacked_at = 0;
	xs_lend_drive(s);
}

void xs_lend_back(struct xs_sock *s)
{
	if (!s->lent)
		return;
	for (int i = XS_LENT - 1; i >= 0 && xs_conn_fresh(s); i--)
		if (s->lent & 1u << i)
			set(s->fd, i, s->own[i]);
	s->lent = 0;
}

/* Nothing consumed between two looks, with bytes kept at both: TCP's timer starts. */
void xs_lend_drive(struct xs_sock *s)
{
	uint64_t now, part;

	if (!(s->lent & 1u << XS_LENT_USER_TIMEOUT) || !xs_s_on_plane(&s->tx))
		return;
	now = xs_now_ns();
	part = (uint64_t)(uint32_t)s->own[XS_LENT_USER_TIMEOUT] * XS_NS_PER_MS / TIMEOUT_PARTS + 1;
	if (now >= s->unacked_at + part) {
		if (s->unacked_at && s->unacked == s->tx.acked) {
			xs_return_tx(s, XS_R_STALLED);
			return;
		}
		s->unacked_at = now;
		s->unacked = s->tx.end > s->tx.acked ? s->tx.acked : UINT64_MAX;
	}
	xs_drive_in(s, (unsigned)((s->unacked_at + part - now) / XS_NS_PER_MS) + 1);
}

void xs_lend_show(struct xs_sock *s, int level, int name, void *val, socklen_t len)
{
	int i = find(level, name);

	if (i >= 0 && s->lent & 1u << i)
		memcpy(val, &s->own[i], len < sizeof(int) ? len : sizeof(int));
}

/* A server may do it around each answer: it costs one system call, as bare. Once R stands at X the
 * twin has nothing to hold back. */
static int cork(struct xs_sock *s, int fd, const void *val, socklen_t len)
{
	if (xs_real.setsockopt(fd, IPPROTO_TCP, TCP_CORK, val, len) < 0)
		return -errno;
	memcpy(&s->own[XS_LENT_CORK], val, sizeof(int));
	s->own[XS_LENT_CORK] = s->own[XS_LENT_CORK] != 0;
	s->lent &= (uint8_t) ~(1u << XS_LENT_CORK);
	if (s->own[XS_LENT_CORK] && s->tx.state == XS_S_PLANE)
		lend_one(s, XS_LENT_CORK);
	return 0;
}

bool xs_lend_set(struct xs_sock *s, int fd, int level, int name, const void *val, socklen_t len,
		 int *r)
{
	struct xs_crit cs;
	int i = find(level, name);

	if (i < 0 || !s->chan)
		return false;
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (i == XS_LENT_CORK) {
		*r = cork(s, fd, val, len);
	} else {
		xs_lend_back(s);
		*r = xs_real.setsockopt(fd, level, name, val, len) < 0 ? -errno : 0;
		if (xs_s_on_plane(&s->tx))
			xs_lend(s);
	}
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	return true;
}

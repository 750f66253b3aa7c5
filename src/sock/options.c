/* SPDX-License-Identifier: MIT */
/*
 * Socket options and ioctls on a socket of ours. The table says for each *set*: forward (the twin
 * is the truth), forward and note it, or return the stream first because the plane can't serve what
 * it asks for. A set that isn't in the table forwards and returns the stream (`option`); a get that
 * isn't forwards. Gets that count bytes in flight are answered from both planes.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/real.h"
#include "sock/conn.h"
#include "sock/heirs.h"
#include "sock/sock.h"

enum what { FORWARD, LIMIT, LOWAT, INQ, PIN };

struct option {
	int level, name;
	enum what what;
	enum xs_reason why;
};

static const struct option options[] = {
	{SOL_SOCKET, SO_REUSEADDR, FORWARD, 0},
	{SOL_SOCKET, SO_REUSEPORT, FORWARD, 0},
	{SOL_SOCKET, SO_KEEPALIVE, FORWARD, 0},
	{SOL_SOCKET, SO_LINGER, FORWARD, 0},
	{SOL_SOCKET, SO_BROADCAST, FORWARD, 0},
	{SOL_SOCKET, SO_OOBINLINE, FORWARD, 0},
	{SOL_SOCKET, SO_DONTROUTE, FORWARD, 0},
	{SOL_SOCKET, SO_PRIORITY, FORWARD, 0},
	{SOL_SOCKET, SO_RCVTIMEO, FORWARD, 0},
	{SOL_SOCKET, SO_SNDTIMEO, FORWARD, 0},
	{SOL_SOCKET, SO_RCVBUF, FORWARD, 0},
	{SOL_SOCKET, SO_SNDBUF, LIMIT, 0},
	{SOL_SOCKET, SO_RCVLOWAT, LOWAT, 0},
	{SOL_SOCKET, SO_BUSY_POLL, FORWARD, 0},
	{SOL_SOCKET, SO_INCOMING_CPU, FORWARD, 0},
	{SOL_SOCKET, SO_ATTACH_FILTER, FORWARD, 0},
	{SOL_SOCKET, SO_ZEROCOPY, PIN, XS_R_ZEROCOPY},
	{SOL_SOCKET, SO_MARK, PIN, XS_R_MARKED},
	{IPPROTO_TCP, TCP_NODELAY, FORWARD, 0},
	{IPPROTO_TCP, TCP_CORK, FORWARD, 0},
	{IPPROTO_TCP, TCP_QUICKACK, FORWARD, 0},
	{IPPROTO_TCP, TCP_KEEPIDLE, FORWARD, 0},
	{IPPROTO_TCP, TCP_KEEPINTVL, FORWARD, 0},
	{IPPROTO_TCP, TCP_KEEPCNT, FORWARD, 0},
	{IPPROTO_TCP, TCP_SYNCNT, FORWARD, 0},
	{IPPROTO_TCP, TCP_LINGER2, FORWARD, 0},
	{IPPROTO_TCP, TCP_DEFER_ACCEPT, FORWARD, 0},
	{IPPROTO_TCP, TCP_WINDOW_CLAMP, FORWARD, 0},
	{IPPROTO_TCP, TCP_MAXSEG, FORWARD, 0},
	{IPPROTO_TCP, TCP_USER_TIMEOUT, FORWARD, 0},
	{IPPROTO_TCP, TCP_CONGESTION, FORWARD, 0},
	{IPPROTO_TCP, TCP_NOTSENT_LOWAT, FORWARD, 0},
	{IPPROTO_TCP, TCP_INQ, INQ, 0},
	{IPPROTO_TCP, TCP_FASTOPEN, FORWARD, 0},
	{IPPROTO_TCP, TCP_FASTOPEN_CONNECT, PIN, XS_R_FASTOPEN},
	{IPPROTO_TCP, TCP_MD5SIG, PIN, XS_R_TCP_AUTH},
	{IPPROTO_TCP, TCP_REPAIR, PIN, XS_R_REPAIR},
	{IPPROTO_TCP, TCP_ULP, PIN, XS_R_KTLS},
	{IPPROTO_IP, IP_TOS, FORWARD, 0},
	{IPPROTO_IP, IP_TTL, FORWARD, 0},
	{IPPROTO_IP, IP_MTU_DISCOVER, FORWARD, 0},
	{IPPROTO_IP, IP_RECVERR, FORWARD, 0},
	{IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, FORWARD, 0},
	{IPPROTO_IP, IP_FREEBIND, FORWARD, 0},
	{IPPROTO_IP, IP_TRANSPARENT, FORWARD, 0},
	{IPPROTO_IPV6, IPV6_V6ONLY, FORWARD, 0},
	{IPPROTO_IPV6, IPV6_TCLASS, FORWARD, 0},
	{IPPROTO_IPV6, IPV6_UNICAST_HOPS, FORWARD, 0},
	{IPPROTO_IPV6, IPV6_RECVERR, FORWARD, 0},
};

static const struct option *find(int level, int name)
{
	static const struct option unknown = {0, 0, PIN, XS_R_OPTION};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].level == level && options[i].name == name)
			return &options[i];
	return &unknown;
}

/* The window never exceeds what the program asked for. */
static void limit(struct xs_sock *s, int fd)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);
	struct xs_crit cs;

	if (xs_real.getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &len) < 0)
		return;
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	s->sndbuf = (uint32_t)bytes;
	if (s->chan)
		xs_chan_ops(s->chan)->tx_limit(s->chan, (size_t)bytes);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
}

int xs_opt_set(struct xs_sock *s, int fd, int level, int name, const void *val, socklen_t len)
{
	const struct option *o = find(level, name);
	int r;

	if (o->what == PIN && (s->role == XS_ROLE_CONNECTED || s->role == XS_ROLE_ACCEPTED))
		xs_fd_pin(fd, o->why);
	else if (o->what == PIN && !s->pin)
		s->pin = o->why; /* accepted connections inherit it, as the option */
	else if (s->foreign)
		xs_heirs_claim(s, fd);
	if (xs_lend_set(s, fd, level, name, val, len, &r))
		return r;
	xs_room_unknown(s); /* buffers and marks decide what's full */
	if (xs_real.setsockopt(fd, level, name, val, len) < 0)
		return -errno;
	if (o->what == LIMIT)
		limit(s, fd);
	if (o->what == LOWAT)
		s->lowat = true;
	if (o->what == INQ)
		s->inq = memcmp(val, &(int){0}, sizeof(int)) != 0;
	return 0;
}

/* SO_ERROR as the kernel: told once, whether PEER_GONE or the twin's RST has brought it. */
static int take_error(struct xs_sock *s, int fd, void *val, socklen_t *len)
{
	socklen_t own = sizeof(int);
	struct xs_crit cs;
	int e;

	if (*len < sizeof(int))
		return -EINVAL;
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (!s->peer_rst && !s->error &&
	    xs_real.getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &own) == 0 && e && !xs_rx_hard(s, e))
		s->error = e;
	e = s->error;
	s->error = 0;
	if (e && s->peer_rst)
		s->eof = true;
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	memcpy(val, &e, sizeof(e));
	*len = sizeof(e);
	return 0;
}

/* The stream's bytes, whichever way they went: not the twin's, which has frames and repeats too. */
static void stream_counts(struct xs_sock *s, struct tcp_info *ti)
{
	uint64_t syn = s->role == XS_ROLE_CONNECTED, acked, received, sent;

	acked = (uint64_t)((int64_t)(ti->tcpi_bytes_acked - syn) - s->tx.base);
	sent = (uint64_t)((int64_t)ti->tcpi_bytes_sent - s->tx.base);
	received = (uint64_t)((int64_t)ti->tcpi_bytes_received - s->rx.base);
	if ((int64_t)acked < (int64_t)s->tx.acked)
		acked = s->tx.acked < s->tx.end ? s->tx.acked : s->tx.end;
	if ((int64_t)sent < (int64_t)s->tx.end)
		sent = s->tx.end;
	if ((int64_t)received < (int64_t)(s->rx.c + xs_rx_held(s)))
		received = s->rx.c + xs_rx_held(s);
	ti->tcpi_bytes_acked = acked + syn;
	ti->tcpi_bytes_sent = sent;
	ti->tcpi_bytes_received = received;
	if (s->tx.state == XS_S_RET)
		ti->tcpi_notsent_bytes += (uint32_t)(s->tx.end - s->tx.flush);
}

static void show_info(struct xs_sock *s, void *val, socklen_t len)
{
	struct tcp_info ti;
	struct xs_crit cs;

	if (len <= offsetof(struct tcp_info, tcpi_bytes_acked))
		return; /* without the counts */
	memset(&ti, 0, sizeof(ti));
	memcpy(&ti, val, len < sizeof(ti) ? len : sizeof(ti));
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	stream_counts(s, &ti);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	memcpy(val, &ti, len < sizeof(ti) ? len : sizeof(ti));
}

int xs_opt_get(struct xs_sock *s, int fd, int level, int name, void *val, socklen_t *len)
{
	if (level == SOL_SOCKET && name == SO_ERROR && xs_managed(s) && val && len)
		return take_error(s, fd, val, len);
	if (level == IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE)
		xs_fd_pin(fd, XS_R_ZEROCOPY); /* a read of the twin, in spite of its name */
	if (xs_real.getsockopt(fd, level, name, val, len) < 0)
		return -errno;
	if (level == IPPROTO_TCP && name == TCP_INFO && (s->tx.epoch || s->rx.epoch))
		show_info(s, val, *len);
	if (s->lent && val && len)
		xs_lend_show(s, level, name, val, *len);
	return 0;
}

/*
 * TCP acknowledges what the peer's kernel has, the plane what its program has read. Who waits for
 * the former mustn't wait for the latter: as with a full window, what isn't read soon goes back to
 * TCP (drive.c).
 */
static int unconsumed(struct xs_sock *s)
{
	if (!s->stall_since) {
		s->stall_since = xs_now_ns();
		s->stall_acked = s->tx.acked;
	}
	return (int)(s->tx.end - s->tx.acked);
}

/* FIONREAD: what a read would give now. SIOCOUTQ: what the peer hasn't acknowledged. */
static int queued(struct xs_sock *s, int fd, unsigned long req)
{
	struct xs_crit cs;
	int n = 0;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (req == SIOCINQ) {
		n = (int)xs_rx_readable(s);
	} else {
		xs_real.ioctl(fd, req, &n);
		if (s->tx.state == XS_S_RET)
			n += (int)(s->tx.end - s->tx.flush);
		else if (req == SIOCOUTQ && xs_s_on_plane(&s->tx) && s->tx.end > s->tx.acked)
			n += unconsumed(s);
	}
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	return n;
}

int xs_opt_ioctl(struct xs_sock *s, int fd, unsigned long req, void *arg, bool *done)
{
	*done = false;
	if (!xs_managed(s) || !arg || (req != SIOCINQ && req != SIOCOUTQ && req != SIOCOUTQNSD))
		return 0;
	if (s->foreign)
		return xs_heirs_claim(s, fd);
	*done = true;
	*(int *)arg = queued(s, fd, req);
	return 0;
}

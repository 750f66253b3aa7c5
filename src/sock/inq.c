/* SPDX-License-Identifier: MIT */
/*
 * TCP_INQ: each recvmsg tells by a control message how much more there is to read, so that the
 * program need not ask for nothing. gRPC does so on every connection.
 */
#include <errno.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>

#include "sock/conn.h"

/* A FIN that has arrived counts as one, or nobody would read on to it. */
static int left(struct xs_sock *s)
{
	struct xs_crit cs;
	size_t n;
	bool end;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	n = s->rx.state == XS_R_PLANE ? xs_rx_held(s) : xs_rx_readable(s);
	end = s->eof || s->peer_rst || (s->rx.fin_known && s->rx.c + n >= s->rx.fin) ||
	      (s->rx.state != XS_R_PLANE && xs_twin_ended(s->fd));
	xs_conn_leave_quiet(s);
	xs_crit_leave(&cs);
	n += end;
	return (int)(n < INT_MAX ? n : INT_MAX);
}

void xs_inq_put(struct xs_sock *s, struct msghdr *msg, size_t room)
{
	struct cmsghdr h = {.cmsg_len = CMSG_LEN(sizeof(int)),
			    .cmsg_level = IPPROTO_TCP,
			    .cmsg_type = TCP_CM_INQ};
	char *to = msg->msg_control;
	size_t space = CMSG_SPACE(sizeof(int));
	int saved = errno, n;

	if (!to || room < sizeof(h)) {
		msg->msg_flags |= MSG_CTRUNC;
		return;
	}
	if (h.cmsg_len > room) {
		msg->msg_flags |= MSG_CTRUNC;
		h.cmsg_len = room;
	}
	n = left(s);
	errno = saved;
	memcpy(to, &h, sizeof(h));
	memcpy(to + sizeof(h), &n, h.cmsg_len - sizeof(h));
	msg->msg_controllen = space < room ? space : room;
}

/* SPDX-License-Identifier: MIT */
/*
 * The rendezvous: an abstract Unix socket `@xshimtest/tcp/ADDRESS/PORT`. The connecting side makes
 * the bulk lane's socket pair and sends one end of it as its first packet.
 */
#include "testplane.h"

#include "base/highfd.h"
#include "base/prefix.h"
#include "base/rawsys.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>

#define FLAGS (SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK)

struct xs_rdv {
	struct xs_fdwatch watch;
	struct sockaddr_storage local;
	struct xs_rdv *next;
};

/* An accepted connection that hasn't sent its first packet. */
struct guest {
	struct xs_fdwatch watch;
	struct sockaddr_storage local;
};

static struct xs_rdv *open_ones; /* progress thread */

static socklen_t name_of(const uint8_t ip[16], uint16_t port, struct sockaddr_un *un)
{
	int n;

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "xshimtest/tcp/");
	for (int i = 0; i < 16; i++)
		n += snprintf(un->sun_path + 1 + n, sizeof(un->sun_path) - 1 - (size_t)n, "%02x",
			      ip[i]);
	n += snprintf(un->sun_path + 1 + n, sizeof(un->sun_path) - 1 - (size_t)n, "/%u", port);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* --- the accepting side ---------------------------------------------------------------------- */
static int take_bulk(int fd)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&byte, 1};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	int bulk = -1;

	if (xs_sys(__NR_recvmsg, fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
		return -1;
	c = CMSG_FIRSTHDR(&mh);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&bulk, CMSG_DATA(c), sizeof(bulk));
	return xs_highfd(bulk);
}

static void first_packet(struct xs_fdwatch *w, uint32_t events)
{
	struct guest *g = (struct guest *)w;
	int fd = w->fd, bulk = take_bulk(fd);
	struct xs_conduit *c;
	struct xs_link *l;

	(void)events;
	xs_progress_unwatch(w);
	if (bulk < 0) {
		xs_sys(__NR_close, fd);
		free(g);
		return;
	}
	c = tp_conduit_new(fd, bulk);
	l = xs_link_incoming(&tp_ops, c, &g->local, &g->local);
	if (l) {
		tp_conduit_start(c, l);
	} else {
		xs_sys(__NR_close, fd);
		xs_sys(__NR_close, bulk);
		tp_conduit_drop(c);
	}
	free(g);
}

static void on_connection(struct xs_fdwatch *w, uint32_t events)
{
	struct xs_rdv *r = (struct xs_rdv *)w;
	int fd = xs_highfd(
		(int)xs_sys(__NR_accept4, w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	struct guest *g;

	(void)events;
	if (fd < 0)
		return;
	g = calloc(1, sizeof(*g));
	if (!g)
		abort();
	g->local = r->local;
	g->watch.fd = fd;
	g->watch.fn = first_packet;
	xs_progress_watch(&g->watch, EPOLLIN);
}

enum xs_reason tp_listen(const struct sockaddr_storage *bound, const struct sockaddr_storage *local,
			 struct xs_rdv **out)
{
	struct xs_wire_addr at;
	struct sockaddr_un un;
	struct xs_rdv *r;
	socklen_t len;
	int fd;

	tp_faults_read();
	xs_pair_addr(bound, &at);
	len = name_of(at.ip, at.port, &un);
	fd = xs_highfd((int)xs_sys(__NR_socket, AF_UNIX, FLAGS, 0));
	if (fd < 0)
		return XS_R_NO_DESCRIPTOR;
	if (xs_sys(__NR_bind, fd, &un, len) < 0 || xs_sys(__NR_listen, fd, 64) < 0) {
		xs_sys(__NR_close, fd);
		return XS_R_PREFORK;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		abort();
	r->local = *local;
	r->watch.fd = fd;
	r->watch.fn = on_connection;
	r->next = open_ones;
	open_ones = r;
	xs_progress_watch(&r->watch, EPOLLIN);
	*out = r;
	return XS_R_NONE;
}

void tp_unlisten(struct xs_rdv *r)
{
	struct xs_rdv **at = &open_ones;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	xs_progress_unwatch(&r->watch);
	xs_sys(__NR_close, r->watch.fd);
	free(r);
}

/* --- the connecting side --------------------------------------------------------------------- */
static bool send_bulk(int fd, int bulk)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &bulk, sizeof(bulk));
	return xs_sys(__NR_sendmsg, fd, &mh, MSG_NOSIGNAL) == 1;
}

/* The exact address, then the wildcards. */
static bool find(int fd, const struct sockaddr_storage *peer)
{
	uint8_t ip[3][16] = {{0}};
	struct xs_wire_addr at;
	struct sockaddr_un un;
	socklen_t len;

	xs_pair_addr(peer, &at);
	memcpy(ip[0], at.ip, sizeof(at.ip));
	ip[1][10] = ip[1][11] = 0xff;
	for (int i = 0; i < 3; i++) {
		len = name_of(ip[i], at.port, &un);
		if (xs_sys(__NR_connect, fd, &un, len) == 0)
			return true;
	}
	return false;
}

enum xs_reason tp_connect(struct xs_link *l, const struct sockaddr_storage *local,
			  const struct sockaddr_storage *peer, struct xs_conduit **out)
{
	int fd, pair[2];

	(void)local;
	tp_faults_read();
	fd = xs_highfd((int)xs_sys(__NR_socket, AF_UNIX, FLAGS, 0));
	if (fd < 0)
		return XS_R_NO_DESCRIPTOR;
	if (xs_sys(__NR_socketpair, AF_UNIX, FLAGS, 0, pair) < 0) {
		xs_sys(__NR_close, fd);
		return XS_R_NO_DESCRIPTOR;
	}
	pair[0] = xs_highfd(pair[0]);
	*out = tp_conduit_new(fd, pair[0]);
	if (!find(fd, peer) || !send_bulk(fd, pair[1])) {
		(*out)->why = XS_R_NO_SHIM;
		atomic_store(&(*out)->failed, true);
	}
	xs_sys(__NR_close, pair[1]);
	tp_conduit_start(*out, l);
	return XS_R_NONE;
}

void tp_meet_fork_child(void)
{
	for (struct xs_rdv *r = open_ones; r; r = r->next)
		xs_sys(__NR_close, r->watch.fd);
	open_ones = NULL;
}

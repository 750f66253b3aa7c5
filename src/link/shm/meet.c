/* SPDX-License-Identifier: MIT */
/*
 * The rendezvous: an abstract Unix socket `@xshim1/tcp/ADDRESS/PORT`, whose name belongs to the
 * network namespace, as the TCP port does. The connecting end looks for the exact address, then for
 * the wildcards, sends an offer and its memory with it, and gets an answer: none, or a reason.
 *
 * Anybody on this host may connect here, or have taken a name before us: nothing is believed that
 * the kernel doesn't say (SO_PEERCRED, seals), nothing blocks, and one user can't use up what
 * others need. Whose connection it is that's asked for is another question (owner.c).
 */
#include "base/clock.h"
#include "base/highfd.h"
#include "base/log.h"
#include "base/prefix.h"
#include "base/rawsys.h"
#include "link/link.h"
#include "link/shm/shm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>

#define BACKLOG 128
#define GUESTS_OF_A_USER 16
#define GUESTS 64
#define OFFER_NS (5 * XS_NS_PER_S)

/* Both ways; the offer has the memory with it, the answer a reason or none. */
struct note {
	char mark[4];
	uint8_t version;
	uint8_t zero;
	uint16_t reason;
	uint32_t slots, chunks, chunk;
};
static_assert(sizeof(struct note) == 20, "a note has no holes");

struct xs_rdv {
	struct xs_fdwatch watch;
	struct sockaddr_storage local;
	struct xs_rdv *next;
};

/* Somebody who has connected and hasn't made an offer. */
struct guest {
	struct xs_fdwatch watch;
	struct xs_timer timer;
	struct sockaddr_storage local;
	uid_t uid;
	struct guest *next;
};

/* Progress thread. */
static struct xs_rdv *open_ones;
static struct guest *guests;

/* --- names ------------------------------------------------------------------------------------ */
static socklen_t name_of(const uint8_t ip[16], uint16_t port, struct sockaddr_un *un)
{
	char text[INET6_ADDRSTRLEN] = "";
	int n;

	if (xs_prefix_four(ip))
		inet_ntop(AF_INET, ip + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, ip, text, sizeof(text));
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "xshim%d/tcp/%s/%u",
		     XS_WIRE_VERSION, text, port);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* --- notes ------------------------------------------------------------------------------------ */
static struct note note_of(enum xs_reason why)
{
	return (struct note){.mark = "xshm",
			     .version = XS_WIRE_VERSION,
			     .reason = (uint16_t)why,
			     .slots = XS_SHM_SLOTS,
			     .chunks = XS_SHM_CHUNKS,
			     .chunk = XS_SHM_CHUNK};
}

static enum xs_reason read_note(const struct note *n, long len)
{
	struct note same = note_of(XS_R_NONE);

	if (len < (long)offsetof(struct note, reason) ||
	    memcmp(n->mark, same.mark, sizeof(same.mark)) != 0)
		return XS_R_NO_SHIM;
	if (n->version != same.version || len != (long)sizeof(*n))
		return XS_R_VERSION;
	if (n->reason)
		return n->reason < XS_R_COUNT ? (enum xs_reason)n->reason : XS_R_INTERNAL;
	if (n->slots != same.slots || n->chunks != same.chunks || n->chunk != same.chunk)
		return XS_R_VERSION;
	return XS_R_NONE;
}

static long send_note(int fd, enum xs_reason why, int with)
{
	struct note n = note_of(why);
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&n, sizeof(n)};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (with >= 0) {
		mh.msg_control = control;
		mh.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &with, sizeof(with));
	}
	return xs_sys(__NR_sendmsg, fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* *with: the descriptor that came, or -1. There's room for one: the kernel closes any others. */
static long recv_note(int fd, struct note *n, int *with)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {n, sizeof(*n)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = CMSG_LEN(sizeof(int))};
	struct cmsghdr *c;
	long r = xs_sys(__NR_recvmsg, fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*with = -1;
	if (r < 0)
		return r;
	c = CMSG_FIRSTHDR(&mh);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int))) {
		memcpy(with, CMSG_DATA(c), sizeof(*with));
		*with = xs_highfd(*with);
	}
	if (mh.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) {
		xs_highfd_close(with);
		return 0;
	}
	return r;
}

static bool user_of(int fd, uid_t *uid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (xs_sys(__NR_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return false;
	*uid = cred.uid;
	return true;
}

/* --- the accepting side ----------------------------------------------------------------------- */
/* Its descriptor stays open. */
static void let_go(struct guest *g)
{
	struct guest **at = &guests;

	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	xs_timer_cancel(&g->timer);
	xs_progress_unwatch(&g->watch);
	free(g);
}

static void turn_away(int fd, enum xs_reason why)
{
	XS_LOG(INFO, "shm: a peer is refused: %s", xs_reason_name(why));
	send_note(fd, why, -1);
	xs_highfd_close(&fd);
}

static enum xs_reason acceptable(const struct guest *g, int memory, struct xs_shm_area **area)
{
	enum xs_reason why = xs_link_admit(&xs_shm_ops, &g->local);

	if (why)
		return why;
	if (!xs_shm_conduit_room(g->uid))
		return XS_R_RETRY;
	*area = memory < 0 ? NULL : xs_shm_area_map(memory);
	return *area ? XS_R_NONE : XS_R_NO_MEMORY;
}

static void take_in(const struct guest *g, struct xs_shm_area *area)
{
	struct xs_conduit *c = xs_shm_conduit_new(g->watch.fd, g->uid, area, 1);

	if (!c)
		return;
	c->link = xs_link_incoming(&xs_shm_ops, c, &g->local, &g->local);
	if (!c->link) {
		xs_timer_cancel(&c->timer);
		xs_shm_conduit_destroy(c);
		return;
	}
	if (send_note(c->fd, XS_R_NONE, -1) < 0)
		xs_shm_fail(c, XS_R_LINK_LOST);
	xs_shm_conduit_start(c);
}

static void on_offer(struct xs_fdwatch *w, uint32_t events)
{
	struct guest g = *(struct guest *)w;
	struct xs_shm_area *area = NULL;
	enum xs_reason why;
	struct note n;
	int memory;
	long r = recv_note(w->fd, &n, &memory);

	(void)events;
	if (r == -EAGAIN || r == -EINTR)
		return;
	let_go((struct guest *)w);
	why = read_note(&n, r);
	if (!why)
		why = acceptable(&g, memory, &area);
	xs_highfd_close(&memory);
	if (why)
		turn_away(g.watch.fd, why);
	else
		take_in(&g, area);
}

static void no_offer(struct xs_timer *t)
{
	struct guest *g = (struct guest *)((char *)t - offsetof(struct guest, timer));
	int fd = g->watch.fd;

	let_go(g);
	xs_highfd_close(&fd);
}

static bool welcome(uid_t uid)
{
	unsigned n = 0, same = 0;

	for (struct guest *g = guests; g; g = g->next) {
		n++;
		same += g->uid == uid;
	}
	return n < GUESTS && same < GUESTS_OF_A_USER;
}

static void on_connection(struct xs_fdwatch *w, uint32_t events)
{
	struct xs_rdv *r = (struct xs_rdv *)w;
	int fd = xs_highfd(
		(int)xs_sys(__NR_accept4, w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	struct guest *g;
	uid_t uid;

	(void)events;
	if (fd < 0)
		return;
	if (!user_of(fd, &uid) || !welcome(uid)) {
		turn_away(fd, XS_R_RETRY);
		return;
	}
	g = calloc(1, sizeof(*g));
	if (!g) {
		turn_away(fd, XS_R_NO_MEMORY);
		return;
	}
	g->local = r->local;
	g->uid = uid;
	g->watch = (struct xs_fdwatch){.fd = fd, .fn = on_offer};
	g->timer.fn = no_offer;
	g->next = guests;
	guests = g;
	xs_timer_set(&g->timer, xs_now_ns() + OFFER_NS);
	if (xs_progress_watch(&g->watch, EPOLLIN) < 0)
		no_offer(&g->timer);
}

static enum xs_reason no_socket(long err)
{
	switch (err) {
	case -EMFILE:
	case -ENFILE:
		return XS_R_NO_DESCRIPTOR;
	case -ENOMEM:
	case -ENOBUFS:
		return XS_R_NO_MEMORY;
	default:
		return XS_R_SECCOMP; /* a sandbox without Unix sockets */
	}
}

static int new_socket(void)
{
	return xs_highfd((int)xs_sys(__NR_socket, AF_UNIX,
				     SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

enum xs_reason xs_shm_listen(const struct sockaddr_storage *bound,
			     const struct sockaddr_storage *local, struct xs_rdv **out)
{
	struct xs_wire_addr at;
	struct sockaddr_un un;
	struct xs_rdv *r;
	socklen_t len;
	int fd;

	if (!xs_pair_addr(bound, &at))
		return XS_R_NOT_TCP;
	fd = new_socket();
	if (fd < 0)
		return no_socket(fd);
	len = name_of(at.ip, at.port, &un);
	if (xs_sys(__NR_bind, fd, &un, len) < 0 || xs_sys(__NR_listen, fd, BACKLOG) < 0) {
		xs_highfd_close(&fd);
		return XS_R_PREFORK;
	}
	r = calloc(1, sizeof(*r));
	if (r) {
		r->local = *local;
		r->watch = (struct xs_fdwatch){.fd = fd, .fn = on_connection};
	}
	if (!r || xs_progress_watch(&r->watch, EPOLLIN) < 0) {
		free(r);
		xs_highfd_close(&fd);
		return XS_R_NO_MEMORY;
	}
	r->next = open_ones;
	open_ones = r;
	*out = r;
	return XS_R_NONE;
}

void xs_shm_unlisten(struct xs_rdv *r)
{
	struct xs_rdv **at = &open_ones;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	xs_progress_unwatch(&r->watch);
	xs_highfd_close(&r->watch.fd);
	free(r);
}

/* --- the connecting side ---------------------------------------------------------------------- */
/* The exact address, then the wildcards that a connection to it can have been made through. */
static long find(int fd, const struct sockaddr_storage *peer)
{
	static const uint8_t wild[2][16] = {{[10] = 0xff, [11] = 0xff}, {0}};
	struct xs_wire_addr at;
	struct sockaddr_un un;
	long r;

	xs_pair_addr(peer, &at);
	r = xs_sys(__NR_connect, fd, &un, name_of(at.ip, at.port, &un));
	for (int i = xs_prefix_four(at.ip) ? 0 : 1; i < 2 && r == -ECONNREFUSED; i++)
		r = xs_sys(__NR_connect, fd, &un, name_of(wild[i], at.port, &un));
	return r;
}

static void on_answer(struct xs_fdwatch *w, uint32_t events)
{
	struct xs_conduit *c =
		(struct xs_conduit *)((char *)w - offsetof(struct xs_conduit, watch));
	enum xs_reason why;
	struct note n;
	int nothing;
	long r = recv_note(w->fd, &n, &nothing);

	(void)events;
	if (r == -EAGAIN || r == -EINTR)
		return;
	xs_highfd_close(&nothing);
	why = r <= 0 ? XS_R_LINK_LOST : read_note(&n, r);
	if (why)
		xs_shm_fail(c, why);
	else
		xs_shm_conduit_start(c);
}

static enum xs_reason offer(struct xs_conduit *c, const struct sockaddr_storage *peer, int memory)
{
	long r = find(c->fd, peer);

	if (r == -EAGAIN)
		return XS_R_RETRY; /* its backlog is full */
	if (r < 0)
		return XS_R_NO_SHIM;
	if (!user_of(c->fd, &c->uid) || send_note(c->fd, XS_R_NONE, memory) < 0)
		return XS_R_LINK_LOST;
	c->watch.fn = on_answer;
	c->watched = xs_progress_watch(&c->watch, EPOLLIN) >= 0;
	return c->watched ? XS_R_NONE : XS_R_NO_MEMORY;
}

enum xs_reason xs_shm_connect(struct xs_link *l, const struct sockaddr_storage *local,
			      const struct sockaddr_storage *peer, struct xs_conduit **out)
{
	struct xs_shm_area *area;
	enum xs_reason why;
	int fd, memory, r;

	(void)local;
	fd = new_socket();
	if (fd < 0)
		return no_socket(fd);
	r = xs_shm_area_make(&area, &memory);
	if (r < 0) {
		xs_highfd_close(&fd);
		return r == -EMFILE || r == -ENFILE ? XS_R_NO_DESCRIPTOR : XS_R_NO_MEMORY;
	}
	*out = xs_shm_conduit_new(fd, (uid_t)-1, area, 0);
	if (*out) {
		(*out)->link = l;
		why = offer(*out, peer, memory);
		if (why)
			xs_shm_fail(*out, why);
	}
	xs_highfd_close(&memory);
	return *out ? XS_R_NONE : XS_R_NO_MEMORY;
}

void xs_shm_meet_fork_child(void)
{
	for (struct xs_rdv *r = open_ones; r; r = r->next)
		xs_highfd_close(&r->watch.fd);
	for (struct guest *g = guests; g; g = g->next)
		xs_highfd_close(&g->watch.fd);
	open_ones = NULL;
	guests = NULL;
}

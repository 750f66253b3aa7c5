/* SPDX-License-Identifier: MIT */
/* Descriptors: making, naming and closing sockets (sock.h, "descriptors" and "sockets"). */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/highfd.h"
#include "base/log.h"
#include "base/real.h"
#include "base/unwind.h"
#include "sock/pairing.h"
#include "sock/sock.h"

struct xs_sock *xs_sock_get(int fd)
{
	struct xs_obj *o = xs_fdtable_get(fd, XS_FD_SOCK);

	return o ? xs_sock_of(o) : NULL;
}

void xs_sock_put(struct xs_sock *s)
{
	xs_obj_put(&s->obj);
}

bool xs_fd_tracked(int fd)
{
	return xs_fdtable_kind(fd) != XS_FD_NONE;
}

bool xs_fd_private(int fd)
{
	if (!xs_highfd_ours(fd))
		return false;
	if (!xs_crit_inside())
		return true;
	xs_highfd_gone(fd);
	return false;
}

void xs_fd_fresh(int fd)
{
	int saved = errno;
	struct xs_obj *o;

	xs_highfd_gone(fd); /* if it was ours, it isn't now */
	if (fd < 0 || !xs_fd_tracked(fd) || xs_fdtable_other_process())
		return;
	o = xs_fdtable_clear(fd);
	if (o)
		xs_fd_stale(o, fd);
	errno = saved;
}

int xs_fd_other_name(struct xs_sock *s, int but)
{
	for (int fd = xs_fdtable_next(0); fd >= 0; fd = xs_fdtable_next(fd + 1)) {
		struct xs_obj *o = fd == but ? NULL : xs_fdtable_get(fd, XS_FD_SOCK);

		if (!o)
			continue;
		xs_obj_put(o);
		if (o == &s->obj)
			return fd;
	}
	return -1;
}

/* --- closing ---------- */

/* fd is about to stop being a name of what's in the table; the kernel's close comes after. */
static void forget_name(int fd)
{
	struct xs_obj *o = xs_fdtable_clear(fd);
	bool last;

	if (!o)
		return;
	last = !atomic_load(&o->names);
	if (o->kind == XS_FD_EPOLL) {
		xs_ep_set_closed(fd);
	} else {
		xs_ep_fd_closed(xs_sock_of(o), fd, last);
		xs_sock_unname(xs_sock_of(o), fd, last);
	}
	xs_obj_put(o);
}

int xs_fd_close(int fd)
{
	if (!xs_fdtable_other_process()) /* a vfork child shares our memory, not our descriptors */
		forget_name(fd);
	return xs_real.close(fd) < 0 ? -errno : 0;
}

static int close_piece(unsigned first, unsigned last, unsigned flags)
{
	if (first > last)
		return 0;
	return xs_real.close_range(first, last, (int)flags) < 0 ? -errno : 0;
}

int xs_fd_close_range(unsigned first, unsigned last, unsigned flags)
{
	unsigned from = first;
	int r = 0, own;

	if (first > last || flags & ~(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) ||
	    flags & CLOSE_RANGE_CLOEXEC || xs_fdtable_other_process())
		return xs_real.close_range(first, last, (int)flags) < 0 ? -errno : 0;
	for (int fd = xs_fdtable_next((int)(first < INT32_MAX ? first : INT32_MAX));
	     fd >= 0 && (unsigned)fd <= last; fd = xs_fdtable_next(fd + 1))
		forget_name(fd);
	while (!r && (own = xs_highfd_next((int)from)) >= 0 && (unsigned)own <= last) {
		r = (unsigned)own > from ? close_piece(from, (unsigned)own - 1, flags) : 0;
		from = (unsigned)own + 1;
	}
	return r ? r : close_piece(from, last, flags);
}

/* --- duplicates ---------- */

/* In a vfork child: the table stays, but what it duplicates is for the program that it becomes. */
static int for_a_program(int fd, int made)
{
	int saved = errno;

	if (made < 0)
		return -saved;
	xs_fd_pin(fd, XS_R_SPAWN);
	errno = saved;
	return made;
}

static int named_too(int fd, int made)
{
	enum xs_fd_kind kind = xs_fdtable_kind(fd);
	struct xs_obj *o, *old;
	int err;

	if (made < 0)
		return -errno;
	if (xs_fdtable_other_process())
		return for_a_program(fd, made);
	xs_fd_fresh(made);
	o = kind == XS_FD_NONE ? NULL : xs_fdtable_get(fd, kind);
	if (!o)
		return made;
	old = xs_fdtable_set(made, o, &err);
	if (old)
		xs_fd_stale(old, made);
	if (made <= 2 && kind == XS_FD_SOCK)
		xs_fd_pin(made, XS_R_STDIO);
	xs_obj_put(o);
	return made;
}

int xs_fd_dup(int fd)
{
	return named_too(fd, xs_real.dup(fd));
}

int xs_fd_dupfd(int fd, int cmd, int min)
{
	return named_too(fd, xs_real.fcntl(fd, cmd, min));
}

int xs_fd_dup2(int fd, int newfd)
{
	if (xs_fdtable_other_process())
		return for_a_program(fd, xs_real.dup2(fd, newfd));
	if (fd == newfd || xs_real.fcntl(fd, F_GETFD) < 0)
		return xs_real.dup2(fd, newfd) < 0 ? -errno : newfd;
	forget_name(newfd);
	return named_too(fd, xs_real.dup2(fd, newfd));
}

int xs_fd_dup3(int fd, int newfd, int flags)
{
	if (xs_fdtable_other_process())
		return for_a_program(fd, xs_real.dup3(fd, newfd, flags));
	if (fd == newfd || flags & ~O_CLOEXEC || xs_real.fcntl(fd, F_GETFD) < 0)
		return xs_real.dup3(fd, newfd, flags) < 0 ? -errno : newfd;
	forget_name(newfd);
	return named_too(fd, xs_real.dup3(fd, newfd, flags));
}

/* --- sockets ---------- */

static bool eligible(int domain, int type, int protocol)
{
	return (domain == AF_INET || domain == AF_INET6) && (type & 0xf) == SOCK_STREAM &&
	       (protocol == 0 || protocol == IPPROTO_TCP);
}

void xs_sock_created(int fd, int domain, int type, int protocol)
{
	if (fd < 0)
		return;
	xs_fd_fresh(fd);
	if (eligible(domain, type, protocol) && xs_conf.mode == XS_MODE_ON)
		xs_conn_new(fd, domain, XS_ROLE_NONE);
}

static int opt_int(int fd, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	return xs_real.getsockopt(fd, SOL_SOCKET, name, &v, &len) < 0 ? -1 : v;
}

/* A socket that was made where we didn't see it (inherited, passed, made inside libc). */
static struct xs_sock *learn(int fd)
{
	struct xs_sock *s = xs_sock_get(fd);
	int domain;

	if (s || xs_conf.mode != XS_MODE_ON)
		return s;
	domain = opt_int(fd, SO_DOMAIN);
	if (domain < 0 || !eligible(domain, opt_int(fd, SO_TYPE), opt_int(fd, SO_PROTOCOL)))
		return NULL;
	if (!xs_conn_new(fd, domain, XS_ROLE_NONE))
		return NULL;
	return xs_sock_get(fd);
}

static void connected(struct xs_sock *s, bool now)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (s->role != XS_ROLE_CONNECTED) {
		s->role = XS_ROLE_CONNECTED;
		xs_policy_begin(s);
		if (s->fd <= 2)
			s->pin = s->tx_why = s->rx_why = XS_R_STDIO;
	}
	if (now)
		xs_conn_name(s);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
}

static void put_sock(void *s)
{
	xs_sock_put(s);
}

int xs_sock_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	bool tcp = addr && len >= sizeof(sa_family_t) &&
		   (addr->sa_family == AF_INET || addr->sa_family == AF_INET6);
	struct xs_sock *s = tcp ? learn(fd) : NULL;
	struct xs_unwind undo;
	int r, saved;

	if (s)
		xs_unwind_push(&undo, put_sock, s);
	r = xs_real.connect(fd, addr, len);
	saved = errno;
	if (!s)
		return r < 0 ? -saved : r;
	xs_unwind_pop(&undo);
	if (r == 0 || saved == EINPROGRESS || saved == EINTR)
		connected(s, r == 0);
	xs_sock_put(s);
	errno = saved;
	return r < 0 ? -saved : r;
}

/* The first connection of this listener: be found under its address. */
static void announce(struct xs_sock *l, int lfd, const struct sockaddr_storage *local)
{
	socklen_t len = sizeof(l->local);
	uint8_t not_yet = 0;

	if (!atomic_compare_exchange_strong(&l->listening, &not_yet, 1) ||
	    xs_real.getsockname(lfd, (struct sockaddr *)&l->local, &len) < 0)
		return;
	atomic_store(&l->listening, 2);
	xs_pair_listen(&l->local, local);
}

static void accepted(struct xs_sock *l, int lfd, int fd, int family)
{
	struct xs_sock *s = NULL;
	struct xs_crit cs;
	enum xs_reason why;

	if (xs_conn_new(fd, family, XS_ROLE_ACCEPTED))
		s = xs_sock_get(fd);
	if (!s)
		return;
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	xs_policy_begin(s);
	/* The kernel's child inherits what was set on its listener, but no epoll set. */
	s->pin = l->pin != XS_R_EPOLL_SET ? l->pin : XS_R_NONE;
	s->sndbuf = l->sndbuf;
	s->lowat = l->lowat;
	s->inq = l->inq;
	if (xs_conn_name(s) && s->pairing != XS_PAIR_NEVER) {
		why = fd <= 2 ? XS_R_STDIO
			      : xs_pair_possible((struct sockaddr *)&s->local,
						 (struct sockaddr *)&s->peer);
		xs_tuple_add(s); /* also to say why not, if it's asked for */
		if (why) {
			s->pairing = XS_PAIR_NEVER;
			XS_LOG(INFO, "fd=%d stays on the kernel: %s", fd, xs_reason_name(why));
		} else {
			announce(l, lfd, &s->local);
			why = atomic_load(&l->hidden);
		}
		s->tx_why = s->rx_why = why ? why : XS_R_NEW;
	}
	xs_conn_publish(s);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	xs_sock_put(s);
}

void xs_sock_accepted(int lfd, int fd)
{
	int saved = errno;
	struct xs_sock *l;

	xs_fd_fresh(fd);
	l = learn(lfd);
	if (l) {
		if (l->role == XS_ROLE_NONE)
			l->role = XS_ROLE_LISTENER;
		accepted(l, lfd, fd, l->family);
		xs_sock_put(l);
	}
	errno = saved;
}

enum xs_reason xs_policy_excluded(struct xs_sock *s)
{
	if (s->pin)
		return s->pin;
	if (xs_conf.auth_key_file[0])
		return XS_R_KEY;
	if (s->fd <= 2)
		return XS_R_STDIO;
	if (opt_int(s->fd, SO_MARK) > 0)
		return XS_R_MARKED;
	if (opt_int(s->fd, SO_ZEROCOPY) > 0)
		return XS_R_ZEROCOPY;
	if (opt_int(s->fd, SO_PROTOCOL) != IPPROTO_TCP)
		return XS_R_NOT_TCP;
	return XS_R_NONE;
}

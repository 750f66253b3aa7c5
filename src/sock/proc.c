/* SPDX-License-Identifier: MIT */
/* The process itself changes: exec, spawn, credentials; descriptors that leave it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/config.h"
#include "base/real.h"
#include "link/link.h"
#include "sock/fork.h"
#include "sock/pairing.h"
#include "sock/sock.h"

void xs_sock_init(void)
{
	xs_fork_init();
	xs_pair_init(&xs_conn_pairing);
}

/* Every name that `keep` says is left: an exec or a child would have it. */
static void pin_names(bool (*keep)(int fd), enum xs_reason why)
{
	for (int fd = xs_fdtable_next(0); fd >= 0; fd = xs_fdtable_next(fd + 1))
		if (xs_fdtable_kind(fd) == XS_FD_SOCK && keep(fd))
			xs_fd_pin(fd, why);
}

/* Also what only a child will have: nobody would answer it any more. */
static bool survives_exec(int fd)
{
	int flags = xs_real.fcntl(fd, F_GETFD);
	struct xs_sock *s = xs_sock_get(fd);
	bool shared;

	if (!s)
		return false;
	shared = s->shared && !s->foreign;
	xs_sock_put(s);
	return shared || (flags >= 0 && !(flags & FD_CLOEXEC));
}

static bool any(int fd)
{
	(void)fd;
	return true;
}

void xs_proc_exec(void)
{
	if (!xs_fdtable_other_process())
		pin_names(survives_exec, XS_R_EXEC);
}

void xs_proc_spawn_fd(int fd)
{
	xs_fd_pin(fd, XS_R_SPAWN);
}

void xs_proc_spawn(void)
{
	for (int fd = 0; fd <= 2; fd++)
		xs_fd_pin(fd, XS_R_SPAWN);
}

void xs_pin_all(enum xs_reason why)
{
	pin_names(any, why);
}

/* A kernel RDMA file refuses a caller whose credentials changed after it was opened. */
static void back_for_now(struct xs_sock *s, void *arg)
{
	struct xs_crit cs;

	(void)arg;
	if (!s->chan || xs_chan_ops(s->chan)->plane != XS_PLANE_RC)
		return;
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	xs_return_tx(s, XS_R_SETID);
	xs_return_rx(s, XS_R_SETID);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	xs_return_wait(s, XS_R_SETID, false);
}

void xs_proc_setid(void)
{
	if (xs_fdtable_other_process())
		return;
	xs_conn_each(back_for_now, NULL);
	xs_pair_close_all(XS_R_SETID);
}

void xs_pin_rights(const struct msghdr *msg)
{
	struct cmsghdr *c;

	if (!msg || !msg->msg_control || msg->msg_controllen < sizeof(*c))
		return;
	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR((struct msghdr *)msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			xs_fd_pin(fd, XS_R_PASSED);
			xs_fd_share(fd);
		}
	}
}

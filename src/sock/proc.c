/* SPDX-License-Identifier: MIT */
/* The process itself changes: exec, spawn, credentials; descriptors that leave it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/config.h"
#include "base/real.h"
#include "link/link.h"
#include "sock/fork.h"
#include "sock/heirs.h"
#include "sock/pairing.h"
#include "sock/sock.h"

void xs_sock_init(void)
{
	xs_fork_init();
	xs_pair_init(&xs_conn_pairing);
}

/* In this process, be it a vfork child with descriptors of its own. */
static bool survives_exec(int fd)
{
	int flags = xs_real.fcntl(fd, F_GETFD);

	return flags >= 0 && !(flags & FD_CLOEXEC);
}

/* Also what only a child will have: nobody would answer it any more. */
static bool outlives_exec(int fd)
{
	struct xs_sock *s = xs_sock_get(fd);
	bool shared;

	if (!s)
		return false;
	shared = !s->foreign && xs_heirs_maybe(s);
	xs_sock_put(s);
	return shared || survives_exec(fd);
}

static bool any(int fd)
{
	(void)fd;
	return true;
}

/* What this program had ends here. An exec that fails has said so too early: the last line counts.
 */
static void report_one(struct xs_sock *s, void *arg)
{
	(void)arg;
	if (s->named && s->row)
		xs_stats_report(s->row, "exec");
}

void xs_proc_exec(void)
{
	if (xs_fdtable_other_process()) {
		xs_fd_pin_all(survives_exec, XS_R_SPAWN);
		return;
	}
	xs_fd_pin_all(outlives_exec, XS_R_EXEC);
	xs_conn_each(report_one, NULL);
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
	xs_fd_pin_all(any, why);
}

/* A kernel RDMA file refuses a caller whose credentials changed after it was opened. */
static bool on_rc(struct xs_sock *s)
{
	struct xs_crit cs;
	bool yes;

	xs_crit_enter(&cs);
	xs_conn_enter(s);
	yes = s->chan && xs_chan_ops(s->chan)->plane == XS_PLANE_RC;
	xs_conn_leave(s);
	xs_crit_leave(&cs);
	return yes;
}

static void ask_back(struct xs_sock *s, void *arg)
{
	(void)arg;
	if (on_rc(s))
		xs_return_ask(s, XS_R_SETID, false);
}

static void await_back(struct xs_sock *s, void *until)
{
	if (on_rc(s))
		xs_return_await(s, false, *(uint64_t *)until);
}

void xs_proc_setid(void)
{
	uint64_t until = xs_return_deadline();

	if (xs_fdtable_other_process())
		return;
	xs_conn_each(ask_back, NULL);
	xs_conn_each(await_back, &until);
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

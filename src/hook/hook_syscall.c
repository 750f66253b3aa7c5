/* SPDX-License-Identifier: MIT */
/*
 * Door: syscall(). Calls that wait or change descriptors are served; those that move bytes
 * on a stream send it back to the kernel first (`raw-syscall`): whoever goes past libc once
 * may do so in ways that no door sees. The table is by number; what it doesn't name is the
 * kernel's, at the price of one pass over it when a stream can exist at all.
 *
 * Reads six arguments whatever the call has, as libc's own syscall() does.
 */
#include "base/rawsys.h"
#include "hook/door.h"

#include <linux/sched.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* Returns a result or a negative errno; *done false: the kernel makes the call. */
typedef long (*serve_fn)(const long a[6], bool *done);

static long pin(const long a[6], bool *done)
{
	*done = false;
	xs_fd_pin((int)a[0], XS_R_RAW_SYSCALL);
	return 0;
}

static long pin_message(const long a[6], bool *done)
{
	xs_pin_rights((const struct msghdr *)a[1]);
	return pin(a, done);
}

static long pin_messages(const long a[6], bool *done)
{
	const struct mmsghdr *m = (const struct mmsghdr *)a[1];

	for (long i = 0; m && i < a[2] && i < XS_IOV_MAX; i++)
		xs_pin_rights(&m[i].msg_hdr);
	return pin(a, done);
}

/* sendfile(out, in), splice(in, _, out) and tee-like calls: both ends. */
static long pin_two(const long a[6], bool *done)
{
	*done = false;
	xs_fd_pin((int)a[0], XS_R_RAW_SYSCALL);
	xs_fd_pin((int)a[2], XS_R_RAW_SYSCALL);
	return 0;
}

static long ring(const long a[6], bool *done)
{
	(void)a;
	*done = false;
	xs_pin_all(XS_R_IO_URING);
	return 0;
}

static long program(const long a[6], bool *done)
{
	(void)a;
	*done = false;
	xs_proc_exec();
	return 0;
}

static long end(const long a[6], bool *done)
{
	(void)a;
	*done = false;
	xs_sock_exit();
	return 0;
}

/* A child with memory of its own, on the caller's stack. */
static long fork_by(long nr, const long a[6], bool *done)
{
	long r;

	*done = true;
	xs_proc_fork_begin();
	r = xs_sys(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	xs_proc_fork_end(r == 0);
	return r;
}

static long do_fork(const long a[6], bool *done)
{
	return fork_by(__NR_fork, a, done);
}

static long do_clone(const long a[6], bool *done)
{
	return a[0] & CLONE_VM || a[1] ? 0 : fork_by(__NR_clone, a, done);
}

static long do_clone3(const long a[6], bool *done)
{
	const struct clone_args *args = (const struct clone_args *)a[0];

	return !args || args->flags & CLONE_VM || args->stack ? 0 : fork_by(__NR_clone3, a, done);
}

static long do_close(const long a[6], bool *done)
{
	if (xs_fd_private((int)a[0])) {
		*done = true;
		return -EBADF;
	}
	*done = xs_fd_tracked((int)a[0]);
	return *done ? xs_fd_close((int)a[0]) : 0;
}

static long do_close_range(const long a[6], bool *done)
{
	*done = true;
	return xs_fd_close_range((unsigned int)a[0], (unsigned int)a[1], (unsigned int)a[2]);
}

static long do_dup(const long a[6], bool *done)
{
	*done = xs_fd_tracked((int)a[0]);
	return *done ? xs_fd_dup((int)a[0]) : 0;
}

static long do_dup2(const long a[6], bool *done)
{
	*done = xs_fd_tracked((int)a[0]) || xs_fd_tracked((int)a[1]);
	return *done ? xs_fd_dup2((int)a[0], (int)a[1]) : 0;
}

static long do_dup3(const long a[6], bool *done)
{
	*done = xs_fd_tracked((int)a[0]) || xs_fd_tracked((int)a[1]);
	return *done ? xs_fd_dup3((int)a[0], (int)a[1], (int)a[2]) : 0;
}

static long do_epoll_ctl(const long a[6], bool *done)
{
	*done = xs_fd_tracked((int)a[0]) || xs_fd_tracked((int)a[2]);
	return *done ? xs_ep_ctl((int)a[0], (int)a[1], (int)a[2], (struct epoll_event *)a[3]) : 0;
}

/* The kernel's mask is the first 8 bytes of libc's. */
static long ep_wait(long nr, const long a[6], const struct timespec *t, const void *mask,
		    bool *done)
{
	struct xs_ep_wait w = {
		.epfd = (int)a[0], .ev = (struct epoll_event *)a[1], .max = (int)a[2]};
	sigset_t full = {0};
	long r;

	*done = w.max > 0 && xs_fd_tracked(w.epfd);
	if (!*done)
		return 0;
	if (mask) {
		memcpy(&full, mask, sizeof(uint64_t));
		w.mask = &full;
	}
	if (!xs_ep_enter(&w, t))
		return xs_ep_wait(&w);
	r = xs_ep_leave(&w, (int)xs_real.syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]));
	return r < 0 ? -errno : r;
}

static long ep_wait_ms(long nr, const long a[6], const void *mask, bool *done)
{
	int ms = (int)a[3];
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	return ep_wait(nr, a, ms < 0 ? NULL : &t, mask, done);
}

static long do_epoll_wait(const long a[6], bool *done)
{
	return ep_wait_ms(__NR_epoll_wait, a, NULL, done);
}

static long do_epoll_pwait(const long a[6], bool *done)
{
	return ep_wait_ms(__NR_epoll_pwait, a, (const void *)a[4], done);
}

static long do_epoll_pwait2(const long a[6], bool *done)
{
	return ep_wait(__NR_epoll_pwait2, a, (const struct timespec *)a[3], (const void *)a[4],
		       done);
}

/* poll and select by number are rare: their streams leave. */
static long pin_polled(const long a[6], bool *done)
{
	const struct pollfd *fds = (const struct pollfd *)a[0];

	*done = false;
	for (nfds_t i = 0; fds && i < (nfds_t)a[1]; i++)
		xs_fd_pin(fds[i].fd, XS_R_RAW_SYSCALL);
	return 0;
}

static long pin_selected(const long a[6], bool *done)
{
	*done = false;
	for (int set = 1; set <= 3; set++) {
		const fd_set *fds = (const fd_set *)a[set];

		for (int fd = 0; fds && fd < (int)a[0] && fd < FD_SETSIZE; fd++)
			if (FD_ISSET(fd, fds))
				xs_fd_pin(fd, XS_R_RAW_SYSCALL);
	}
	return 0;
}

static const struct {
	long nr;
	serve_fn serve;
} served[] = {
	{__NR_read, pin},
	{__NR_write, pin},
	{__NR_readv, pin},
	{__NR_writev, pin},
	{__NR_preadv2, pin},
	{__NR_pwritev2, pin},
	{__NR_recvfrom, pin},
	{__NR_sendto, pin},
	{__NR_recvmsg, pin},
	{__NR_sendmsg, pin_message},
	{__NR_recvmmsg, pin},
	{__NR_sendmmsg, pin_messages},
	{__NR_shutdown, pin},
	{__NR_setsockopt, pin},
	{__NR_ioctl, pin},
	{__NR_fcntl, pin},
	{__NR_connect, pin},
	{__NR_accept, pin},
	{__NR_accept4, pin},
	{__NR_sendfile, pin_two},
	{__NR_splice, pin_two},
	{__NR_poll, pin_polled},
	{__NR_ppoll, pin_polled},
	{__NR_select, pin_selected},
	{__NR_pselect6, pin_selected},
	{__NR_epoll_ctl, do_epoll_ctl},
	{__NR_epoll_wait, do_epoll_wait},
	{__NR_epoll_pwait, do_epoll_pwait},
	{__NR_epoll_pwait2, do_epoll_pwait2},
	{__NR_close, do_close},
	{__NR_close_range, do_close_range},
	{__NR_dup, do_dup},
	{__NR_dup2, do_dup2},
	{__NR_dup3, do_dup3},
	{__NR_io_uring_setup, ring},
	{__NR_execve, program},
	{__NR_execveat, program},
	{__NR_exit_group, end},
	{__NR_fork, do_fork},
	{__NR_clone, do_clone},
	{__NR_clone3, do_clone3},
};

static long serve(long nr, const long a[6], bool *done)
{
	for (size_t i = 0; i < sizeof(served) / sizeof(served[0]); i++)
		if (served[i].nr == nr)
			return served[i].serve(a, done);
	return 0;
}

__attribute__((no_sanitize("address"))) XS_DOOR long syscall(long nr, ...)
{
	bool done = false;
	long a[6], ret;
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	ret = serve(nr, a, &done);
	if (done)
		return xs_door(ret);
	return xs_real.syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

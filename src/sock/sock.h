/* SPDX-License-Identifier: MIT */
/*
 * What the doors (hook/) call. The doors are thin: each asks whether the descriptor is one of ours
 * (xs_sock_get: one load when it isn't) and, as long as the kernel serves it, makes exactly the
 * libc call that the program made, counted in and out (xs_rx_enter/xs_rx_leave).
 *
 * Functions returning int or ssize_t return the call's result or a negative errno, unless said
 * otherwise; doors turn that into errno with xs_door().
 */
#ifndef XS_SOCK_SOCK_H
#define XS_SOCK_SOCK_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/reason.h"

struct xs_sock; /* a TCP socket of the program's: opaque above */

static inline ssize_t xs_door(ssize_t r)
{
	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

/* --- the library ---------- */
/* From the constructor: after xs_real_init() and config. Makes no thread, descriptor or allocation.
 */
void xs_sock_init(void);
/* From the destructor and the exit doors: design 2.4, ends. May be called several times. */
void xs_sock_exit(void);

/* --- descriptors ---------- */
/* The socket behind fd with a reference, or NULL: not a TCP socket that we know. Keeps errno. */
struct xs_sock *xs_sock_get(int fd);
void xs_sock_put(struct xs_sock *s);
/* Is fd in our table at all (a socket or an epoll set)? One load. */
bool xs_fd_tracked(int fd);
/* A descriptor of ours that the program is about to close: not its number. False inside the library
 * and the libraries that it calls, whose closing is in earnest. */
bool xs_fd_private(int fd);
/* A hooked call has just returned fd as a new descriptor: whatever we knew by this number was
 * closed behind our back. Keeps errno. */
void xs_fd_fresh(int fd);
/* close(fd) of a tracked descriptor. */
int xs_fd_close(int fd);
/* dup family: the kernel call is made inside. newfd < 0 with cmd F_DUPFD/F_DUPFD_CLOEXEC:
 * dup/fcntl; `min` is fcntl's argument. */
int xs_fd_dup(int fd);
int xs_fd_dup2(int fd, int newfd);
int xs_fd_dup3(int fd, int newfd, int flags);
int xs_fd_dupfd(int fd, int cmd, int min);
/* close_range, closefrom: inside, the program's descriptors close and ours survive. */
int xs_fd_close_range(unsigned first, unsigned last, unsigned flags);

/* --- sockets ---------- */
/* socket() has returned fd. Keeps errno. */
void xs_sock_created(int fd, int domain, int type, int protocol);
/* connect(), the real call included. */
int xs_sock_connect(int fd, const struct sockaddr *addr, socklen_t len);
/* accept() or accept4() on lfd has returned fd. Keeps errno. */
void xs_sock_accepted(int lfd, int fd);
int xs_sock_shutdown(struct xs_sock *s, int fd, int how);

/* --- bytes ---------- */
/*
 * Reading. xs_rx_enter true: the kernel serves this call: make the libc call, then
 * `return xs_rx_leave(s, r, flags)`, which keeps r and errno (and drops nothing: xs_sock_put stays
 * the door's duty). False: xs_rx_recv() with what the call carries. flags are recv's.
 */
bool xs_rx_enter(struct xs_sock *s, int fd, int flags);
ssize_t xs_rx_leave(struct xs_sock *s, ssize_t r, int flags);
/* msg->msg_iov is filled; name, control and msg_flags of msg are set as the kernel would (TCP gives
 * no name). */
ssize_t xs_rx_recv(struct xs_sock *s, int fd, struct msghdr *msg, int flags);

/* Writing, the same way. xs_tx_enter looks at flags (MSG_OOB, MSG_ZEROCOPY, MSG_FASTOPEN pin the
 * stream to the kernel first). */
bool xs_tx_enter(struct xs_sock *s, int fd, int flags);
ssize_t xs_tx_leave(struct xs_sock *s, ssize_t r);
/* Ancillary data: SCM_RIGHTS can't travel on TCP; other control messages return the stream. */
ssize_t xs_tx_send(struct xs_sock *s, int fd, const struct msghdr *msg, int flags);
/* Bytes of a message, at most what one call may move. */
size_t xs_iov_total(const struct msghdr *msg);
/* sendfile(out = s): when the kernel doesn't serve it. *off as sendfile's. */
ssize_t xs_tx_sendfile(struct xs_sock *s, int fd, int in, off_t *off, size_t count);

/* Without a lock, a reference or a system call, where this very thread may: bytes moved; 0: by the
 * calls above. */
size_t xs_fast_send(int fd, const void *buf, size_t n, int flags);
size_t xs_fast_recv(int fd, void *buf, size_t n, int flags);

/* Back to the kernel, and stay there, with a reason (splice, stdio, aio, ktls, passed, ...). On
 * return the descriptor is an ordinary kernel socket, or its stream was reset. No-op if fd isn't a
 * socket of ours. Keeps errno. */
void xs_fd_pin(int fd, enum xs_reason why);
/* Another process gets it too: our close is never an end of the stream. */
void xs_fd_share(int fd);
/* All of the process's sockets (io-uring). */
void xs_pin_all(enum xs_reason why);
/* Looks for SCM_RIGHTS in a message on a Unix socket and pins what's passed (`passed`). */
void xs_pin_rights(const struct msghdr *msg);

/* --- options ---------- */
int xs_opt_get(struct xs_sock *s, int fd, int level, int name, void *val, socklen_t *len);
int xs_opt_set(struct xs_sock *s, int fd, int level, int name, const void *val, socklen_t len);
/* ioctl on a socket of ours; *done false: not one that we serve, forward it. */
int xs_opt_ioctl(struct xs_sock *s, int fd, unsigned long req, void *arg, bool *done);

/* --- readiness ---------- */
/*
 * poll and select. xs_*_enter not NULL: the kernel serves all of it: make the libc call, then
 * `return xs_wait_leave(sleep, r)`, which keeps r and errno. NULL: xs_poll(), xs_select().
 * timeout NULL: for ever. mask NULL: unchanged. -EINTR.
 */
struct xs_sleep;
struct xs_sleep *xs_poll_enter(const struct pollfd *fds, nfds_t n);
struct xs_sleep *xs_select_enter(int n, fd_set *rd, fd_set *wr, fd_set *ex);
int xs_wait_leave(struct xs_sleep *sleep, int r);
int xs_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);
int xs_select(int n, fd_set *rd, fd_set *wr, fd_set *ex, const struct timespec *timeout,
	      struct timespec *left, const sigset_t *mask);
/* epoll_create*() has returned fd. Keeps errno. */
void xs_ep_created(int fd);
/* epoll_ctl(), the real call included. */
int xs_ep_ctl(int epfd, int op, int fd, struct epoll_event *ev);
/*
 * epoll_wait and its kin. xs_ep_enter true: the kernel serves it: make the libc call, then
 * `return xs_ep_leave(&w, r)`, which goes on in the other way where a member has left the kernel
 * meanwhile, and returns as libc does. False: xs_ep_wait().
 */
struct xs_ep_wait {
	int epfd, max;
	struct epoll_event *ev;
	const sigset_t *mask; /* NULL: unchanged */
	uint64_t deadline;    /* 0: none */
	bool now;
	struct xs_sleep *sleep;
	struct xs_ep_set *set;
};
bool xs_ep_enter(struct xs_ep_wait *w, const struct timespec *timeout);
int xs_ep_leave(struct xs_ep_wait *w, int r);
int xs_ep_wait(struct xs_ep_wait *w);

/* --- processes ---------- */
/* Around a fork that libc's handlers don't see. */
void xs_proc_fork_begin(void);
void xs_proc_fork_end(bool child);
/* Before exec: streams whose descriptors would survive are back on the kernel when it returns. */
void xs_proc_exec(void);
/* posix_spawn_file_actions_adddup2(fd), or a descriptor that a child will get as 0-2. */
void xs_proc_spawn_fd(int fd);
/* Before system, popen, posix_spawn: descriptors 0-2 if they are streams. */
void xs_proc_spawn(void);
/* Before set*id and friends: rc streams are back on the kernel, devices are closed. */
void xs_proc_setid(void);

#endif

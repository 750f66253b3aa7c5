/* SPDX-License-Identifier: MIT */
/*
 * The real libc functions behind the doors: xs_real.read(fd, buf, n) and so on for
 * each name of symbols.def. Usable at any time, also before the constructor ran.
 * They behave as libc's own: errno, and cancellation points.
 */
#ifndef XS_BASE_REAL_H
#define XS_BASE_REAL_H

#include <aio.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Entry points that libc's headers declare only for fortified builds, or never. */
ssize_t __read(int fd, void *buf, size_t n);
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __write(int fd, const void *buf, size_t n);
ssize_t __recv(int fd, void *buf, size_t n, int flags);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *from,
		       socklen_t *len);
ssize_t __send(int fd, const void *buf, size_t n, int flags);
int __sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags);
int __connect(int fd, const struct sockaddr *addr, socklen_t len);
int __close(int fd);
int __fcntl(int fd, int cmd, ...);
int __dup2(int from, int to) __THROW;
int __poll(struct pollfd *fds, nfds_t n, int timeout);
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
		size_t room);
int __select(int n, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout);
int __dprintf_chk(int fd, int flag, const char *fmt, ...);
int __vdprintf_chk(int fd, int flag, const char *fmt, va_list ap);

/* Names that the libc of Debian 11 doesn't declare. */
int close_range(unsigned int first, unsigned int last, int flags);
void closefrom(int low);
int epoll_pwait2(int epfd, struct epoll_event *events, int max, const struct timespec *timeout,
		 const sigset_t *mask);
int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags);
pid_t _Fork(void);

struct xs_real_calls {
#define XS_SYM(name, early) __typeof__(&name) name;
#include "base/symbols.def"
#undef XS_SYM
};

extern struct xs_real_calls xs_real;

/* Resolves every name in one pass; called once, from the constructor. */
void xs_real_init(void);

#endif

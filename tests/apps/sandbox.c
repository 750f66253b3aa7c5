/* SPDX-License-Identifier: MIT */
/*
 * A program in a sandbox of its own: a filter that kills it at any system call but those that it
 * makes itself, bare, and those named by number on the command line. sandbox short|long [NUMBER...]
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MUST(expr)                                 \
	({                                         \
		long r_ = (long)(expr);            \
		if (r_ < 0)                        \
			_exit((perror(#expr), 3)); \
		r_;                                \
	})

static const long both[] = {__NR_socket,      __NR_bind,	  __NR_listen,	  __NR_connect,
			    __NR_getsockname, __NR_epoll_create1, __NR_epoll_ctl, __NR_write,
			    __NR_close,	      __NR_exit_group};
static const long in_short[] = {__NR_accept,   __NR_poll,   __NR_epoll_wait, __NR_read,
				__NR_recvfrom, __NR_sendto, __NR_dup2,	     __NR_shutdown};
static const long in_long[] = {__NR_accept4,  __NR_ppoll,    __NR_epoll_pwait, __NR_epoll_pwait2,
			       __NR_pselect6, __NR_readv,    __NR_writev,      __NR_recvmsg,
			       __NR_sendmsg,  __NR_recvmmsg, __NR_sendmmsg,    __NR_dup3};

static struct sock_filter code[1024];
static unsigned short length;

static void put(struct sock_filter f)
{
	code[length++] = f;
}

static void allow(const long *nr, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr[i], 0, 1));
		put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	}
}

static void enter_sandbox(int is_long, char **more)
{
	struct sock_fprog prog = {.filter = code};

	put((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					 offsetof(struct seccomp_data, nr)));
	allow(both, COUNT(both));
	allow(is_long ? in_long : in_short, is_long ? COUNT(in_long) : COUNT(in_short));
	for (; *more; more++) {
		long nr = atol(*more);

		allow(&nr, 1);
	}
	put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	prog.len = length;
	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
}

static void done(const char *step)
{
	MUST(write(1, step, strlen(step)));
	MUST(write(1, "\n", 1));
}

/* a: a connecting end, b: the accepted one. */
static void short_calls(int set, int a, int b)
{
	struct epoll_event ev;
	struct pollfd p = {.fd = b, .events = POLLIN};
	char c[8];

	MUST(send(a, "one", 3, 0));
	MUST(poll(&p, 1, -1));
	done("poll");
	MUST(epoll_wait(set, &ev, 1, -1));
	done("epoll_wait");
	MUST(recv(b, c, 1, 0));
	MUST(read(b, c, sizeof(c)));
	MUST(poll(&p, 1, 5));
	MUST(epoll_wait(set, &ev, 1, 5));
	done("with a time");
	MUST(dup2(a, b));
	MUST(shutdown(a, SHUT_WR));
}

static void long_calls(int set, int a, int b)
{
	const struct timespec t = {.tv_nsec = 5000000};
	struct pollfd p = {.fd = b, .events = POLLIN};
	char c[8];
	struct iovec iov = {.iov_base = c, .iov_len = 2};
	struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}},
			       {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}}};
	struct epoll_event ev;
	fd_set rd;

	MUST(writev(a, &iov, 1));
	MUST(sendmsg(a, &m[0].msg_hdr, 0));
	MUST(sendmmsg(a, m, 2, 0));
	done("sendmmsg");
	MUST(ppoll(&p, 1, NULL, NULL));
	MUST(ppoll(&p, 1, &t, NULL));
	done("ppoll");
	MUST(epoll_pwait(set, &ev, 1, -1, NULL));
	MUST(epoll_pwait2(set, &ev, 1, &t, NULL));
	done("epoll_pwait");
	FD_ZERO(&rd);
	FD_SET(b, &rd);
	MUST(pselect(b + 1, &rd, NULL, NULL, &t, NULL));
	MUST(select(b + 1, &rd, NULL, NULL, NULL));
	done("select");
	MUST(readv(b, &iov, 1));
	MUST(recvmsg(b, &m[0].msg_hdr, 0));
	MUST(recvmmsg(b, m, 2, 0, NULL));
	done("recvmmsg");
	MUST(dup3(a, b, 0));
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct epoll_event ev = {.events = EPOLLIN};
	int is_long = !strcmp(argv[1], "long"), l, a, b, set;
	socklen_t len = sizeof(addr);

	enter_sandbox(is_long, argv + 2);
	l = MUST(socket(AF_INET, SOCK_STREAM, 0));
	MUST(bind(l, (struct sockaddr *)&addr, sizeof(addr)));
	MUST(listen(l, 1));
	MUST(getsockname(l, (struct sockaddr *)&addr, &len));
	a = MUST(socket(AF_INET, SOCK_STREAM, 0));
	MUST(connect(a, (struct sockaddr *)&addr, sizeof(addr)));
	b = MUST(is_long ? accept4(l, NULL, NULL, 0) : accept(l, NULL, NULL));
	done("accept");
	set = MUST(epoll_create1(0));
	MUST(epoll_ctl(set, EPOLL_CTL_ADD, b, &ev));
	(is_long ? long_calls : short_calls)(set, a, b);
	MUST(close(b));
	MUST(close(a));
	MUST(close(set));
	done("close");
	_exit(0);
}

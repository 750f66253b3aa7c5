/* SPDX-License-Identifier: MIT */
/*
 * A signal in every call that sleeps (arg 1), with and without SA_RESTART. The other role sends
 * the signal when it sees the sleeper asleep. An interrupted call says EINTR; a restarted one
 * goes on until the other role gives it what it waits for.
 */
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/time.h>

#include "oracle.h"

static volatile sig_atomic_t *hits;
static char big[1 << 20];
static long taken;

static void on_signal(int sig)
{
	(void)sig;
	++*hits;
}

static long do_recv(int fd)
{
	char c;

	return recv(fd, &c, 1, 0);
}

static long do_read(int fd)
{
	char c;

	return read(fd, &c, 1);
}

static long do_recvmsg(int fd)
{
	char c;
	struct iovec v = {&c, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

	return recvmsg(fd, &m, 0);
}

static long do_timed_recv(int fd)
{
	struct timeval t = {20, 0};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	return do_recv(fd);
}

static long do_accept(int fd)
{
	int got = accept(fd, NULL, NULL);

	if (got >= 0)
		close(got);
	return got < 0 ? got : 1;
}

static long do_poll(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 20000);
}

static long do_ppoll(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return ppoll(&p, 1, NULL, NULL);
}

static long do_select(int fd)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, NULL);
}

static long do_epoll(int fd)
{
	struct epoll_event e = {.events = EPOLLIN};
	int set = epoll_create1(EPOLL_CLOEXEC);

	epoll_ctl(set, EPOLL_CTL_ADD, fd, &e);
	long n = epoll_wait(set, &e, 1, 20000);
	int err = errno;

	close(set);
	errno = err;
	return n;
}

/* Filled first, so that the next write sleeps at its first byte. */
static long do_send(int fd)
{
	ssize_t n;

	while ((n = send(fd, big, sizeof(big), MSG_DONTWAIT)) > 0)
		taken += n;
	n = send(fd, big, 10, 0);
	if (n > 0)
		taken += n;
	return n;
}

static const struct {
	const char *name;
	long (*call)(int fd);
	int listener;
} calls[] = {
	{"recv", do_recv, 0},	    {"read", do_read, 0},
	{"recvmsg", do_recvmsg, 0}, {"timed-recv", do_timed_recv, 0},
	{"accept", do_accept, 1},   {"poll", do_poll, 0},
	{"ppoll", do_ppoll, 0},	    {"select", do_select, 0},
	{"epoll", do_epoll, 0},	    {"send", do_send, 0},
};

static int which(void)
{
	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!strcmp(calls[i].name, oracle_arg(1, "recv")))
			return (int)i;
	exit(2);
}

static void one_call(int i, int fd, int flags)
{
	struct sigaction a = {.sa_handler = on_signal, .sa_flags = flags};

	sigaction(SIGUSR1, &a, NULL);
	*hits = 0;
	tell('s');
	errno = 0;
	long n = calls[i].call(fd);

	say("%s %s: %ld %s", calls[i].name, flags ? "restart" : "plain", n,
	    errno && n < 0 ? strerrorname_np(errno) : "ok");
	say("handled: %d", *hits > 0);
	tell_num(n);
	tell_num(taken);
	taken = 0;
	hear('n');
}

static void server(void)
{
	int i = which();
	int listener = -1, fd = oracle_accept();

	if (calls[i].listener) {
		listener = oracle_listener(AF_INET);
		tell_num(oracle_port(listener));
	}
	tell_num(getpid());
	one_call(i, listener < 0 ? fd : listener, 0);
	one_call(i, listener < 0 ? fd : listener, SA_RESTART);
}

/* What ends a call that the signal didn't end. */
static void satisfy(int i, int fd, int port)
{
	if (calls[i].listener)
		close(oracle_dial(port));
	else if (!strcmp(calls[i].name, "send"))
		get_all(fd, big, 1 << 19);
	else
		put_all(fd, "x", 1);
}

static void drain(int fd, long bytes)
{
	while (bytes > 0) {
		size_t part = bytes < (long)sizeof(big) ? (size_t)bytes : sizeof(big);

		bytes -= (long)get_all(fd, big, part);
	}
}

static void one_signal(int i, int fd, int port, pid_t pid, int restarts)
{
	struct pollfd p = {.fd = 200, .events = POLLIN};
	int eaten = 0;

	hear('s');
	await_asleep(pid);
	kill(pid, SIGUSR1);
	for (int looks = 0; looks < 1000 && !*hits; looks++)
		poll(NULL, 0, 1);
	await_asleep(pid);
	if (restarts && poll(&p, 1, 0) == 0) {
		satisfy(i, fd, port);
		eaten = !strcmp(calls[i].name, "send") ? 1 << 19 : 0;
	}
	long n = hear_num();

	drain(fd, hear_num() - eaten);
	/* poll and its kin are never restarted, so there's nothing to take back. */
	say("restarted: %d", n > 0);
	tell('n');
}

static void client(void)
{
	int i = which();
	int fd = oracle_connect(), port = 0;

	if (calls[i].listener)
		port = (int)hear_num();
	pid_t pid = (pid_t)hear_num();

	one_signal(i, fd, port, pid, 0);
	one_signal(i, fd, port, pid, 1);
}

int main(int argc, char **argv)
{
	oracle_args(argc, argv);
	hits = mmap(NULL, sizeof(*hits), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return oracle_run(PROOF_DEFAULT, server, client);
}

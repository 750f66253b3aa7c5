/* SPDX-License-Identifier: MIT */
/*
 * How a child that inherits a moved connection comes to be, and how it uses it (arg 1):
 *   poll, epoll it waits for it first, in a set that the owner made
 *   closeall    it first closes all other descriptors, one by one
 *   raw         it was made by the system call itself, and by _Fork
 *   clone       it was made by libc's clone()
 *   daemon      it was made by libc's daemon()
 *   half        the owner has shut its sending side before the fork
 *   serial      a child for each word, one after the other
 *   nonblock    it reads without blocking
 *   select      it waits by select and ppoll first
 *   ownset      it waits in sets of its own, by level and by edge
 *   sweep       it moves the connection down and closes all above, as sshd does
 *   stdio       it uses it by stdio
 *   asks        it asks for bytes, errors and options first, then shuts it
 */
#include <sched.h>
#include <sys/syscall.h>

#include "oracle.h"

static char buf[64];

static void waits(int fd, int by_epoll)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int set = epoll_create1(0);
	pid_t child;

	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev));
	CALL(epoll_wait(set, &ev, 1, 0));
	child = fork();
	if (!child) {
		oracle_slot(2);
		for (int i = 0; i < 2; i++) {
			if (by_epoll)
				CALL(epoll_wait(set, &ev, 1, 30000));
			else
				CALL(poll(&p, 1, 30000));
			say("%x", by_epoll ? ev.events : (unsigned)p.revents);
			oracle_echo("child", fd);
		}
		_exit(0);
	}
	tell('g');
	oracle_wait(child);
	tell('g');
	for (int i = 0; i < 2; i++) {
		if (by_epoll)
			CALL(epoll_wait(set, &ev, 1, 30000));
		else
			CALL(poll(&p, 1, 30000));
		oracle_echo("owner", fd);
	}
}

static void polls(int fd)
{
	waits(fd, 0);
}

static void epolls(int fd)
{
	waits(fd, 1);
}

static void closeall(int fd)
{
	pid_t child = fork();

	if (!child) {
		oracle_slot(2);
		for (int other = 3; other < 4096; other++)
			if (other != fd)
				close(other);
		oracle_echo("child", fd);
		oracle_echo("child", fd);
		_exit(0);
	}
	oracle_wait(child);
	oracle_echo("owner", fd);
	oracle_echo("owner", fd);
}

static void raw(int fd)
{
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (!child) {
		oracle_slot(2);
		oracle_echo("child", fd);
		oracle_echo("child", fd);
		_exit(0);
	}
	oracle_wait(child);
	child = _Fork();
	if (!child) {
		oracle_slot(2);
		oracle_echo("child", fd);
		_exit(0);
	}
	oracle_wait(child);
	oracle_echo("owner", fd);
}

static void half(int fd)
{
	pid_t child;

	CALL(shutdown(fd, SHUT_WR));
	hear('h');
	child = fork();
	if (!child) {
		oracle_slot(2);
		CALL(get_all(fd, buf, 16));
		CALL(recv(fd, buf, 1, 0));
		CALL(send(fd, buf, 1, MSG_NOSIGNAL));
		_exit(0);
	}
	CALL(close(fd));
	oracle_wait(child);
}

static void daemonises(int fd)
{
	oracle_slot(2);
	CALL(daemon(1, 1));
	oracle_echo("daemon", fd);
	oracle_echo("daemon", fd);
}

static void serial(int fd)
{
	for (int i = 0; i < 4; i++) {
		pid_t child = fork();

		if (!child) {
			oracle_slot(2 + i);
			oracle_echo("child", fd);
			_exit(0);
		}
		oracle_wait(child);
	}
}

static void nonblock(int fd)
{
	pid_t child = fork();

	if (!child) {
		oracle_slot(2);
		CALL(recv(fd, buf, 4, MSG_DONTWAIT));
		tell('n');
		await_readable(fd, 4);
		CALL(recv(fd, buf, 4, MSG_DONTWAIT));
		CALL(recv(fd, buf, 4, MSG_DONTWAIT));
		put_all(fd, buf, 4);
		oracle_echo("child", fd);
		_exit(0);
	}
	oracle_wait(child);
	oracle_echo("owner", fd);
	oracle_echo("owner", fd);
}

static int cloned_child(void *arg)
{
	int fd = *(int *)arg;

	oracle_slot(2);
	oracle_echo("child", fd);
	oracle_echo("child", fd);
	return 0;
}

static void clones(int fd)
{
	static char stack[1 << 18] __attribute__((aligned(16)));

	oracle_wait((pid_t)MUST(clone(cloned_child, stack + sizeof(stack), SIGCHLD, &fd)));
	oracle_echo("owner", fd);
	oracle_echo("owner", fd);
}

/* The owner waits for the child, then has two words of its own. */
static void by_child(int fd, void (*use)(int fd))
{
	pid_t child = fork();

	if (!child) {
		oracle_slot(2);
		use(fd);
		_exit(0);
	}
	oracle_wait(child);
	oracle_echo("owner", fd);
	oracle_echo("owner", fd);
}

static void use_select(int fd)
{
	struct timespec long_time = {5, 0};
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
	struct timeval tv = {5, 0};
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	CALL(select(fd + 1, &set, NULL, NULL, &tv));
	oracle_echo("child", fd);
	await_readable(fd, 4);
	CALL(ppoll(&p, 1, &long_time, NULL));
	say("%s", poll_names(p.revents));
	oracle_echo("child", fd);
}

static void selects(int fd)
{
	by_child(fd, use_select);
}

static void use_own_set(int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = 7};
	int level = epoll_create1(0), edge = epoll_create1(0);

	CALL(epoll_ctl(level, EPOLL_CTL_ADD, fd, &ev));
	ev.events = EPOLLIN | EPOLLET;
	CALL(epoll_ctl(edge, EPOLL_CTL_ADD, fd, &ev));
	for (int i = 0; i < 2; i++) {
		CALL(epoll_wait(level, &ev, 1, 30000));
		say("%s %d", epoll_names(ev.events), (int)ev.data.u64);
		CALL(epoll_wait(edge, &ev, 1, 30000));
		CALL(epoll_wait(edge, &ev, 1, 0));
		oracle_echo("child", fd);
	}
	CALL(epoll_ctl(level, EPOLL_CTL_DEL, fd, NULL));
	CALL(epoll_ctl(level, EPOLL_CTL_DEL, fd, NULL));
}

static void own_sets(int fd)
{
	by_child(fd, use_own_set);
}

static void use_swept(int fd)
{
	CALL(dup2(fd, 3));
	closefrom(4);
	oracle_echo("child", 3);
	oracle_echo("child", 3);
	CALL(close(3));
}

static void sweeps(int fd)
{
	by_child(fd, use_swept);
}

static void use_stdio(int fd)
{
	FILE *f = fdopen(fd, "r+");

	for (int i = 0; i < 2; i++) {
		CALL(fread(buf, 1, 4, f));
		CALL(fwrite(buf, 1, 4, f));
		CALL(fflush(f));
	}
}

static void stdios(int fd)
{
	by_child(fd, use_stdio);
}

static void use_asked(int fd)
{
	int n = -1;
	socklen_t len = sizeof(n);

	CALL(getsockopt(fd, SOL_SOCKET, SO_ERROR, &n, &len));
	say("error %d", n);
	await_readable(fd, 4);
	CALL(ioctl(fd, FIONREAD, &n));
	say("readable %d", n);
	CALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)));
	oracle_echo("child", fd);
	CALL(shutdown(fd, SHUT_WR));
	CALL(get_all(fd, buf, 4));
}

static void asks(int fd)
{
	pid_t child = fork();

	if (!child) {
		oracle_slot(2);
		use_asked(fd);
		_exit(0);
	}
	CALL(close(fd));
	oracle_wait(child);
}

static const struct {
	const char *name;
	void (*play)(int fd);
} ways[] = {
	{"poll", polls},	{"epoll", epolls},	{"closeall", closeall}, {"raw", raw},
	{"clone", clones},	{"daemon", daemonises}, {"half", half},		{"serial", serial},
	{"nonblock", nonblock}, {"select", selects},	{"ownset", own_sets},	{"sweep", sweeps},
	{"stdio", stdios},	{"asks", asks},
};

static void server(void)
{
	const char *how = oracle_arg(1, "poll");
	int fd = oracle_accept();

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(how, ways[i].name))
			ways[i].play(fd);
}

static void client(void)
{
	const char *how = oracle_arg(1, "poll");
	int fd = oracle_connect();

	if (!strcmp(how, "half")) {
		CALL(recv(fd, buf, 1, 0));
		tell('h');
		for (int i = 0; i < 4; i++)
			CALL(send(fd, "word", 4, 0));
		CALL(close(fd));
		return;
	}
	if (!strcmp(how, "nonblock"))
		hear('n');
	if (!strcmp(how, "asks")) {
		CALL(send(fd, "word", 4, 0));
		CALL(get_all(fd, buf, 4));
		CALL(recv(fd, buf, 1, 0));
		CALL(send(fd, "last", 4, 0));
		CALL(close(fd));
		return;
	}
	for (int i = 0; i < (strcmp(how, "daemon") ? 4 : 2); i++) {
		if (i % 2 == 0 && strstr(how, "poll"))
			hear('g');
		CALL(send(fd, "word", 4, 0));
		CALL(get_all(fd, buf, 4));
		say("%.4s", buf);
	}
	CALL(recv(fd, buf, 1, 0));
	CALL(close(fd));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

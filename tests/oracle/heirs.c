/* SPDX-License-Identifier: MIT */
/*
 * Who inherits a moved connection by fork, and how its owner goes (arg 1):
 *   leave       the owner exits with the connection open
 *   exec        the owner becomes another program, its copy is close-on-exec
 *   grandchild  a child's child uses it while both its elders live
 *   orphaned    the same, but the child between has ended (a daemon's double fork)
 *   own         a child accepts a connection of its own, and its child uses that
 *   pending     two children want it while its peer is stopped
 *   reset       the peer has reset it, and the owner has closed it
 *   poll, epoll the child waits for it first, in a set that the owner made
 *   closeall    the child first closes all other descriptors, one by one
 *   raw         the child was made by the system call itself
 *   half        the owner has shut its sending side before the fork
 *   daemon      the owner becomes a daemon by libc's own function
 *   serial      a child for each word, one after the other
 *   full        the owner has written more than the peer reads, and leaves
 *   nonblock    the child reads without blocking
 *   clone       the child was made by libc's clone()
 *   killed      the owner is killed when the child has it already
 *   gone        the child has ended, and the peer is stopped while the owner closes
 */
#include "oracle.h"

#include <sched.h>
#include <sys/syscall.h>

enum { FULL_BYTES = 4 << 20 };

static char buf[64];

static void echo(const char *who, int fd)
{
	CALL(get_all(fd, buf, 4));
	say("%s: %.4s", who, buf);
	put_all(fd, buf, 4);
}

static void wait_for(pid_t child)
{
	int status = -1;

	CALL(waitpid(child, &status, 0) == child);
	say("child ended with %d", status);
}

/* A child that echoes twice, in a slot of its own. */
static pid_t echoing_child(int slot, int fd)
{
	pid_t child = fork();

	if (child)
		return child;
	oracle_slot(slot);
	echo("child", fd);
	echo("child", fd);
	_exit(0);
}

static void leave(int fd)
{
	if (echoing_child(2, fd))
		exit(0);
}

static void execs(int fd)
{
	int gate[2];

	MUST(pipe(gate));
	MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
	MUST(fcntl(gate[1], F_SETFD, FD_CLOEXEC));
	if (!fork()) {
		oracle_slot(2);
		close(gate[1]);
		CALL(read(gate[0], buf, 1)); /* the exec closes it */
		echo("child", fd);
		echo("child", fd);
		_exit(0);
	}
	execl("/bin/sh", "sh", "-c", "exit 0", NULL);
	oracle_die("exec", errno);
}

static void grandchild(int fd)
{
	pid_t child = fork();

	if (!child) {
		oracle_slot(2);
		wait_for(echoing_child(3, fd));
		echo("child", fd);
		_exit(0);
	}
	wait_for(child);
	echo("owner", fd);
}

static void orphaned(int fd)
{
	pid_t child = fork();

	if (!child) {
		if (!echoing_child(2, fd))
			return;
		_exit(0);
	}
	wait_for(child);
	hear('2');
	echo("owner", fd);
	echo("owner", fd);
}

static void own(int fd, int listener)
{
	pid_t child = fork();

	if (!child) {
		oracle_slot(2);
		int mine = (int)MUST(accept(listener, NULL, NULL));

		warm_echo(mine);
		wait_for(echoing_child(3, mine));
		echo("child", mine);
		CALL(close(mine));
		_exit(0);
	}
	wait_for(child);
	echo("owner", fd);
	echo("owner", fd);
}

static void pending(int fd)
{
	pid_t peer = (pid_t)hear_num(), first, second;
	int done[2];

	MUST(pipe(done));
	await_asleep(peer);
	MUST(kill(peer, SIGSTOP));
	first = fork();
	if (!first) {
		oracle_slot(2);
		echo("first", fd);
		CALL(write(done[1], "d", 1));
		_exit(0);
	}
	await_asleep(first);
	second = fork();
	if (!second) {
		oracle_slot(3);
		CALL(send(fd, "more", 4, 0));
		_exit(0);
	}
	await_asleep(second);
	MUST(kill(peer, SIGCONT));
	CALL(read(done[0], buf, 1));
	wait_for(first);
	wait_for(second);
}

static void reset(int fd)
{
	int gate[2];
	pid_t child;

	MUST(pipe(gate));
	child = fork();
	if (!child) {
		oracle_slot(2);
		close(gate[1]);
		CALL(read(gate[0], buf, 1));
		CALL(recv(fd, buf, 1, 0));
		CALL(recv(fd, buf, 1, 0));
		CALL(send(fd, buf, 1, MSG_NOSIGNAL));
		_exit(0);
	}
	tell('r');
	await_event(fd, POLLHUP);
	CALL(close(fd));
	close(gate[1]);
	wait_for(child);
}

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
				CALL(epoll_wait(set, &ev, 1, 5000));
			else
				CALL(poll(&p, 1, 5000));
			say("%x", by_epoll ? ev.events : (unsigned)p.revents);
			echo("child", fd);
		}
		_exit(0);
	}
	tell('g');
	wait_for(child);
	tell('g');
	for (int i = 0; i < 2; i++) {
		if (by_epoll)
			CALL(epoll_wait(set, &ev, 1, 5000));
		else
			CALL(poll(&p, 1, 5000));
		echo("owner", fd);
	}
}

static void closeall(int fd)
{
	pid_t child = fork();

	if (!child) {
		oracle_slot(2);
		for (int other = 3; other < 4096; other++)
			if (other != fd)
				close(other);
		echo("child", fd);
		echo("child", fd);
		_exit(0);
	}
	wait_for(child);
	echo("owner", fd);
	echo("owner", fd);
}

static void raw(int fd)
{
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (!child) {
		oracle_slot(2);
		echo("child", fd);
		echo("child", fd);
		_exit(0);
	}
	wait_for(child);
	child = _Fork();
	if (!child) {
		oracle_slot(2);
		echo("child", fd);
		_exit(0);
	}
	wait_for(child);
	echo("owner", fd);
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
	wait_for(child);
}

static void daemonises(int fd)
{
	oracle_slot(2);
	CALL(daemon(1, 1));
	echo("daemon", fd);
	echo("daemon", fd);
}

static void serial(int fd)
{
	for (int i = 0; i < 4; i++) {
		pid_t child = fork();

		if (!child) {
			oracle_slot(2 + i);
			echo("child", fd);
			_exit(0);
		}
		wait_for(child);
	}
}

static void full(int fd)
{
	static char bytes[FULL_BYTES];

	fill(bytes, sizeof(bytes), 3);
	set_nonblock(fd, 1);
	for (size_t done = 0; done < sizeof(bytes);) {
		ssize_t n = send(fd, bytes + done, sizeof(bytes) - done, MSG_NOSIGNAL);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	set_nonblock(fd, 0);
	if (!fork()) {
		oracle_slot(2);
		tell('f');
		CALL(get_all(fd, buf, 4));
		put_all(fd, buf, 4);
		_exit(0);
	}
	exit(0);
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
		echo("child", fd);
		_exit(0);
	}
	wait_for(child);
	echo("owner", fd);
	echo("owner", fd);
}

static int cloned_child(void *arg)
{
	int fd = *(int *)arg;

	oracle_slot(2);
	echo("child", fd);
	echo("child", fd);
	return 0;
}

static void clones(int fd)
{
	static char stack[1 << 18] __attribute__((aligned(16)));

	wait_for((pid_t)MUST(clone(cloned_child, stack + sizeof(stack), SIGCHLD, &fd)));
	echo("owner", fd);
	echo("owner", fd);
}

/* Nobody else has it any more: the owner's close needs no peer. */
static void gone(int fd)
{
	pid_t peer = (pid_t)hear_num(), child = fork();

	if (!child)
		_exit(0);
	wait_for(child);
	await_asleep(peer);
	MUST(kill(peer, SIGSTOP));
	CALL(send(fd, "last", 4, 0));
	CALL(close(fd));
	MUST(kill(peer, SIGCONT));
	hear('g');
}

static void killed(int fd)
{
	if (fork())
		for (;;)
			pause();
	oracle_slot(2);
	echo("child", fd);
	MUST(kill(getppid(), SIGKILL));
	echo("child", fd);
	_exit(0);
}

static void server(void)
{
	const char *how = oracle_arg(1, "leave");
	int own_listener = !strcmp(how, "own") ? oracle_listener(AF_INET) : -1;
	int fd = oracle_accept();

	if (own_listener >= 0)
		tell_num(oracle_port(own_listener));
	if (!strcmp(how, "leave"))
		leave(fd);
	else if (!strcmp(how, "exec"))
		execs(fd);
	else if (!strcmp(how, "grandchild"))
		grandchild(fd);
	else if (!strcmp(how, "orphaned"))
		orphaned(fd);
	else if (!strcmp(how, "own"))
		own(fd, own_listener);
	else if (!strcmp(how, "pending"))
		pending(fd);
	else if (!strcmp(how, "reset"))
		reset(fd);
	else if (!strcmp(how, "closeall"))
		closeall(fd);
	else if (!strcmp(how, "raw"))
		raw(fd);
	else if (!strcmp(how, "half"))
		half(fd);
	else if (!strcmp(how, "daemon"))
		daemonises(fd);
	else if (!strcmp(how, "serial"))
		serial(fd);
	else if (!strcmp(how, "full"))
		full(fd);
	else if (!strcmp(how, "nonblock"))
		nonblock(fd);
	else if (!strcmp(how, "clone"))
		clones(fd);
	else if (!strcmp(how, "killed"))
		killed(fd);
	else if (!strcmp(how, "gone"))
		gone(fd);
	else
		waits(fd, !strcmp(how, "epoll"));
}

static void round_trip(int fd)
{
	CALL(send(fd, "word", 4, 0));
	CALL(get_all(fd, buf, 4));
	say("%.4s", buf);
}

/* How much the owner got rid of is the kernel's affair; what came must be whole. */
static void full_client(int fd)
{
	static char want[FULL_BYTES + 8], got[FULL_BYTES + 8];
	size_t n = 0;
	ssize_t r;

	fill(want, FULL_BYTES, 3);
	hear('f');
	CALL(send(fd, "word", 4, 0));
	while (n < sizeof(got) && (r = recv(fd, got + n, sizeof(got) - n, 0)) > 0)
		n += (size_t)r;
	say("end %zd, a word at its end: %d", r, n > 4 && !memcmp(got + n - 4, "word", 4));
	say("the bytes before are whole: %d", n > 8192 && !memcmp(got, want, n - 4));
}

static void client(void)
{
	const char *how = oracle_arg(1, "leave");
	struct linger hard = {.l_onoff = 1};
	int fd = oracle_connect(), other;

	if (!strcmp(how, "own")) {
		other = oracle_dial((int)hear_num());
		warm_ping(other);
		for (int i = 0; i < 3; i++)
			round_trip(other);
		CALL(recv(other, buf, 1, 0));
	}
	if (!strcmp(how, "pending")) {
		CALL(send(fd, "word", 4, 0));
		tell_num(getpid());
		CALL(get_all(fd, buf, 8));
		CALL(recv(fd, buf, 1, 0));
		return;
	}
	if (!strcmp(how, "gone")) {
		tell_num(getpid());
		CALL(get_all(fd, buf, 4));
		CALL(recv(fd, buf, 1, 0));
		tell('g');
		return;
	}
	if (!strcmp(how, "reset")) {
		hear('r');
		MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)));
		CALL(close(fd));
		return;
	}
	if (!strcmp(how, "half")) {
		CALL(recv(fd, buf, 1, 0));
		tell('h');
		for (int i = 0; i < 4; i++)
			CALL(send(fd, "word", 4, 0));
		CALL(close(fd));
		return;
	}
	if (!strcmp(how, "full")) {
		full_client(fd);
		return;
	}
	if (!strcmp(how, "nonblock"))
		hear('n');
	for (int i = 0; i < 2; i++) {
		if (!strcmp(how, "poll") || !strcmp(how, "epoll"))
			hear('g');
		round_trip(fd);
		round_trip(fd);
		if (!strcmp(how, "leave") || !strcmp(how, "exec") || !strcmp(how, "daemon") ||
		    !strcmp(how, "killed"))
			break;
		if (!strcmp(how, "orphaned") && !i)
			tell('2');
		if (!strcmp(how, "own"))
			break;
	}
	CALL(recv(fd, buf, 1, 0));
	CALL(close(fd));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

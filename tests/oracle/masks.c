/* SPDX-License-Identifier: MIT */
/* ppoll, pselect, epoll_pwait with a signal mask: blocked outside, delivered inside (arg 1). */
#include <sys/select.h>

#include "oracle.h"

static volatile sig_atomic_t hits;

static void on_signal(int sig)
{
	(void)sig;
	hits++;
}

static long wait_with(const char *how, int fd, const sigset_t *mask)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event e = {.events = EPOLLIN};
	fd_set in;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	if (!strcmp(how, "ppoll"))
		return ppoll(&p, 1, NULL, mask);
	if (!strcmp(how, "pselect"))
		return pselect(fd + 1, &in, NULL, NULL, NULL, mask);
	int set = (int)MUST(epoll_create1(0));

	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	return !strcmp(how, "epoll_pwait") ? epoll_pwait(set, &e, 1, -1, mask)
					   : epoll_pwait2(set, &e, 1, NULL, mask);
}

static void server(void)
{
	const char *how = oracle_arg(1, "ppoll");
	struct sigaction a = {.sa_handler = on_signal};
	sigset_t blocked, old, empty;
	char c;
	int fd = oracle_accept();

	sigaction(SIGUSR1, &a, NULL);
	sigemptyset(&empty);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &blocked, &old);
	raise(SIGUSR1);
	say("blocked: %d", hits);
	CALL(wait_with(how, fd, &empty));
	say("delivered: %d", hits);
	tell_num(getpid());
	tell('s');
	/* One that comes while asleep. */
	CALL(wait_with(how, fd, &empty));
	say("delivered: %d", hits);
	sigprocmask(SIG_SETMASK, NULL, &empty);
	say("blocked again: %d", sigismember(&empty, SIGUSR1));
	raise(SIGUSR1);
	tell('d');
	await_event(fd, POLLIN);
	CALL(wait_with(how, fd, &blocked));
	say("still blocked: %d", hits);
	CALL(recv(fd, &c, 1, 0));
	sigprocmask(SIG_SETMASK, &old, NULL);
	say("in the end: %d", hits);
}

static void client(void)
{
	char c;
	int fd = oracle_connect();
	pid_t pid = (pid_t)hear_num();

	hear('s');
	await_asleep(pid);
	kill(pid, SIGUSR1);
	hear('d');
	CALL(send(fd, "x", 1, 0));
	CALL(recv(fd, &c, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

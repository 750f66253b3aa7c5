/* SPDX-License-Identifier: MIT */
/* A signal handler jumps out of a sleeping call (B31, arg 1); the socket works on afterwards. */
#include <setjmp.h>

#include "oracle.h"

static sigjmp_buf back;
static char buf[1 << 16];

static void on_signal(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

static void sleep_in(const char *how, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event e = {.events = EPOLLIN};
	int set;

	if (!strcmp(how, "recv"))
		recv(fd, buf, 1, 0);
	if (!strcmp(how, "poll"))
		poll(&p, 1, -1);
	if (!strcmp(how, "epoll")) {
		set = (int)MUST(epoll_create1(0));
		MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
		epoll_wait(set, &e, 1, -1);
	}
	say("not reached");
}

static void server(void)
{
	const char *how = oracle_arg(1, "recv");
	struct sigaction a = {.sa_handler = on_signal};
	volatile int round;
	int fd = oracle_accept();

	sigaction(SIGUSR1, &a, NULL);
	tell_num(getpid());
	for (round = 0; round < 3; round++) {
		if (!sigsetjmp(back, 1)) {
			tell('s');
			sleep_in(how, fd);
		}
		tell('j');
		CALL(get_all(fd, buf, 1000));
		say_bytes("after", buf, 1000);
		CALL(send(fd, buf, 1000, 0));
	}
}

static void client(void)
{
	int fd = oracle_connect();
	pid_t pid = (pid_t)hear_num();

	for (int round = 0; round < 3; round++) {
		hear('s');
		await_asleep(pid);
		kill(pid, SIGUSR1);
		hear('j');
		fill(buf, 1000, (uint64_t)round);
		CALL(send(fd, buf, 1000, 0));
		CALL(get_all(fd, buf, 1000));
		say_bytes("back", buf, 1000);
	}
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

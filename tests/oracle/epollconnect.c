/* SPDX-License-Identifier: MIT */
/* A descriptor enters its set before connect() has finished, and is changed by MOD after. */
#include "oracle.h"

static char buf[64];

static void server(void)
{
	int listener = oracle_listener(AF_INET);

	tell_num(oracle_port(listener));
	hear('g');
	int fd = (int)MUST(accept(listener, NULL, NULL));

	warm_echo(fd);
	hear('h');
	CALL(send(fd, "hello", 5, 0));
	CALL(recv(fd, buf, 1, 0));
}

static void look(const char *when, int set, int ms)
{
	struct epoll_event e = {.events = 0};
	int n = epoll_wait(set, &e, 1, ms);

	say("%s: %d %s", when, n, epoll_names(e.events));
}

static void change(int set, int op, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events};

	CALL(epoll_ctl(set, op, fd, &e));
}

static void client(void)
{
	uint32_t mode = strcmp(oracle_arg(1, "level"), "edge") ? 0 : EPOLLET;
	struct sockaddr_in a = {.sin_family = AF_INET};
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
	int set = (int)MUST(epoll_create1(0)), err = -1;
	socklen_t n = sizeof(err);

	a.sin_addr.s_addr = oracle_address();
	a.sin_port = htons((uint16_t)hear_num());
	change(set, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | mode);
	look("unconnected", set, 0);
	CALL(connect(fd, (struct sockaddr *)&a, sizeof(a)));
	look("connecting", set, 30000);
	CALL(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n));
	say("error %d", err);
	CALL(connect(fd, (struct sockaddr *)&a, sizeof(a)));
	CALL(connect(fd, (struct sockaddr *)&a, sizeof(a)));
	tell('g');
	change(set, EPOLL_CTL_MOD, fd, EPOLLIN | mode);
	look("asked for input", set, 0);
	warm_ping(fd);
	/* Edges of the warm-up are over once a wait says so. */
	while (epoll_wait(set, &(struct epoll_event){0}, 1, 50) > 0)
		;
	tell('h');
	look("input", set, 30000);
	CALL(recv(fd, buf, sizeof(buf), 0));
	look("none", set, 0);
	change(set, EPOLL_CTL_MOD, fd, EPOLLOUT | mode);
	look("asked for output", set, 0);
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/*
 * Listeners: connections that are reset before accept (B02), a sleeper in accept that shutdown
 * wakes (B03), non-blocking accept, accept4's flags, inherited options.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "oracle.h"

static char buf[64];
static int listener;
static pid_t sleeper;

static void reset_before_accept(void)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	int set = (int)MUST(epoll_create1(0)), accepted = 0;
	struct epoll_event e = {.events = EPOLLIN};

	set_nonblock(listener, 1);
	MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &e));
	for (int i = 0; i < 50; i++) {
		tell('n');
		hear('d');
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			continue;
		accepted++;
		ssize_t n = recv(fd, buf, 1, 0);

		if (n != -1 || errno != ECONNRESET)
			say("a reset one gives %zd", n);
		close(fd);
	}
	say("accepted %d", accepted);
	CALL(accept(listener, NULL, NULL));
	CALL(poll(&p, 1, 0));
	CALL(epoll_wait(set, &e, 1, 0));
	close(set);
}

static void flags_of_accept4(void)
{
	struct sockaddr_in6 peer;
	socklen_t n = sizeof(peer);

	tell('n');
	await_event(listener, POLLIN);
	int fd = (int)CALL(
		accept4(listener, (struct sockaddr *)&peer, &n, SOCK_NONBLOCK | SOCK_CLOEXEC) < 0);

	(void)fd;
	say("name %u", n);
	tell('n');
	await_event(listener, POLLIN);
	n = 2;
	fd = accept4(listener, (struct sockaddr *)&peer, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
	say("name %u", n);
	CALL(fcntl(fd, F_GETFL));
	CALL(fcntl(fd, F_GETFD));
	/* The listener's own O_NONBLOCK isn't inherited. */
	tell('n');
	await_event(listener, POLLIN);
	fd = accept(listener, NULL, NULL);
	CALL(fcntl(fd, F_GETFL));
	int value = 0;

	n = sizeof(value);
	CALL(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &n));
	say("inherited %d", value);
	CALL(accept4(listener, NULL, NULL, 1));
	CALL(accept(fd, NULL, NULL));
	CALL(accept(-1, NULL, NULL));
	CALL(listen(fd, 1));
	CALL(recv(listener, buf, 1, 0));
	CALL(send(listener, buf, 1, MSG_NOSIGNAL));
}

static void *accepting(void *arg)
{
	(void)arg;
	oracle_slot(2);
	__atomic_store_n(&sleeper, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	CALL(accept(listener, NULL, NULL));
	return NULL;
}

static void server(void)
{
	int on = 1;
	pthread_t t;

	listener = oracle_listener(AF_INET);
	MUST(setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)));
	tell_num(oracle_port(listener));
	reset_before_accept();
	flags_of_accept4();
	set_nonblock(listener, 0);
	pthread_create(&t, NULL, accepting, NULL);
	while (!__atomic_load_n(&sleeper, __ATOMIC_ACQUIRE))
		poll(NULL, 0, 1);
	await_asleep(sleeper);
	CALL(shutdown(listener, SHUT_RDWR));
	pthread_join(t, NULL);
	CALL(accept(listener, NULL, NULL));
	CALL(close(listener));
	tell('z');
}

static void client(void)
{
	struct linger now = {1, 0};
	int port = (int)hear_num();

	for (int i = 0; i < 50; i++) {
		hear('n');
		int fd = oracle_dial(port);

		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		close(fd);
		tell('d');
	}
	for (int i = 0; i < 3; i++) {
		hear('n');
		oracle_dial(port);
	}
	hear('z');
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	a.sin_addr.s_addr = oracle_address();
	CALL(connect(fd, (struct sockaddr *)&a, sizeof(a)));
}

ORACLE_MAIN(PROOF_NONE, server, client)

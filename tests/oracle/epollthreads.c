/* SPDX-License-Identifier: MIT */
/*
 * Threads around one set: two sleep in it and both are woken by two events; another thread adds
 * a ready descriptor while one sleeps; two threads poll one descriptor for different things.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "oracle.h"

static int set, sockets[2];
static pid_t tid[2];
static char buf[64];

static void *sleeper(void *arg)
{
	int i = (int)(intptr_t)arg;
	struct epoll_event e = {.events = 0};

	oracle_slot(2 + i);
	__atomic_store_n(&tid[i], (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	int n = epoll_wait(set, &e, 1, 8000);

	say("woken: %d %s", n, epoll_names(e.events));
	return NULL;
}

static void await_sleeper(int i)
{
	while (!__atomic_load_n(&tid[i], __ATOMIC_ACQUIRE))
		poll(NULL, 0, 1);
	await_asleep(tid[i]);
}

static void add(int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.fd = fd};

	CALL(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
}

static void two_sleepers(void)
{
	pthread_t t[2];

	add(sockets[0], EPOLLIN | EPOLLONESHOT);
	add(sockets[1], EPOLLIN | EPOLLONESHOT);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, sleeper, (void *)(intptr_t)i);
	await_sleeper(0);
	await_sleeper(1);
	tell('a');
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	CALL(recv(sockets[0], buf, 64, 0));
	CALL(recv(sockets[1], buf, 64, 0));
	CALL(epoll_ctl(set, EPOLL_CTL_DEL, sockets[0], NULL));
	CALL(epoll_ctl(set, EPOLL_CTL_DEL, sockets[1], NULL));
}

/* Changes by another thread take effect on a sleeper at once. */
static void added_meanwhile(int modify)
{
	struct epoll_event e = {.events = EPOLLIN};
	pthread_t t;

	if (modify)
		add(sockets[0], 0);
	tid[0] = 0;
	pthread_create(&t, NULL, sleeper, (void *)0);
	await_sleeper(0);
	if (modify)
		CALL(epoll_ctl(set, EPOLL_CTL_MOD, sockets[0], &e));
	else
		add(sockets[0], EPOLLIN);
	pthread_join(t, NULL);
	CALL(epoll_ctl(set, EPOLL_CTL_DEL, sockets[0], NULL));
}

static void *reader(void *arg)
{
	struct pollfd p = {.fd = sockets[0], .events = POLLIN};
	char c;

	(void)arg;
	oracle_slot(4);
	for (int i = 0; i < 100; i++) {
		if (poll(&p, 1, 8000) != 1 || recv(sockets[0], &c, 1, 0) != 1)
			say("no byte %d: %s", i, poll_names(p.revents));
	}
	say("100 read");
	return NULL;
}

/* One thread waits for input while another waits for room. */
static void reader_and_writer(void)
{
	static char big[1000];
	struct pollfd p = {.fd = sockets[0], .events = POLLOUT};
	pthread_t t;

	pthread_create(&t, NULL, reader, NULL);
	tell('c');
	for (int i = 0; i < 3000;) {
		if (poll(&p, 1, 8000) != 1)
			say("no room: %d", i);
		if (send(sockets[0], big, sizeof(big), MSG_DONTWAIT) == sizeof(big))
			i++;
		else if (errno != EAGAIN)
			say("write: %s", strerrorname_np(errno));
	}
	pthread_join(t, NULL);
	say("3000 written");
}

static void server(void)
{
	sockets[0] = oracle_accept();
	sockets[1] = oracle_accept();
	set = (int)MUST(epoll_create1(0));
	two_sleepers();
	tell('b');
	await_readable(sockets[0], 1);
	added_meanwhile(0);
	added_meanwhile(1);
	CALL(recv(sockets[0], buf, 64, 0));
	reader_and_writer();
}

static void client(void)
{
	static char big[3000];
	int a = oracle_connect(), b = oracle_connect();

	hear('a');
	CALL(send(a, "x", 1, 0));
	CALL(send(b, "y", 1, 0));
	hear('b');
	CALL(send(a, "z", 1, 0));
	hear('c');
	for (int i = 0; i < 1000; i++) {
		if (get_all(a, big, sizeof(big)) != sizeof(big))
			say("short at %d", i);
		if (i % 10 == 0)
			put_all(a, "w", 1);
	}
	CALL(recv(a, buf, 1, 0));
}

ORACLE_MAIN(2 * PROOF_DEFAULT, server, client)

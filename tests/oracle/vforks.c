/* SPDX-License-Identifier: MIT */
/*
 * What a vfork child does with descriptors is its own affair, though it does it in our memory: it
 * closes the moved connection, gets its number for something else, duplicates, listens, connects.
 */
#include "oracle.h"

static char buf[64];

static void echo(int fd)
{
	CALL(get_all(fd, buf, 4));
	put_all(fd, buf, 4);
}

static void reused(int fd)
{
	close(fd);
	if (socket(AF_UNIX, SOCK_STREAM, 0) != fd)
		_exit(1);
	_exit(0);
}

static void reused_tcp(int fd)
{
	close(fd);
	if (socket(AF_INET, SOCK_STREAM, 0) != fd)
		_exit(1);
	_exit(0);
}

static void reused_set(int fd)
{
	close(fd);
	if (epoll_create1(0) != fd)
		_exit(1);
	_exit(0);
}

static void duplicated(int fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		_exit(1);
	close(fd);
	if (dup(pair[0]) != fd)
		_exit(2);
	if (fcntl(pair[0], F_DUPFD, fd + 1) < 0 || dup2(pair[0], fd) != fd)
		_exit(3);
	close_range((unsigned)fd, (unsigned)fd, 0);
	_exit(0);
}

static void accepted(int fd)
{
	int listener = oracle_listener(AF_INET);

	oracle_dial(oracle_port(listener));
	close(fd);
	if (accept(listener, NULL, NULL) != fd)
		_exit(1);
	_exit(0);
}

static void by_vfork(const char *what, void (*child)(int fd), int fd)
{
	int status = -1;
	pid_t pid = vfork();

	if (!pid)
		child(fd);
	waitpid(pid, &status, 0);
	say("%s: %d", what, status);
	echo(fd);
	CALL(fcntl(fd, F_GETFD));
}

static void server(void)
{
	int fd = oracle_accept();

	by_vfork("a socket in its place", reused, fd);
	by_vfork("a TCP socket in its place", reused_tcp, fd);
	by_vfork("a set in its place", reused_set, fd);
	by_vfork("duplicates", duplicated, fd);
	by_vfork("an accepted one in its place", accepted, fd);
	CALL(close(fd));
}

static void client(void)
{
	int fd = oracle_connect();

	for (int i = 0; i < 5; i++) {
		CALL(send(fd, "word", 4, 0));
		CALL(get_all(fd, buf, 4));
	}
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

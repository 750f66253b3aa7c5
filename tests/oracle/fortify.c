/* SPDX-License-Identifier: MIT */
/* The checked variants that fortified builds call: sizes that the compiler can't know. */
#include <sys/select.h>
#include <time.h>

#include "oracle.h"

static size_t size_of_unknown(void)
{
	return (size_t)atoi(oracle_arg(1, "10"));
}

static void server(void)
{
	struct timespec none = {0, 0};
	char buf[64];
	struct pollfd p[2];
	size_t n = size_of_unknown();
	int fd = oracle_accept();

	tell('a');
	p[0].fd = fd;
	p[0].events = POLLIN;
	CALL(poll(p, n / 10, -1));
	say("%s", poll_names(p[0].revents));
	await_readable(fd, 40);
	CALL(ppoll(p, n / 10, &none, NULL));
	CALL(read(fd, buf, n));
	CALL(recv(fd, buf, n, 0));
	CALL(recvfrom(fd, buf, n, MSG_PEEK, NULL, NULL));
	CALL(recvfrom(fd, buf, n, 0, NULL, NULL));
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	CALL(select(fd + 1, &set, NULL, NULL, NULL));
	CALL(pread(fd, buf, n, 0));
	CALL(read(fd, buf, n));
	say_bytes("last", buf, (ssize_t)n);
}

static void client(void)
{
	int fd = oracle_connect();

	hear('a');
	CALL(send(fd, "0123456789abcdefghijABCDEFGHIJ----------", 40, 0));
	char c;

	CALL(recv(fd, &c, 1, 0));
	CALL(dprintf(fd, "%s", ""));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* Lengths of more than an int: three gibibytes asked with little there, sums that overflow. */
#include <sys/mman.h>

#include "oracle.h"

static const size_t huge = (size_t)3 << 30;
static char *room;

static void server(void)
{
	int fd = oracle_accept();
	struct iovec v[2] = {{room, huge}, {room, huge}};

	tell('a');
	await_readable(fd, 100);
	CALL(recv(fd, room, huge, 0));
	tell('b');
	await_readable(fd, 100);
	CALL(read(fd, room, huge));
	tell('c');
	await_readable(fd, 100);
	CALL(readv(fd, v, 2));
	CALL(recv(fd, room, huge, MSG_DONTWAIT));
	v[1].iov_len = (size_t)-1;
	CALL(readv(fd, v, 2));
	CALL(recv(fd, room, (size_t)-1, MSG_DONTWAIT));
	tell('d');
	await_readable(fd, 8192);
	CALL(recv(fd, room, 8192, 0));
	say_bytes("two pages", room, 8192);
	CALL(recv(fd, room, 1, 0));
}

static void client(void)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec v[2] = {{page, 10}, {page, (size_t)-1}};
	int fd = oracle_connect();

	fill(page, 8192, 1);
	for (char c = 'a'; c <= 'c'; c++) {
		hear(c);
		CALL(send(fd, page, 100, 0));
	}
	hear('d');
	CALL(writev(fd, v, 2));
	CALL(send(fd, page, 8192, 0));
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, page, 1, 0));
}

int main(int argc, char **argv)
{
	oracle_args(argc, argv);
	room = mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	if (room == MAP_FAILED)
		return 4;
	return oracle_run(PROOF_DEFAULT, server, client);
}

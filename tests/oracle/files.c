/* SPDX-License-Identifier: MIT */
/* sendfile to a connection, splice both ways, stdio on a descriptor, dprintf. */
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#include "oracle.h"

enum { BYTES = 300000 };
static char buf[BYTES];

static int make_file(void)
{
	int file = (int)MUST(memfd_create("file", 0));

	fill(buf, BYTES, 11);
	MUST(write(file, buf, BYTES));
	return file;
}

static void by_sendfile(int fd, int file)
{
	off_t at = 0;
	ssize_t n;

	while (at < BYTES && (n = sendfile(fd, file, &at, (size_t)(BYTES - at))) > 0)
		;
	say("offset %ld, position %ld", (long)at, (long)lseek(file, 0, SEEK_CUR));
	lseek(file, BYTES - 10, SEEK_SET);
	CALL(sendfile(fd, file, NULL, 100));
	CALL(sendfile(fd, file, NULL, 100));
	CALL(sendfile(fd, -1, NULL, 100));
}

static void by_splice(int fd, int file)
{
	int pipes[2];
	off64_t at = 0;

	MUST(pipe(pipes));
	for (int i = 0; i < 10; i++) {
		long n = splice(file, &at, pipes[1], NULL, 10000, 0);

		while (n > 0) {
			long part = splice(pipes[0], NULL, fd, NULL, (size_t)n, 0);

			if (part <= 0)
				oracle_die("splice", errno);
			n -= part;
		}
	}
	say("spliced %ld", (long)at);
}

static void by_stdio(int fd)
{
	FILE *f = fdopen(dup(fd), "r+");

	CALL(fprintf(f, "line %d\n", 1));
	CALL(fflush(f));
	CALL(fgets(buf, 100, f) != NULL);
	say("%s", buf);
	CALL(fclose(f));
	CALL(dprintf(fd, "line %d\n", 2));
}

static void server(void)
{
	const char *how = oracle_arg(1, "sendfile");
	int file = make_file(), fd = oracle_accept();

	if (!strcmp(how, "sendfile"))
		by_sendfile(fd, file);
	else if (!strcmp(how, "splice"))
		by_splice(fd, file);
	else
		by_stdio(fd);
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, buf, 1, 0));
}

/* Reads through a pipe, as proxies do. */
static void splice_in(int fd)
{
	int pipes[2];
	size_t got = 0;
	long n;

	MUST(pipe(pipes));
	while ((n = splice(fd, NULL, pipes[1], NULL, 20000, SPLICE_F_MOVE)) > 0)
		for (; n > 0; n--)
			MUST(read(pipes[0], buf + got++, 1));
	say("splice ends with %ld", n);
	say_bytes("spliced", buf, (ssize_t)got);
}

static void client(void)
{
	const char *how = oracle_arg(1, "sendfile");
	int fd = oracle_connect();

	if (!strcmp(how, "splice")) {
		splice_in(fd);
	} else if (!strcmp(how, "stdio")) {
		CALL(get_all(fd, buf, 7));
		CALL(send(fd, "reply\n", 6, 0));
		say_bytes("rest", buf, (ssize_t)get_all(fd, buf, 100));
	} else {
		say_bytes("file", buf, (ssize_t)get_all(fd, buf, BYTES));
		say_bytes("rest", buf, (ssize_t)get_all(fd, buf, 100));
	}
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* select() and pselect() in the states of a connection, with other descriptors among them. */
#include <sys/eventfd.h>
#include <sys/select.h>
#include <time.h>

#include "oracle.h"

static int event;

static void look(const char *state, int fd)
{
	fd_set in, out, except;
	struct timeval none = {0, 0};
	struct timespec zero = {0, 0};

	for (int which = 0; which < 2; which++) {
		FD_ZERO(&in);
		FD_ZERO(&out);
		FD_ZERO(&except);
		FD_SET(fd, &in);
		FD_SET(event, &in);
		FD_SET(fd, &out);
		FD_SET(fd, &except);
		int n = which ? pselect(900, &in, &out, &except, &zero, NULL)
			      : select(900, &in, &out, &except, &none);

		say("%s: %d in %d event %d out %d except %d", state, n, FD_ISSET(fd, &in),
		    FD_ISSET(event, &in), FD_ISSET(fd, &out), FD_ISSET(fd, &except));
	}
}

static void server(void)
{
	char buf[16];
	fd_set set;
	int fd = oracle_accept();
	uint64_t one = 1;

	event = (int)MUST(eventfd(0, 0));
	look("idle", fd);
	tell('a');
	FD_ZERO(&set);
	FD_SET(fd, &set);
	CALL(select(fd + 1, &set, NULL, NULL, NULL));
	look("readable", fd);
	MUST(write(event, &one, sizeof(one)));
	look("event too", fd);
	CALL(read(fd, buf, 16));
	look("event alone", fd);
	struct timeval t = {0, 20000};

	FD_ZERO(&set);
	FD_SET(fd, &set);
	CALL(select(fd + 1, &set, NULL, NULL, &t));
	say("left %ld %ld", t.tv_sec, t.tv_usec);
	CALL(select(-1, NULL, NULL, NULL, &t));
	tell('b');
	await_event(fd, POLLRDHUP);
	look("peer's end", fd);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	close(fd);
	CALL(select(fd + 1, &set, NULL, NULL, &t));
}

static void client(void)
{
	char c;
	int fd = oracle_connect();

	hear('a');
	CALL(send(fd, "abc", 3, 0));
	hear('b');
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, &c, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

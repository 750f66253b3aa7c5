/* SPDX-License-Identifier: MIT */
/* SIGPIPE, EPIPE and MSG_NOSIGNAL for every writing call. */
#include "oracle.h"

static volatile sig_atomic_t count;

static void on_pipe(int sig)
{
	(void)sig;
	count++;
}

static void all_writes(int fd)
{
	struct iovec v = {"xy", 2};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	struct mmsghdr mm = {.msg_hdr = m};

	CALL(write(fd, "x", 1));
	say("signals %d", count);
	CALL(writev(fd, &v, 1));
	say("signals %d", count);
	CALL(send(fd, "x", 1, 0));
	say("signals %d", count);
	CALL(send(fd, "x", 1, MSG_NOSIGNAL));
	say("signals %d", count);
	CALL(sendto(fd, "x", 1, MSG_NOSIGNAL, NULL, 0));
	CALL(sendmsg(fd, &m, 0));
	say("signals %d", count);
	CALL(sendmsg(fd, &m, MSG_NOSIGNAL));
	CALL(sendmmsg(fd, &mm, 1, MSG_NOSIGNAL));
	say("signals %d", count);
	CALL(send(fd, "", 0, 0));
	say("signals %d", count);
}

static void server(void)
{
	int fd = oracle_accept(), shut = !strcmp(oracle_arg(1, "shut"), "shut");
	struct sigaction a = {.sa_handler = on_pipe};

	sigaction(SIGPIPE, &a, NULL);
	if (shut) {
		CALL(shutdown(fd, SHUT_WR));
	} else if (!strcmp(oracle_arg(1, "shut"), "reset")) { /* the pending error comes first */
		CALL(shutdown(fd, SHUT_WR));
		tell('c');
		hear('d');
		await_event(fd, POLLERR);
	} else {
		tell('c');
		hear('d');
		await_event(fd, POLLRDHUP);
		CALL(send(fd, "x", 1, 0));
		await_event(fd, POLLHUP);
	}
	all_writes(fd);
	if (shut)
		hear('e'); /* a killed process takes with it what its plane hasn't delivered */
	signal(SIGPIPE, SIG_DFL);
	tell('z');
	CALL(write(fd, "x", 1));
	say("never reached");
}

static void client(void)
{
	char c;
	int fd = oracle_connect();

	if (strcmp(oracle_arg(1, "shut"), "shut")) {
		struct linger now = {1, 0};

		hear('c');
		if (!strcmp(oracle_arg(1, "shut"), "reset"))
			MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
		CALL(close(fd));
		tell('d');
		hear('z');
		return;
	}
	CALL(recv(fd, &c, 1, 0));
	tell('e');
	hear('z');
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

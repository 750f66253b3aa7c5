/* SPDX-License-Identifier: MIT */
/*
 * A listener that was made by somebody else: inherited over an exec (arg 1: exec), as by a service
 * manager or from the program that this one replaces, or received over a Unix socket (passed). Its
 * connections move as any others; accept and accept4 on it answer as ever.
 */
#include "oracle.h"

static char buf[64];

static void serve(int listener)
{
	int fd;

	CALL(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC | 1));
	MUST(fcntl(listener, F_SETFL, O_NONBLOCK));
	CALL(accept(listener, NULL, NULL));
	MUST(fcntl(listener, F_SETFL, 0));
	tell_num(oracle_port(listener));
	for (int i = 0; i < 2; i++) {
		fd = (int)MUST(i ? accept4(listener, NULL, NULL, SOCK_CLOEXEC)
				 : accept(listener, NULL, NULL));
		CALL(fcntl(fd, F_GETFD));
		warm_echo(fd);
		CALL(get_all(fd, buf, 4));
		put_all(fd, buf, 4);
		CALL(recv(fd, buf, 1, 0));
		CALL(close(fd));
	}
	CALL(close(listener));
}

/* The listener goes through a Unix socket of our own, and comes back by another number. */
static int passed(int listener)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'l';
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int pair[2], got;

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &listener, sizeof(listener));
	CALL(sendmsg(pair[0], &m, 0));
	CALL(close(listener));
	CALL(recvmsg(pair[1], &m, 0));
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(got));
	CALL(close(pair[0]));
	CALL(close(pair[1]));
	return got;
}

static void server(void)
{
	int listener = oracle_listener(AF_INET);
	char number[16];

	if (!strcmp(oracle_arg(1, "exec"), "passed")) {
		serve(passed(listener));
		return;
	}
	snprintf(number, sizeof(number), "%d", listener);
	oracle_keep();
	execl("/proc/self/exe", "inherited", "--serve", number, NULL);
	oracle_die("exec", errno);
}

static void client(void)
{
	int port = (int)hear_num();

	for (int i = 0; i < 2; i++) {
		int fd = oracle_dial(port);

		warm_ping(fd);
		CALL(send(fd, "word", 4, 0));
		CALL(get_all(fd, buf, 4));
		CALL(close(fd));
	}
}

int main(int argc, char **argv)
{
	oracle_args(argc, argv);
	if (!strcmp(oracle_arg(1, ""), "--serve")) {
		oracle_kept(0);
		serve(atoi(oracle_arg(2, "0")));
		return 0;
	}
	return oracle_run(2 * PROOF_DEFAULT, server, client);
}

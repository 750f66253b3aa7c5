/* SPDX-License-Identifier: MIT */
/* A moved connection is passed to another process by SCM_RIGHTS, which goes on with it. */
#include "oracle.h"

static char buf[64];

static void echo(int fd)
{
	CALL(get_all(fd, buf, 4));
	say("%.4s", buf);
	put_all(fd, buf, 4);
}

static struct msghdr *message(int with_control)
{
	static char control[CMSG_SPACE(sizeof(int))], byte = 'f';
	static struct iovec v = {&byte, 1};
	static struct msghdr m;

	memset(&m, 0, sizeof(m));
	m.msg_iov = &v;
	m.msg_iovlen = 1;
	if (with_control) {
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
	}
	return &m;
}

static void pass(int unix_fd, int fd)
{
	struct msghdr *m = message(1);
	struct cmsghdr *c = CMSG_FIRSTHDR(m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	CALL(sendmsg(unix_fd, m, 0));
}

static int take(int unix_fd)
{
	struct msghdr *m = message(1);
	int fd = -1;

	CALL(recvmsg(unix_fd, m, MSG_CMSG_CLOEXEC));
	struct cmsghdr *c = CMSG_FIRSTHDR(m);

	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void server(void)
{
	int pair[2], status = -1;

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid_t heir = fork();

	if (!heir) {
		oracle_slot(2);
		close(pair[0]);
		int got = take(pair[1]);

		for (int i = 0; i < 3; i++)
			echo(got);
		exit(0);
	}
	close(pair[1]);
	int fd = oracle_accept();

	echo(fd);
	pass(pair[0], fd);
	CALL(close(fd));
	waitpid(heir, &status, 0);
	say("heir %d", status);
}

static void client(void)
{
	int fd = oracle_connect();

	for (int i = 0; i < 4; i++) {
		CALL(send(fd, "word", 4, 0));
		CALL(get_all(fd, buf, 4));
		say("%.4s", buf);
	}
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/*
 * A moved connection is passed by SCM_RIGHTS (arg 1): to another process, which goes on with it
 * (other), or shares it with us (keep); to ourselves, under another number (self); in the middle of
 * what the peer writes (flood).
 */
#include "oracle.h"

enum { FLOOD_BYTES = 192 << 10 };

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

/* Under another number nobody knows it as a stream of ours: it has to be the kernel's by then. */
static void to_ourselves(void)
{
	int pair[2], fd = oracle_accept(), got;

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	echo(fd);
	pass(pair[0], fd);
	got = take(pair[1]);
	echo(got);
	echo(fd);
	CALL(close(fd));
	echo(got);
	CALL(close(got));
}

static void flood(void)
{
	int pair[2], fd = oracle_accept();
	static char bytes[FLOOD_BYTES], want[FLOOD_BYTES];
	size_t first = FLOOD_BYTES / 3;

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	fill(want, sizeof(want), 9);
	CALL(get_all(fd, bytes, first));
	pass(pair[0], fd);
	CALL(close(fd));
	fd = take(pair[1]);
	CALL(get_all(fd, bytes + first, sizeof(bytes) - first));
	say("whole: %d", !memcmp(bytes, want, sizeof(want)));
	put_all(fd, "over", 4);
	CALL(close(fd));
}

static void server(void)
{
	const char *how = oracle_arg(1, "other");
	int pair[2], status = -1;

	if (!strcmp(how, "self") || !strcmp(how, "flood")) {
		strcmp(how, "self") ? flood() : to_ourselves();
		return;
	}
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid_t heir = fork();

	if (!heir) {
		oracle_slot(2);
		close(pair[0]);
		int got = take(pair[1]);

		for (int i = 0; i < (strcmp(how, "keep") ? 3 : 2); i++)
			echo(got);
		exit(0);
	}
	close(pair[1]);
	int fd = oracle_accept();

	echo(fd);
	pass(pair[0], fd);
	if (strcmp(how, "keep"))
		CALL(close(fd));
	waitpid(heir, &status, 0);
	say("heir %d", status);
	if (!strcmp(how, "keep"))
		echo(fd);
}

static void client(void)
{
	static char bytes[FLOOD_BYTES];
	int fd = oracle_connect();

	if (!strcmp(oracle_arg(1, "other"), "flood")) {
		fill(bytes, sizeof(bytes), 9);
		for (size_t at = 0; at < sizeof(bytes); at += 64)
			put_all(fd, bytes + at, 64);
		CALL(get_all(fd, buf, 4));
		CALL(recv(fd, buf, 1, 0));
		return;
	}
	for (int i = 0; i < 4; i++) {
		CALL(send(fd, "word", 4, 0));
		CALL(get_all(fd, buf, 4));
		say("%.4s", buf);
	}
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

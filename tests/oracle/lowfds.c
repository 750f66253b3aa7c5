/* SPDX-License-Identifier: MIT */
/*
 * A program that owns low numbers (B47) and looks at what an exec leaves open (B29): it puts its
 * connection on chosen numbers, closes all above, and lists the descriptors of a child.
 */
#include "oracle.h"

static char buf[64];

/* What came through the exec isn't close-on-exec; what the program opened itself is. */
static void list_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 20000; fd++)
		n += fcntl(fd, F_GETFD) == 0;
	say("open after exec: %d", n);
}

static void echo(int fd)
{
	CALL(get_all(fd, buf, 4));
	put_all(fd, buf, 4);
}

static void server(void)
{
	int first = oracle_accept(), status = -1;

	for (int fd = 10; fd < 64; fd++)
		MUST(dup2(first, fd));
	echo(63);
	for (int fd = 3; fd < 63; fd++)
		if (fd != 20)
			close(fd);
	echo(20);
	say("next: %d", dup(20));
	close(3);
	MUST(fcntl(20, F_SETFD, FD_CLOEXEC));
	close(63);
	pid_t child = fork();

	if (!child) {
		execl("/proc/self/exe", "lowfds", "--list", NULL);
		_exit(9);
	}
	waitpid(child, &status, 0);
	say("child %d", status);
	echo(20);
	/* A sweep, as Python and sshd do; the control channel stays. */
	for (int fd = 3; fd < 200; fd++)
		if (fd != 20)
			close(fd);
	closefrom(220);
	echo(20);
	say("next: %d", dup(20));
}

static void client(void)
{
	int fd = oracle_connect();

	for (int i = 0; i < 4; i++) {
		CALL(send(fd, "word", 4, 0));
		CALL(get_all(fd, buf, 4));
	}
	CALL(recv(fd, buf, 1, 0));
}

int main(int argc, char **argv)
{
	oracle_args(argc, argv);
	if (!strcmp(oracle_arg(1, ""), "--list")) {
		oracle_adopt(2);
		list_fds();
		return 0;
	}
	return oracle_run(PROOF_DEFAULT, server, client);
}

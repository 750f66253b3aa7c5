/* SPDX-License-Identifier: MIT */
/*
 * exec() with an inherited connection: in the owner itself, or in a forked child (arg 1: self,
 * child, foreign), or in a vfork child that duplicates it or lets it through (vfork, passed). The
 * new program echoes; "foreign" is one that knows nothing of us (cat). "threads" is the owner
 * itself, while another thread sleeps in a read.
 */
#include <pthread.h>

#include "oracle.h"

static char buf[64];

static void echo(int fd)
{
	for (;;) {
		ssize_t n = CALL(recv(fd, buf, 4, MSG_WAITALL));

		if (n <= 0)
			break;
		put_all(fd, buf, (size_t)n);
	}
	say("echo ends");
}

static void become_echo(int fd, int foreign, const char *slot)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", fd);
	if (foreign) {
		dup2(fd, 0);
		dup2(fd, 1);
		close(fd);
		execl("/bin/cat", "cat", NULL);
	}
	execl("/proc/self/exe", "execs", "--echo", number, slot, NULL);
	oracle_die("exec", errno);
}

/* What Python's subprocess does with a connection for its child. */
static void by_vfork(int fd, int passed)
{
	char number[16];
	int status = -1;
	pid_t child;

	MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
	snprintf(number, sizeof(number), "%d", fd);
	child = vfork();
	if (!child) {
		if (passed && fcntl(fd, F_SETFD, 0) == 0)
			execl("/proc/self/exe", "execs", "--echo", number, "2", NULL);
		if (dup2(fd, 0) == 0 && dup2(fd, 1) == 1)
			execl("/bin/cat", "cat", NULL);
		_exit(9);
	}
	CALL(fcntl(fd, F_GETFD));
	CALL(close(fd));
	waitpid(child, &status, 0);
	say("child %d", status);
}

static void *sleeps(void *arg)
{
	get_all(*(int *)arg, buf, 4);
	return NULL;
}

static void beside_threads(int fd)
{
	static int pair[2];
	pthread_t thread;

	oracle_self_pair(pair);
	pthread_create(&thread, NULL, sleeps, &pair[1]);
	become_echo(fd, 0, "0");
}

static void server(void)
{
	const char *how = oracle_arg(1, "self");
	int fd = oracle_accept(), status = -1;

	if (!strcmp(how, "failed"))
		CALL(execl("/no/such/program", "no", NULL));
	CALL(get_all(fd, buf, 4));
	put_all(fd, buf, 4);
	if (!strcmp(how, "self") || !strcmp(how, "failed"))
		become_echo(fd, 0, "0");
	if (!strcmp(how, "vfork") || !strcmp(how, "passed")) {
		by_vfork(fd, !strcmp(how, "passed"));
		return;
	}
	if (!strcmp(how, "threads"))
		beside_threads(fd);
	pid_t child = fork();

	if (!child)
		become_echo(fd, !strcmp(how, "foreign"), "2");
	CALL(close(fd));
	waitpid(child, &status, 0);
	say("child %d", status);
}

static void client(void)
{
	int fd = oracle_connect();

	for (int i = 0; i < 5; i++) {
		CALL(send(fd, "word", 4, 0));
		CALL(get_all(fd, buf, 4));
		say("%.4s", buf);
	}
	CALL(shutdown(fd, SHUT_WR));
	CALL(recv(fd, buf, 1, 0));
}

int main(int argc, char **argv)
{
	oracle_args(argc, argv);
	if (!strcmp(oracle_arg(1, ""), "--echo")) {
		oracle_adopt(atoi(oracle_arg(3, "0")));
		echo(atoi(oracle_arg(2, "0")));
		return 0;
	}
	return oracle_run(PROOF_DEFAULT, server, client);
}

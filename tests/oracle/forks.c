/* SPDX-License-Identifier: MIT */
/*
 * fork() with a moved connection (arg 1): the child does nothing; uses it while the parent waits;
 * takes it over from a parent that closes its copy, or exits; both use it in turn.
 */
#include "oracle.h"

static char buf[64];

static void idle_child(int fd)
{
	int gate[2];

	MUST(pipe(gate));
	pid_t child = fork();

	if (!child) {
		close(gate[1]);
		_exit((int)read(gate[0], buf, 1));
	}
	close(gate[0]);
	for (int i = 0; i < 3; i++)
		oracle_echo("parent", fd);
	close(gate[1]);
	oracle_wait(child);
	oracle_echo("parent", fd);
}

static void using_child(int fd)
{
	pid_t child = fork();

	if (!child) {
		oracle_slot(2);
		oracle_echo("child", fd);
		oracle_echo("child", fd);
		exit(0);
	}
	oracle_wait(child);
	oracle_echo("parent", fd);
	oracle_echo("parent", fd);
}

static void heir(int fd, int parent_exits)
{
	pid_t child = fork();

	if (!child) {
		oracle_slot(2);
		for (int i = 0; i < 4; i++)
			oracle_echo("child", fd);
		CALL(close(fd));
		exit(0);
	}
	CALL(close(fd));
	if (!parent_exits)
		oracle_wait(child);
}

static void server(void)
{
	const char *how = oracle_arg(1, "idle");
	int fd = oracle_accept();

	if (!strcmp(how, "idle"))
		idle_child(fd);
	else if (!strcmp(how, "use"))
		using_child(fd);
	else
		heir(fd, !strcmp(how, "exit"));
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
	CALL(close(fd));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

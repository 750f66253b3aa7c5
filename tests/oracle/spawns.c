/* SPDX-License-Identifier: MIT */
/*
 * Other programs started while a connection has moved: vfork and exec, posix_spawn, system,
 * popen. The connection stays as it is; children see only what isn't close-on-exec.
 */
#include <spawn.h>

#include "oracle.h"

extern char **environ;
static char buf[64];

static void echo(int fd)
{
	CALL(get_all(fd, buf, 4));
	put_all(fd, buf, 4);
}

static void by_vfork(int close_in_child, int fd)
{
	int status = -1;
	pid_t child = vfork();

	if (!child) {
		if (close_in_child)
			close(fd);
		execl("/bin/true", "true", NULL);
		_exit(9);
	}
	waitpid(child, &status, 0);
	say("vfork child %d", status);
}

static void by_spawn(void)
{
	char *argv[] = {"true", NULL};
	int status = -1;
	pid_t child;

	CALL(posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ));
	waitpid(child, &status, 0);
	say("spawned %d", status);
	CALL(posix_spawnp(&child, "no-such-program", NULL, NULL, argv, environ));
}

/* The connection as a child's standard output. */
static void to_child(int fd)
{
	char *argv[] = {"sh", "-c", "printf spawned", NULL};
	posix_spawn_file_actions_t a;
	int status = -1;
	pid_t child;

	posix_spawn_file_actions_init(&a);
	posix_spawn_file_actions_adddup2(&a, fd, 1);
	CALL(posix_spawn(&child, "/bin/sh", &a, NULL, argv, environ));
	posix_spawn_file_actions_destroy(&a);
	waitpid(child, &status, 0);
	say("child %d", status);
}

static void server(void)
{
	int fd = oracle_accept();

	MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
	by_vfork(0, fd);
	echo(fd);
	by_vfork(1, fd);
	echo(fd);
	by_spawn();
	echo(fd);
	CALL(system("exit 3"));
	echo(fd);
	FILE *f = popen("printf popened", "r");

	CALL(f && fgets(buf, sizeof(buf), f));
	say("%s", buf);
	CALL(pclose(f));
	echo(fd);
	to_child(fd);
	echo(fd);
}

static void client(void)
{
	int fd = oracle_connect();

	for (int i = 0; i < 5; i++) {
		CALL(send(fd, "word", 4, 0));
		CALL(get_all(fd, buf, 4));
	}
	CALL(get_all(fd, buf, 7));
	say("%.7s", buf);
	CALL(send(fd, "word", 4, 0));
	CALL(get_all(fd, buf, 4));
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

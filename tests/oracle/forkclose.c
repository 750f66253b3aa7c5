/* SPDX-License-Identifier: MIT */
/*
 * A process that has forked closes its connections while the peer stands still: close() doesn't
 * wait for it, and the peer finds clean ends when it goes on. (Its processes say nothing while
 * stopped.)
 */
#include "oracle.h"

enum { STREAMS = 8 };

static void server(void)
{
	int fd[STREAMS], gate[2], status = 0;
	char c;

	for (int i = 0; i < STREAMS; i++)
		fd[i] = oracle_accept();
	pid_t peer = (pid_t)hear_num();

	MUST(pipe(gate));
	pid_t child = fork();

	if (!child) { /* holds them, and leaves them alone */
		close(gate[1]);
		for (int i = 0; i < STREAMS; i++)
			close(fd[i]);
		_exit((int)read(gate[0], &c, 1));
	}
	for (int i = 0; i < STREAMS; i++)
		put_all(fd[i], "last words", 10);
	MUST(kill(peer, SIGSTOP));
	for (int i = 0; i < STREAMS; i++)
		CALL(close(fd[i]));
	MUST(kill(peer, SIGCONT));
	tell('c');
	hear('d');
	close(gate[1]);
	CALL(waitpid(child, &status, 0) == child);
}

static void client(void)
{
	static char buf[100];
	int fd[STREAMS];

	for (int i = 0; i < STREAMS; i++)
		fd[i] = oracle_connect();
	tell_num(getpid());
	hear('c');
	for (int i = 0; i < STREAMS; i++) {
		CALL(get_all(fd[i], buf, 10));
		CALL(recv(fd[i], buf, sizeof(buf), 0));
		CALL(close(fd[i]));
	}
	tell('d');
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

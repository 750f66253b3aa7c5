/* SPDX-License-Identifier: MIT */
/* Descriptor and status flags by fcntl and ioctl; largefile.c is the same with fcntl64. */
#include "oracle.h"

static char buf[16];

static void look(const char *when, int fd)
{
	int status = fcntl(fd, F_GETFL), own = fcntl(fd, F_GETFD);

	say("%s: F_GETFL %o F_GETFD %o", when, status, own);
	/* Whether reads block is what the flag is for. */
	if (status & O_NONBLOCK)
		CALL(recv(fd, buf, 1, 0));
}

static void server(void)
{
	int fd = oracle_accept(), on = 1, off = 0;

	look("accepted", fd);
	CALL(fcntl(fd, F_SETFL, O_NONBLOCK));
	look("O_NONBLOCK", fd);
	CALL(fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND | O_WRONLY));
	look("O_APPEND", fd);
	CALL(ioctl(fd, FIONBIO, &off));
	look("FIONBIO 0", fd);
	CALL(ioctl(fd, FIONBIO, &on));
	look("FIONBIO 1", fd);
	CALL(fcntl(fd, F_SETFL, 0));
	look("none", fd);
	CALL(fcntl(fd, F_SETFD, FD_CLOEXEC));
	look("FD_CLOEXEC", fd);
	CALL(ioctl(fd, FIONCLEX));
	look("FIONCLEX", fd);
	CALL(ioctl(fd, FIOCLEX));
	look("FIOCLEX", fd);
	CALL(fcntl(fd, F_SETOWN, getpid()));
	say("owner is us: %d", fcntl(fd, F_GETOWN) == getpid());
	CALL(fcntl(fd, F_GETSIG));
	CALL(fcntl(fd, 9999));
	CALL(fcntl(fd, F_SETFL, O_ASYNC));
	CALL(fcntl(fd, F_SETFL, 0));
	tell('a');
	CALL(recv(fd, buf, 1, 0));
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 300);

	say("copy %d", copy);
	look("copy", copy);
	CALL(fcntl(copy, F_SETFL, O_NONBLOCK));
	look("shared by the original", fd);
	CALL(fcntl(copy, F_DUPFD, -1));
	CALL(fcntl(copy, F_DUPFD, 1 << 30));
}

static void client(void)
{
	int fd = oracle_connect();

	signal(SIGIO, SIG_IGN);
	look("connected", fd);
	hear('a');
	CALL(send(fd, "x", 1, 0));
	CALL(recv(fd, buf, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/*
 * What goes on behind a close (arg 1). With the kernel nothing of the process is left of it; with
 * the library a descriptor may stay for a while, but must go when the two ends are done:
 *   unread  the peer closes without having read what we left
 *   early   ... and before it has read up to where the plane begins
 *   killed  the peer is killed without having read it
 *   late    the peer goes on writing to us who have closed
 *   stolen  the number that is left is taken by somebody else meanwhile
 *   raw     the close goes past the library, and the peer's writes end all the same
 */
#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "oracle.h"

enum { WAIT_LOOKS = 5000, PIECES = 40 };

static char buf[100000];

static int is(const char *how)
{
	return !strcmp(oracle_arg(1, "unread"), how);
}

/* A descriptor of a TCP connection that this process holds, or -1. */
static int tcp_left(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	int found = -1;

	while (d && (e = readdir(d))) {
		int fd = atoi(e->d_name), proto = 0;
		socklen_t n = sizeof(proto);

		if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &proto, &n) == 0 &&
		    proto == IPPROTO_TCP)
			found = fd;
	}
	if (d)
		closedir(d);
	return found;
}

static void await_none_left(void)
{
	for (int i = 0; i < WAIT_LOOKS && tcp_left() >= 0; i++)
		poll(NULL, 0, 1);
	say("%s", tcp_left() < 0 ? "nothing is left" : "a descriptor is left");
}

/* Cold: the plane begins while bytes are unread. */
static int accept_early(void)
{
	int listener = oracle_listener(AF_INET);

	tell_num(oracle_port(listener));
	int fd = (int)MUST(accept(listener, NULL, NULL));

	close(listener);
	put_all(fd, "hello", 5);
	return fd;
}

static int connect_early(void)
{
	int fd = oracle_dial((int)hear_num());

	get_all(fd, buf, 5);
	for (int i = 0; i < PIECES; i++) {
		put_all(fd, buf, 100);
		poll(NULL, 0, 2);
	}
	return fd;
}

static void server(void)
{
	int fd = is("early") ? accept_early() : oracle_accept();

	if (is("late")) {
		signal(SIGPIPE, SIG_IGN);
		hear('c');
		await_event(fd, POLLRDHUP);
		put_all(fd, "x", 1);
		await_event(fd, POLLHUP);
		CALL(send(fd, "x", 1, MSG_NOSIGNAL));
		CALL(close(fd));
		tell('d');
		hear('z');
		return;
	}
	if (is("raw")) {
		put_all(fd, buf, 1000);
		hear('c');
		while (send(fd, buf, sizeof(buf), MSG_NOSIGNAL) > 0)
			;
		say("writing ends with %s",
		    errno == EPIPE || errno == ECONNRESET ? "an error" : "none");
		CALL(close(fd));
		return;
	}
	hear('c');
	if (is("killed"))
		raise(SIGKILL);
	if (is("stolen"))
		CALL(get_all(fd, buf, 1000));
	else
		await_readable(fd, 1);
	CALL(close(fd));
	tell('d');
	await_none_left();
	hear('z');
}

static void steal(int at)
{
	struct stat mine, now;
	int ends[2];

	MUST(pipe(ends));
	MUST(fstat(ends[0], &mine));
	/* Below the library's doors. */
	if (at >= 0)
		MUST(syscall(SYS_dup3, ends[0], at, O_CLOEXEC));
	tell('c');
	hear('d');
	for (int i = 0; i < 100; i++)
		poll(NULL, 0, 1);
	say("%s", at < 0 || (fstat(at, &now) == 0 && now.st_ino == mine.st_ino) ? "it's still ours"
										: "it was closed");
}

static void client(void)
{
	int fd = is("early") ? connect_early() : oracle_connect();

	if (is("late")) {
		CALL(close(fd));
		tell('c');
		hear('d');
		await_none_left();
		tell('z');
		return;
	}
	if (is("raw")) {
		get_all(fd, buf, 1000);
		tell('c');
		await_readable(fd, 1000);
		MUST(syscall(SYS_close, fd));
		say("%s", socket(AF_UNIX, SOCK_STREAM, 0) == fd ? "re-used" : "another number");
		await_none_left();
		return;
	}
	put_all(fd, buf, 1000);
	CALL(close(fd));
	if (is("stolen")) {
		steal(tcp_left());
	} else if (is("killed")) {
		tell('c');
		hear_gone();
		await_none_left();
		return;
	} else {
		tell('c');
		hear('d');
		await_none_left();
	}
	tell('z');
}

ORACLE_MAIN(is("early") ? PROOF_NONE : PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* Whose is the other end of a TCP connection: by sock_diag and by /proc, which must agree. */
#include "check.h"

#include "base/real.h"
#include "link/pairing.h"
#include "link/shm/shm.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

static struct xs_wire_addr name_of(int fd, bool peer)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct xs_wire_addr w;

	if (peer)
		xs_real.getpeername(fd, (struct sockaddr *)&ss, &len);
	else
		xs_real.getsockname(fd, (struct sockaddr *)&ss, &len);
	xs_pair_addr(&ss, &w);
	return w;
}

/* What both ways say; they must agree. */
static enum xs_shm_owner ask(const struct xs_wire_addr *theirs, const struct xs_wire_addr *ours,
			     uid_t *uid)
{
	uid_t other = (uid_t)-2;
	enum xs_shm_owner by_proc = xs_shm_owner_proc(theirs, ours, &other);
	enum xs_shm_owner got = xs_shm_owner(theirs, ours, uid);

	CHECK_EQ(got, by_proc);
	if (got == XS_OWNER_FOUND)
		CHECK_EQ(*uid, other);
	return got;
}

static int listener(int family, const char *ip, struct sockaddr_storage *at, socklen_t *len)
{
	int fd = xs_real.socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(at, 0, sizeof(*at));
	at->ss_family = (sa_family_t)family;
	if (family == AF_INET)
		inet_pton(family, ip, &((struct sockaddr_in *)at)->sin_addr);
	else
		inet_pton(family, ip, &((struct sockaddr_in6 *)at)->sin6_addr);
	*len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	if (xs_real.bind(fd, (struct sockaddr *)at, *len) < 0 || xs_real.listen(fd, 8) < 0) {
		close(fd);
		return -1;
	}
	xs_real.getsockname(fd, (struct sockaddr *)at, len);
	return fd;
}

/* One connection to a listener at ip; `to`: where its client connects. */
static void test_pair(int family, const char *ip)
{
	struct sockaddr_storage at;
	struct xs_wire_addr server, client, forged;
	socklen_t len;
	int lfd = listener(family, ip, &at, &len), c, s;
	uid_t uid = (uid_t)-2;

	if (lfd < 0)
		return; /* no IPv6 here */
	c = xs_real.socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(xs_real.connect(c, (struct sockaddr *)&at, len), 0);
	client = name_of(c, false);
	server = name_of(c, true);
	CHECK_EQ(ask(&server, &client, &uid), XS_OWNER_LATER);
	CHECK_EQ(ask(&client, &server, &uid), XS_OWNER_FOUND);
	CHECK_EQ(uid, getuid());
	s = xs_real.accept(lfd, NULL, NULL);
	uid = (uid_t)-2;
	CHECK_EQ(ask(&server, &client, &uid), XS_OWNER_FOUND);
	CHECK_EQ(uid, getuid());
	/* A listener isn't a connection, nor is another port or address. */
	forged = client;
	forged.port ^= 1;
	CHECK_EQ(ask(&server, &forged, &uid), XS_OWNER_ABSENT);
	CHECK_EQ(ask(&forged, &server, &uid), XS_OWNER_ABSENT);
	forged = client;
	forged.ip[15] ^= 4;
	CHECK_EQ(ask(&forged, &server, &uid), XS_OWNER_ABSENT);
	xs_real.close(c);
	xs_real.close(s);
	CHECK_EQ(ask(&client, &server, &uid), XS_OWNER_ABSENT); /* its TIME_WAIT */
	xs_real.close(lfd);
}

/* A socket is the one's who made it, whoever holds it now. */
static void test_other_user(void)
{
	struct sockaddr_storage at;
	socklen_t len;
	int lfd = listener(AF_INET, "127.0.0.1", &at, &len), s, go[2];
	struct xs_wire_addr server, client;
	uid_t uid = (uid_t)-2;
	pid_t child;
	char byte;

	if (getuid() != 0) {
		xs_real.close(lfd);
		return;
	}
	CHECK_EQ(pipe(go), 0);
	child = fork();
	if (child == 0) {
		int c;

		if (setuid(12345) < 0)
			_exit(1);
		c = xs_real.socket(AF_INET, SOCK_STREAM, 0);
		close(go[1]);
		if (xs_real.connect(c, (struct sockaddr *)&at, len) < 0 || read(go[0], &byte, 1))
			_exit(1);
		_exit(0);
	}
	s = xs_real.accept(lfd, NULL, NULL);
	client = name_of(s, true);
	server = name_of(s, false);
	CHECK_EQ(ask(&client, &server, &uid), XS_OWNER_FOUND);
	CHECK_EQ(uid, 12345);
	close(go[0]);
	close(go[1]);
	waitpid(child, NULL, 0);
	xs_real.close(s);
	xs_real.close(lfd);
}

int main(void)
{
	alarm(60);
	xs_real_init();
	test_pair(AF_INET, "127.0.0.1");
	test_pair(AF_INET, "0.0.0.0");
	test_pair(AF_INET6, "::1");
	test_other_user();
	return check_done();
}

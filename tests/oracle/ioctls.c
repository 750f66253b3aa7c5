/* SPDX-License-Identifier: MIT */
/* FIONREAD, SIOCOUTQ, SIOCATMARK, FIONBIO, SO_ERROR, names of both ends. */
#include <linux/sockios.h>

#include "oracle.h"

static char buf[4096];

static int ask(int fd, unsigned long request)
{
	int n = -7;

	return ioctl(fd, request, &n) < 0 ? -errno : n;
}

static void look(const char *when, int fd)
{
	int err = -1;
	socklen_t n = sizeof(err);

	say("%s: FIONREAD %d SIOCINQ %d SIOCATMARK %d", when, ask(fd, FIONREAD), ask(fd, SIOCINQ),
	    ask(fd, SIOCATMARK));
	CALL(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n));
	say("%s: error %d", when, err);
}

static void server(void)
{
	int fd = oracle_accept(), on = 1;

	look("idle", fd);
	tell('a');
	await_readable(fd, 3000);
	look("3000", fd);
	CALL(recv(fd, buf, 1000, 0));
	look("2000 left", fd);
	CALL(recv(fd, buf, 1000, MSG_PEEK));
	look("peeked", fd);
	CALL(recv(fd, buf, 4096, 0));
	look("none", fd);
	tell('b');
	await_event(fd, POLLRDHUP);
	look("peer's end", fd);
	CALL(ioctl(fd, FIONBIO, &on));
	CALL(recv(fd, buf, 1, 0));
	CALL(ioctl(fd, 0x5afe, &on));
	struct sockaddr_in me, peer;
	socklen_t n = sizeof(me), m = sizeof(peer);

	CALL(getsockname(fd, (struct sockaddr *)&me, &n));
	CALL(getpeername(fd, (struct sockaddr *)&peer, &m));
	say("%d %d %u %u", me.sin_family, peer.sin_family, n, m);
	tell_num(ntohs(me.sin_port));
	tell_num(ntohs(peer.sin_port));
	hear('z');
}

static void client(void)
{
	int fd = oracle_connect();

	await_outq_empty(fd);
	say("SIOCOUTQ %d SIOCOUTQNSD %d", ask(fd, SIOCOUTQ), ask(fd, SIOCOUTQNSD));
	hear('a');
	CALL(send(fd, buf, 3000, 0));
	/* Acknowledged by the other kernel though nobody has read it. */
	await_outq_empty(fd);
	hear('b');
	await_outq_empty(fd);
	say("SIOCOUTQ %d SIOCOUTQNSD %d", ask(fd, SIOCOUTQ), ask(fd, SIOCOUTQNSD));
	CALL(shutdown(fd, SHUT_WR));
	struct sockaddr_in me, peer;
	socklen_t n = sizeof(me);

	MUST(getsockname(fd, (struct sockaddr *)&me, &n));
	MUST(getpeername(fd, (struct sockaddr *)&peer, &n));
	say("peer's port is ours: %d", hear_num() == ntohs(peer.sin_port));
	say("our port is the peer's: %d", hear_num() == ntohs(me.sin_port));
	tell('z');
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

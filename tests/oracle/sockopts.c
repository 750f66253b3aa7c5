/* SPDX-License-Identifier: MIT */
/* Options set and read back on a connection that has moved; refused ones; odd lengths. */
#include <sys/time.h>

#include "oracle.h"

struct option {
	int level, name, value;
	const char *text;
};

static const struct option options[] = {
	{SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"},
	{SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"},
	{SOL_SOCKET, SO_RCVLOWAT, 1, "SO_RCVLOWAT"},
	{SOL_SOCKET, SO_OOBINLINE, 1, "SO_OOBINLINE"},
	{SOL_SOCKET, SO_PRIORITY, 3, "SO_PRIORITY"},
	{SOL_SOCKET, SO_DONTROUTE, 0, "SO_DONTROUTE"},
	{SOL_SOCKET, SO_RCVBUF, 100000, "SO_RCVBUF"},
	{SOL_SOCKET, SO_SNDBUF, 100000, "SO_SNDBUF"},
	{IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"},
	{IPPROTO_TCP, TCP_CORK, 0, "TCP_CORK"},
	{IPPROTO_TCP, TCP_KEEPIDLE, 77, "TCP_KEEPIDLE"},
	{IPPROTO_TCP, TCP_KEEPINTVL, 7, "TCP_KEEPINTVL"},
	{IPPROTO_TCP, TCP_KEEPCNT, 5, "TCP_KEEPCNT"},
	{IPPROTO_TCP, TCP_USER_TIMEOUT, 20000, "TCP_USER_TIMEOUT"},
	{IPPROTO_TCP, TCP_LINGER2, 9, "TCP_LINGER2"},
	{IPPROTO_TCP, TCP_QUICKACK, 1, "TCP_QUICKACK"},
	{IPPROTO_IP, IP_TOS, 16, "IP_TOS"},
	{IPPROTO_IP, IP_TTL, 60, "IP_TTL"},
	{IPPROTO_TCP, 9999, 1, "unknown"},
	{SOL_SOCKET, 9999, 1, "unknown"},
	{9999, 1, 1, "unknown level"},
};

/* Before they're set, these depend on what has come and gone so far. */
static int by_traffic(const struct option *o)
{
	if (o->level == IPPROTO_TCP)
		return o->name == TCP_QUICKACK;
	return o->level == SOL_SOCKET && (o->name == SO_RCVBUF || o->name == SO_SNDBUF);
}

static void round_trip(int fd, const struct option *o)
{
	int value = -1, wrote = o->value;
	socklen_t n = sizeof(value);

	say("%s", o->text);
	CALL(getsockopt(fd, o->level, o->name, &value, &n));
	if (!by_traffic(o))
		say("%d (%u)", value, n);
	CALL(setsockopt(fd, o->level, o->name, &wrote, sizeof(wrote)));
	CALL(getsockopt(fd, o->level, o->name, &value, &n));
	say("%d (%u)", value, n);
}

static void fixed(int fd)
{
	static const struct option facts[] = {
		{SOL_SOCKET, SO_TYPE, 0, "SO_TYPE"},
		{SOL_SOCKET, SO_DOMAIN, 0, "SO_DOMAIN"},
		{SOL_SOCKET, SO_PROTOCOL, 0, "SO_PROTOCOL"},
		{SOL_SOCKET, SO_ACCEPTCONN, 0, "SO_ACCEPTCONN"},
	};

	for (unsigned i = 0; i < sizeof(facts) / sizeof(*facts); i++) {
		int value = -1;
		socklen_t n = sizeof(value);

		CALL(getsockopt(fd, facts[i].level, facts[i].name, &value, &n));
		say("%s %d", facts[i].text, value);
		CALL(setsockopt(fd, facts[i].level, facts[i].name, &value, sizeof(value)));
	}
}

static void odd(int fd)
{
	int value = 1;
	socklen_t n = 1;
	struct tcp_info info;
	char name[16];

	CALL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &n));
	say("length %u", n);
	n = (socklen_t)-1;
	CALL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &n));
	CALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, 1));
	CALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, NULL, 4));
	CALL(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, NULL));
	n = 4;
	memset(&info, 0, sizeof(info));
	CALL(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n));
	say("state %d, length %u", info.tcpi_state, n);
	n = sizeof(name);
	CALL(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &n));
	say("%.16s %u", name, n);
	struct linger l = {1, 5};

	CALL(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	l.l_linger = 0;
	n = sizeof(l);
	CALL(getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &n));
	say("linger %d %d", l.l_onoff, l.l_linger);
}

static void server(void)
{
	char c;
	int fd = oracle_accept();

	fixed(fd);
	for (unsigned i = 0; i < sizeof(options) / sizeof(*options); i++)
		round_trip(fd, &options[i]);
	odd(fd);
	CALL(send(fd, "x", 1, 0));
	CALL(recv(fd, &c, 1, 0));
}

static void client(void)
{
	char c;
	int fd = oracle_connect();

	CALL(recv(fd, &c, 1, 0));
	CALL(send(fd, "y", 1, 0));
	CALL(recv(fd, &c, 1, 0));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

/* SPDX-License-Identifier: MIT */
/* IPv6, an IPv4 client of a dual-stack listener, a mapped client of an IPv4 one (arg 1). */
#include "oracle.h"

static char buf[1000];

static void say_name(const char *what, const struct sockaddr_in6 *a, socklen_t n)
{
	say("%s: family %d length %u mapped %d", what, a->sin6_family, n,
	    a->sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a->sin6_addr));
}

static void names(int fd)
{
	struct sockaddr_in6 a;
	socklen_t n = sizeof(a);

	memset(&a, 0, sizeof(a));
	CALL(getsockname(fd, (struct sockaddr *)&a, &n));
	say_name("own", &a, n);
	n = sizeof(a);
	memset(&a, 0, sizeof(a));
	CALL(getpeername(fd, (struct sockaddr *)&a, &n));
	say_name("peer", &a, n);
}

static void server(void)
{
	const char *how = oracle_arg(1, "six");
	int listener = oracle_listener(strcmp(how, "mapped") ? AF_INET6 : AF_INET);
	struct sockaddr_in6 a;
	socklen_t n = sizeof(a);

	tell_num(oracle_port(listener));
	memset(&a, 0, sizeof(a));
	int fd = (int)MUST(accept(listener, (struct sockaddr *)&a, &n));

	say_name("accepted", &a, n);
	names(fd);
	warm_echo(fd);
	CALL(get_all(fd, buf, sizeof(buf)));
	put_all(fd, buf, sizeof(buf));
	CALL(recv(fd, buf, 1, 0));
}

static void client(void)
{
	const char *how = oracle_arg(1, "six");
	int port = (int)hear_num(), fd;
	char mapped[64], text[INET_ADDRSTRLEN];
	uint32_t address = oracle_address();

	snprintf(mapped, sizeof(mapped), "::ffff:%s",
		 inet_ntop(AF_INET, &address, text, sizeof(text)));
	if (!strcmp(how, "dual"))
		fd = oracle_dial(port);
	else
		fd = oracle_dial6(port, !strcmp(how, "six") ? "::1" : mapped);
	names(fd);
	warm_ping(fd);
	fill(buf, sizeof(buf), 1);
	CALL(send(fd, buf, sizeof(buf), 0));
	CALL(get_all(fd, buf, sizeof(buf)));
	say_bytes("back", buf, sizeof(buf));
}

int main(int argc, char **argv)
{
	oracle_args(argc, argv);
	/* An RDMA device's loopback needn't exist for IPv6. */
	return oracle_run(strcmp(oracle_arg(1, "six"), "six") ? PROOF_DEFAULT : PROOF_NONE, server,
			  client);
}

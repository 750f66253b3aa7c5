/* SPDX-License-Identifier: MIT */
/* connect(): refused, repeated, with odd addresses; calls on sockets that aren't connected. */
#include "oracle.h"

static char buf[16];

static void unconnected(void)
{
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0)), err = -1;
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
	struct sockaddr_in a;
	socklen_t n = sizeof(a);

	CALL(send(fd, "x", 1, MSG_NOSIGNAL));
	CALL(recv(fd, buf, 1, 0));
	CALL(shutdown(fd, SHUT_WR));
	CALL(getpeername(fd, (struct sockaddr *)&a, &n));
	CALL(poll(&p, 1, 0));
	say("%s", poll_names(p.revents));
	CALL(ioctl(fd, FIONREAD, &err));
	CALL(accept(fd, NULL, NULL));
	CALL(close(fd));
}

static int closed_port(void)
{
	int fd = oracle_listener(AF_INET), port = oracle_port(fd);

	close(fd);
	return port;
}

/* The same socket may try again; after a refusal that was reported late, at the second attempt. */
static void again(int fd)
{
	int listener = oracle_listener(AF_INET);
	struct sockaddr_in a = {.sin_family = AF_INET};

	a.sin_addr.s_addr = oracle_address();
	a.sin_port = htons((uint16_t)oracle_port(listener));
	for (int i = 0; i < 2; i++) {
		int result = connect(fd, (struct sockaddr *)&a, sizeof(a));

		say("again: %s",
		    result == 0 || errno == EINPROGRESS ? "on its way" : strerrorname_np(errno));
		if (result == 0 || errno == EINPROGRESS)
			break;
	}
	await_event(fd, POLLOUT);
	CALL(send(fd, "hello", 5, MSG_NOSIGNAL));
	int peer = (int)MUST(accept(listener, NULL, NULL));

	CALL(get_all(peer, buf, 5));
	CALL(connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? errno : 0);
	CALL(connect(fd, (struct sockaddr *)&a, 3));
	close(peer);
	close(fd);
	close(listener);
}

static void refused(int nonblocking)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM | (nonblocking ? SOCK_NONBLOCK : 0), 0));
	int err = -1;
	socklen_t n = sizeof(err);

	a.sin_addr.s_addr = oracle_address();
	a.sin_port = htons((uint16_t)closed_port());
	int result = connect(fd, (struct sockaddr *)&a, sizeof(a));

	say("refused: %d %s", result, strerrorname_np(errno));
	await_event(fd, POLLHUP);
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};

	CALL(poll(&p, 1, 0));
	say("%s", poll_names(p.revents));
	CALL(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n));
	say("error %s", err ? strerrorname_np(err) : "0");
	CALL(recv(fd, buf, 1, 0));
	CALL(send(fd, "x", 1, MSG_NOSIGNAL));
	again(fd);
}

static void odd_addresses(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

	CALL(connect(fd, NULL, 0));
	CALL(connect(fd, (struct sockaddr *)&a, 2));
	a.sin_family = 99;
	CALL(connect(fd, (struct sockaddr *)&a, sizeof(a)));
	CALL(connect(-1, (struct sockaddr *)&a, sizeof(a)));
	CALL(connect(0, (struct sockaddr *)&a, sizeof(a)) < 0);
	CALL(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
	CALL(socket(AF_INET, 99, 0));
	CALL(close(fd));
	int udp = (int)MUST(socket(AF_INET, SOCK_DGRAM, 0));

	CALL(recv(udp, buf, 1, MSG_DONTWAIT));
	CALL(close(udp));
	CALL(close(udp));
}

static void server(void)
{
	unconnected();
	refused(0);
	refused(1);
	odd_addresses();
}

ORACLE_MAIN(PROOF_NONE, server, NULL)

/* SPDX-License-Identifier: MIT */
/*
 * The smallest program with a connection: both ends in one thread, a few bytes each way. With
 * --memory it prints its resident KiB. Built by single tests, alone or with other text before it.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int echo(int from, int to)
{
	char buf[8];

	for (int i = 0; i < 100; i++) {
		if (send(from, "12345678", 8, 0) != 8 || recv(to, buf, 8, MSG_WAITALL) != 8 ||
		    memcmp(buf, "12345678", 8))
			return 1;
	}
	return 0;
}

static void print_memory(void)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");
	long kib;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			printf("%ld\n", kib);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t n = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0), peer;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&a, n) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&a, &n) ||
	    connect(fd, (struct sockaddr *)&a, n) || (peer = accept(listener, NULL, NULL)) < 0)
		return 2;
	if (echo(fd, peer) || echo(peer, fd))
		return 3;
	if (argc > 1 && !strcmp(argv[1], "--memory"))
		print_memory();
	close(fd);
	return read(peer, &a, 1) != 0;
}

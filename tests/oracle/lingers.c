/* SPDX-License-Identifier: MIT */
/*
 * close() with SO_LINGER and a time (arg 1): `little`, which the peer's kernel takes unread, keeps
 * it for no longer than that; `full` until the peer reads; `signal` until a handler runs. It
 * sleeps.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "oracle.h"

enum { LOOKS = 2500, ASLEEP = 10 };

static char buf[1 << 16];
static _Atomic pid_t closer;
static atomic_int closed;

static void on_signal(int sig)
{
	(void)sig;
}

static void server(void)
{
	int fd = oracle_accept();
	long want, got = 0;
	ssize_t n;

	tell('w');
	want = hear_num();
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		got += n;
	say("missing %ld, end %zd", want - got, n);
}

static void *close_it(void *fd)
{
	long r;

	closer = gettid();
	r = close(*(int *)fd);
	closed = 1;
	return (void *)r;
}

/* However loaded the machine is: who spins is never found asleep. */
static void say_sleeps(void)
{
	struct timespec breath = {0, 2000000};
	char path[64], text[512];
	int asleep = 0;

	while (!closer)
		nanosleep(&breath, NULL);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", closer);
	for (int i = 0; i < LOOKS && asleep < ASLEEP; i++) {
		FILE *f = fopen(path, "re");
		char *end = f && fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;

		asleep += end && end[2] == 'S';
		if (f)
			fclose(f);
		nanosleep(&breath, NULL);
	}
	say("closed already: %d", closed);
	say("%s", asleep == ASLEEP ? "sleeps" : "spins");
}

static void client(void)
{
	const char *how = oracle_arg(1, "little");
	struct sigaction a = {.sa_handler = on_signal};
	struct linger l = {1, 60};
	int fd = oracle_connect();
	long sent = 8000;
	pthread_t t;
	void *r;

	hear('w');
	sigaction(SIGUSR1, &a, NULL);
	MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	if (strcmp(how, "little"))
		sent = oracle_fill(fd);
	else
		CALL(send(fd, buf, 8000, 0));
	MUST(-pthread_create(&t, NULL, close_it, &fd));
	if (strcmp(how, "little"))
		say_sleeps();
	if (!strcmp(how, "signal"))
		MUST(-pthread_kill(t, SIGUSR1));
	if (!strcmp(how, "full"))
		tell_num(sent);
	pthread_join(t, &r);
	say("close %ld", (long)r);
	if (strcmp(how, "full"))
		tell_num(sent);
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

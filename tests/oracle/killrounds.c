/* SPDX-License-Identifier: MIT */
/*
 * Processes that write two streams and end at any moment: by exit, by close, by SIGKILL, some of
 * them after they were stopped for a while. What arrives is the beginning of what was written (by
 * SHA-256), and end-of-file comes only behind all that was accepted: from a killed process a reset
 * is right too. Every other round begins on the wanted plane, however slow the machine; the rest
 * may end at any moment of the way there. Args: rounds, seed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "oracle.h"

enum { STREAMS = 2, PIECE = 30000, WORD = 16, MOST_US = 80000 };
enum how { EXIT, EXIT_AT_ONCE, CLOSE, KILL, STOP_AND_KILL, STOP_AND_EXIT, HOWS };

static const char *const names[HOWS] = {"exit", "_exit",      "close",
					"kill", "stop, kill", "stop, exit"};

/* Shared by all. */
static struct {
	_Atomic uint64_t accepted[STREAMS]; /* as far as the writer knows */
	_Atomic int connected;
} * shared;

struct reading {
	int fd, slow, warm;
	pthread_t thread;
	uint64_t got;
	int err, false_bytes;
};

/* The bytes of a stream depend on its number and their offset alone. */
static void stream_bytes(unsigned char *to, int stream, uint64_t from, size_t n)
{
	if (!from)
		to[0] = (unsigned char)stream;
	for (size_t i = from ? 0 : 1; i < n; i++) {
		uint64_t at = from + i;

		to[i] = (unsigned char)((at * 2654435761u + (uint64_t)stream * 977) >> 11);
	}
}

static long rounds(void)
{
	return strtol(oracle_arg(1, "20"), NULL, 0);
}

static int is_warm(long round)
{
	return round % 2 == 0;
}

/* --- the one who reads ------------------------------------------------------------------------ */

static void pause_us(uint64_t us)
{
	struct timespec t = {0, (long)us * 1000};

	nanosleep(&t, NULL);
}

static void *reader(void *arg)
{
	static const char word[WORD];
	struct reading *r = arg;
	struct sha256 is, should;
	unsigned char buf[PIECE];
	char a[65], b[65];
	int stream = -1;
	ssize_t n;

	if (r->warm)
		warm_echo(r->fd);
	sha256_start(&is);
	sha256_start(&should);
	while ((n = recv(r->fd, buf, sizeof(buf), 0)) > 0) {
		if (stream < 0) { /* the first byte says which; an answer is due */
			stream = buf[0];
			send(r->fd, word, sizeof(word), MSG_NOSIGNAL);
		}
		sha256_add(&is, buf, (size_t)n);
		stream_bytes(buf, stream, r->got, (size_t)n);
		sha256_add(&should, buf, (size_t)n);
		r->got += (uint64_t)n;
		if (r->slow)
			pause_us(2000);
	}
	r->err = n ? errno : 0;
	sha256_hex(&is, a);
	sha256_hex(&should, b);
	r->false_bytes = strcmp(a, b) != 0;
	if (stream >= 0 && !r->err && r->got < shared->accepted[stream])
		r->err = -1;
	close(r->fd);
	return NULL;
}

static void judge(long round, const struct reading *r, enum how how)
{
	if (r->false_bytes)
		say("round %ld, %s: false bytes in %llu", round, names[how],
		    (unsigned long long)r->got);
	if (r->err < 0)
		say("round %ld, %s: end-of-file after %llu bytes, others were accepted", round,
		    names[how], (unsigned long long)r->got);
	if (r->err > 0 && (r->err != ECONNRESET || (how != KILL && how != STOP_AND_KILL)))
		say("round %ld, %s: %s after %llu bytes", round, names[how],
		    strerrorname_np(r->err), (unsigned long long)r->got);
}

static void server(void)
{
	int listener = oracle_listener(AF_INET);

	tell_num(oracle_port(listener));
	for (long i = 0; i < rounds(); i++) {
		struct reading r[STREAMS] = {0};
		long what = hear_num();
		enum how how = (enum how)(what % HOWS);

		for (int j = 0; j < STREAMS; j++) {
			r[j].fd = (int)MUST(accept(listener, NULL, NULL));
			r[j].slow = what >= HOWS;
			r[j].warm = is_warm(i);
			pthread_create(&r[j].thread, NULL, reader, &r[j]);
		}
		for (int j = 0; j < STREAMS; j++)
			pthread_join(r[j].thread, NULL);
		for (int j = 0; j < STREAMS; j++)
			judge(i, &r[j], how);
		tell('r');
	}
	say("done");
}

/* --- the one who ends --------------------------------------------------------------------------
 */

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void write_some(int fd, int stream, uint64_t *state)
{
	unsigned char buf[PIECE];
	size_t n = next_random(state) % (next_random(state) % 8 ? 3000 : PIECE) + 1;
	uint64_t at = shared->accepted[stream];
	ssize_t put;

	stream_bytes(buf, stream, at, n);
	put = send(fd, buf, n, MSG_NOSIGNAL);
	if (put > 0)
		shared->accepted[stream] += (uint64_t)put;
	else
		say("send: %s", strerrorname_np(errno));
	if (!at) /* nothing unread may turn the end into a reset */
		get_all(fd, buf, WORD);
}

static void child(int port, int warm, enum how how, uint64_t seed, uint64_t us)
{
	int fd[STREAMS];
	uint64_t until;

	for (int i = 0; i < STREAMS; i++)
		fd[i] = oracle_dial(port);
	for (int i = 0; i < STREAMS && warm; i++)
		warm_ping(fd[i]);
	shared->connected = 1;
	until = now_us() + us;
	do
		for (int i = 0; i < STREAMS; i++)
			write_some(fd[i], i, &seed);
	while (how == KILL || how == STOP_AND_KILL || now_us() < until);
	if (how == CLOSE)
		for (int i = 0; i < STREAMS; i++)
			close(fd[i]);
	if (how == EXIT_AT_ONCE)
		_exit(0);
	exit(0);
}

static void one_round(int port, int warm, enum how how, uint64_t *state)
{
	uint64_t us = next_random(state) % MOST_US, seed = next_random(state);
	pid_t pid;

	for (int i = 0; i < STREAMS; i++)
		shared->accepted[i] = 0;
	shared->connected = 0;
	tell_num(how + (next_random(state) % 3 ? 0 : HOWS));
	pid = fork();
	if (!pid)
		child(port, warm, how, seed, how == STOP_AND_EXIT ? us + 10000 : us);
	while (!shared->connected)
		pause_us(100);
	pause_us(us);
	if (how == STOP_AND_KILL || how == STOP_AND_EXIT) {
		kill(pid, SIGSTOP);
		pause_us(next_random(state) % 60000);
		kill(pid, how == STOP_AND_KILL ? SIGKILL : SIGCONT);
	} else if (how == KILL) {
		kill(pid, SIGKILL);
	}
	MUST(waitpid(pid, NULL, 0));
	hear('r');
}

static void client(void)
{
	uint64_t state = strtoull(oracle_arg(2, "1"), NULL, 0);
	int port = (int)hear_num();

	for (long i = 0; i < rounds(); i++)
		one_round(port, is_warm(i), (enum how)(next_random(&state) % HOWS), &state);
	say("done");
}

int main(int argc, char **argv)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	oracle_args(argc, argv);
	return oracle_run(PROOF_DEFAULT, server, client);
}

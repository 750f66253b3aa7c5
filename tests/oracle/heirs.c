/* SPDX-License-Identifier: MIT */
/*
 * Who inherits a moved connection by fork, and how its owner goes (arg 1):
 *   leave       the owner exits with the connection open
 *   exec        the owner becomes another program, its copy is close-on-exec
 *   grandchild  a child's child uses it while both its elders live
 *   orphaned    the same, but the child between has ended (a daemon's double fork)
 *   own         a child accepts a connection of its own, and its child uses that
 *   pending     two children want it while its peer is stopped
 *   reset       the peer has reset it, and the owner has closed it
 *   full        the owner has written more than the peer reads, and leaves
 *   killed      the owner is killed when the child has it already
 *   gone        the child has ended, and the peer is stopped while the owner closes
 *   flood       the owner closes in the middle of what the peer writes, again and again
 *   early       it is forked away while it moves, or before: after 0, 1, 2 ... echoes
 */
#include "oracle.h"

enum { FULL_BYTES = 4 << 20, FLOOD_BYTES = 256 << 10, ROUNDS = 5, EARLY = 30 };

static char buf[64];

/* A child that echoes twice, in a slot of its own. */
static pid_t echoing_child(int slot, int fd)
{
	pid_t child = fork();

	if (child)
		return child;
	oracle_slot(slot);
	oracle_echo("child", fd);
	oracle_echo("child", fd);
	_exit(0);
}

static void leave(int fd)
{
	if (echoing_child(2, fd))
		exit(0);
}

static void execs(int fd)
{
	int gate[2];

	MUST(pipe(gate));
	MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
	MUST(fcntl(gate[1], F_SETFD, FD_CLOEXEC));
	if (!fork()) {
		oracle_slot(2);
		close(gate[1]);
		CALL(read(gate[0], buf, 1)); /* the exec closes it */
		oracle_echo("child", fd);
		oracle_echo("child", fd);
		_exit(0);
	}
	execl("/bin/sh", "sh", "-c", "exit 0", NULL);
	oracle_die("exec", errno);
}

static void grandchild(int fd)
{
	pid_t child = fork();

	if (!child) {
		oracle_slot(2);
		oracle_wait(echoing_child(3, fd));
		oracle_echo("child", fd);
		_exit(0);
	}
	oracle_wait(child);
	oracle_echo("owner", fd);
}

static void orphaned(int fd)
{
	pid_t child = fork();

	if (!child) {
		if (!echoing_child(2, fd))
			return;
		_exit(0);
	}
	oracle_wait(child);
	hear('2');
	oracle_echo("owner", fd);
	oracle_echo("owner", fd);
}

static void own(int fd, int listener)
{
	pid_t child = fork();

	if (!child) {
		oracle_slot(2);
		int mine = (int)MUST(accept(listener, NULL, NULL));

		warm_echo(mine);
		oracle_wait(echoing_child(3, mine));
		oracle_echo("child", mine);
		CALL(close(mine));
		_exit(0);
	}
	oracle_wait(child);
	oracle_echo("owner", fd);
	oracle_echo("owner", fd);
}

static void pending(int fd)
{
	pid_t peer = (pid_t)hear_num(), first, second;
	int done[2];

	MUST(pipe(done));
	await_asleep(peer);
	MUST(kill(peer, SIGSTOP));
	first = fork();
	if (!first) {
		oracle_slot(2);
		oracle_echo("first", fd);
		CALL(write(done[1], "d", 1));
		_exit(0);
	}
	await_asleep(first);
	second = fork();
	if (!second) {
		oracle_slot(3);
		CALL(send(fd, "more", 4, 0));
		_exit(0);
	}
	await_asleep(second);
	MUST(kill(peer, SIGCONT));
	CALL(read(done[0], buf, 1));
	oracle_wait(first);
	oracle_wait(second);
}

static void reset(int fd)
{
	int gate[2];
	pid_t child;

	MUST(pipe(gate));
	child = fork();
	if (!child) {
		oracle_slot(2);
		close(gate[1]);
		CALL(read(gate[0], buf, 1));
		CALL(recv(fd, buf, 1, 0));
		CALL(recv(fd, buf, 1, 0));
		CALL(send(fd, buf, 1, MSG_NOSIGNAL));
		_exit(0);
	}
	tell('r');
	await_event(fd, POLLHUP);
	CALL(close(fd));
	close(gate[1]);
	oracle_wait(child);
}

static void full(int fd)
{
	static char bytes[FULL_BYTES];

	fill(bytes, sizeof(bytes), 3);
	set_nonblock(fd, 1);
	for (size_t done = 0; done < sizeof(bytes);) {
		ssize_t n = send(fd, bytes + done, sizeof(bytes) - done, MSG_NOSIGNAL);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	set_nonblock(fd, 0);
	if (!fork()) {
		oracle_slot(2);
		tell('f');
		CALL(get_all(fd, buf, 4));
		put_all(fd, buf, 4);
		_exit(0);
	}
	exit(0);
}

/* Nobody else has it any more: the owner's close needs no peer. */
static void gone(int fd)
{
	pid_t peer = (pid_t)hear_num(), child = fork();

	if (!child)
		_exit(0);
	oracle_wait(child);
	await_asleep(peer);
	MUST(kill(peer, SIGSTOP));
	CALL(send(fd, "last", 4, 0));
	CALL(close(fd));
	MUST(kill(peer, SIGCONT));
	hear('g');
}

static uint64_t sum_of(int fd, size_t n)
{
	uint64_t sum = 0;
	unsigned char b[64];

	for (size_t part; n && (part = get_all(fd, b, n < sizeof(b) ? n : sizeof(b))); n -= part)
		for (size_t i = 0; i < part; i++)
			sum = sum * 31 + b[i];
	return sum;
}

static void flood(int fd)
{
	int listener = oracle_listener(AF_INET);

	close(fd);
	tell_num(oracle_port(listener));
	for (int i = 0; i < ROUNDS; i++) {
		fd = (int)MUST(accept(listener, NULL, NULL));
		warm_echo(fd);
		say("before the fork: %llx", (unsigned long long)sum_of(fd, FLOOD_BYTES / 4));
		if (!fork()) {
			oracle_slot(2 + i);
			say("after: %llx",
			    (unsigned long long)sum_of(fd, FLOOD_BYTES - FLOOD_BYTES / 4));
			put_all(fd, "over", 4);
			_exit(0);
		}
		close(fd);
	}
}

static void flood_client(void)
{
	static char bytes[FLOOD_BYTES];
	int port = (int)hear_num();

	fill(bytes, sizeof(bytes), 5);
	for (int i = 0; i < ROUNDS; i++) {
		int fd = oracle_dial(port);

		warm_ping(fd);
		for (size_t at = 0; at < sizeof(bytes); at += 64)
			put_all(fd, bytes + at, 64);
		CALL(get_all(fd, buf, 4));
		CALL(recv(fd, buf, 1, 0));
		CALL(close(fd));
	}
}

static void echo_some(int fd, int n)
{
	char b[64];

	for (int i = 0; i < n && get_all(fd, b, sizeof(b)) == sizeof(b); i++)
		put_all(fd, b, sizeof(b));
}

static void early(int fd)
{
	int listener = oracle_listener(AF_INET), good = 0, status;

	close(fd);
	tell_num(oracle_port(listener));
	for (int i = 0; i < EARLY; i++) {
		fd = (int)MUST(accept(listener, NULL, NULL));
		echo_some(fd, i);
		if (!fork()) {
			echo_some(fd, EARLY);
			_exit(recv(fd, buf, 1, 0) == 0 ? 0 : 1);
		}
		close(fd);
	}
	while (wait(&status) > 0)
		good += status == 0;
	say("good ends: %d", good);
}

static void early_client(void)
{
	int port = (int)hear_num(), wrong = 0;
	char out[64], in[64];

	for (int i = 0; i < EARLY; i++) {
		int fd = oracle_dial(port);

		for (int k = 0; k < i + EARLY; k++) {
			fill(out, sizeof(out), (uint64_t)k);
			put_all(fd, out, sizeof(out));
			wrong += get_all(fd, in, sizeof(in)) != sizeof(in) ||
				 memcmp(in, out, sizeof(in)) != 0;
		}
		shutdown(fd, SHUT_WR);
		wrong += recv(fd, in, 1, 0) != 0;
		close(fd);
	}
	say("wrong: %d", wrong);
}

static void killed(int fd)
{
	if (fork())
		for (;;)
			pause();
	oracle_slot(2);
	oracle_echo("child", fd);
	MUST(kill(getppid(), SIGKILL));
	oracle_echo("child", fd);
	_exit(0);
}

static const struct {
	const char *name;
	void (*play)(int fd);
} ways[] = {
	{"leave", leave},	{"exec", execs},      {"grandchild", grandchild},
	{"orphaned", orphaned}, {"pending", pending}, {"reset", reset},
	{"full", full},		{"killed", killed},   {"gone", gone},
	{"flood", flood},	{"early", early},
};

static void server(void)
{
	const char *how = oracle_arg(1, "leave");
	int own_listener = !strcmp(how, "own") ? oracle_listener(AF_INET) : -1;
	int fd = oracle_accept();

	if (own_listener >= 0) {
		tell_num(oracle_port(own_listener));
		own(fd, own_listener);
	}
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(how, ways[i].name))
			ways[i].play(fd);
}

static void round_trip(int fd)
{
	CALL(send(fd, "word", 4, 0));
	CALL(get_all(fd, buf, 4));
	say("%.4s", buf);
}

/* How much the owner got rid of is the kernel's affair; what came must be whole. */
static void full_client(int fd)
{
	static char want[FULL_BYTES + 8], got[FULL_BYTES + 8];
	size_t n = 0;
	ssize_t r;

	fill(want, FULL_BYTES, 3);
	hear('f');
	CALL(send(fd, "word", 4, 0));
	while (n < sizeof(got) && (r = recv(fd, got + n, sizeof(got) - n, 0)) > 0)
		n += (size_t)r;
	say("end %zd, a word at its end: %d", r, n > 4 && !memcmp(got + n - 4, "word", 4));
	say("the bytes before are whole: %d", n > 8192 && !memcmp(got, want, n - 4));
}

static void client(void)
{
	const char *how = oracle_arg(1, "leave");
	struct linger hard = {.l_onoff = 1};
	int fd = oracle_connect(), other;

	if (!strcmp(how, "own")) {
		other = oracle_dial((int)hear_num());
		warm_ping(other);
		for (int i = 0; i < 3; i++)
			round_trip(other);
		CALL(recv(other, buf, 1, 0));
	}
	if (!strcmp(how, "pending")) {
		CALL(send(fd, "word", 4, 0));
		tell_num(getpid());
		CALL(get_all(fd, buf, 8));
		CALL(recv(fd, buf, 1, 0));
		return;
	}
	if (!strcmp(how, "flood") || !strcmp(how, "early")) {
		strcmp(how, "flood") ? early_client() : flood_client();
		return;
	}
	if (!strcmp(how, "gone")) {
		tell_num(getpid());
		CALL(get_all(fd, buf, 4));
		CALL(recv(fd, buf, 1, 0));
		tell('g');
		return;
	}
	if (!strcmp(how, "reset")) {
		hear('r');
		MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)));
		CALL(close(fd));
		return;
	}
	if (!strcmp(how, "full")) {
		full_client(fd);
		return;
	}
	for (int i = 0; i < 2; i++) {
		round_trip(fd);
		round_trip(fd);
		if (!strcmp(how, "leave") || !strcmp(how, "exec") || !strcmp(how, "killed"))
			break;
		if (!strcmp(how, "orphaned") && !i)
			tell('2');
		if (!strcmp(how, "own"))
			break;
	}
	CALL(recv(fd, buf, 1, 0));
	CALL(close(fd));
}

ORACLE_MAIN(PROOF_DEFAULT, server, client)

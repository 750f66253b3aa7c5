/* SPDX-License-Identifier: MIT */
/*
 * The stage of the oracle programs: starts the roles, keeps their transcripts in shared memory
 * (so that a killed role's lines survive), and prints them at the end, role by role. The first
 * process never has a TCP connection: it also answers the roles' question "which plane is this
 * descriptor on?", by asking `xshim stat`, so that the asking doesn't disturb the asker.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>

#include "oracle.h"
#include "stage.h"

/* Descriptors far above those that the programs count on. */
enum { LOG_BYTES = 1 << 18, LOG_FD = 210, CTL_FD = 200 };

struct log {
	atomic_uint used;
	char text[LOG_BYTES];
};

struct oracle_stage stage = {.ctl = -1, .ask = -1};
static struct log *logs;
static __thread int my_slot;
static int saved_argc;
static char **saved_argv;
static pid_t role_pid[2];
static int ask_fd[2] = {-1, -1};

void oracle_args(int argc, char **argv)
{
	saved_argc = argc;
	saved_argv = argv;
}

int oracle_argc(void)
{
	return saved_argc;
}

const char *oracle_arg(int i, const char *otherwise)
{
	return i < saved_argc ? saved_argv[i] : otherwise;
}

void oracle_slot(int slot)
{
	my_slot = slot;
}

void say(const char *fmt, ...)
{
	char line[1024];
	struct log *log = &logs[my_slot];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	unsigned at = atomic_fetch_add(&log->used, (unsigned)n);

	if (at + (unsigned)n <= LOG_BYTES)
		memcpy(log->text + at, line, (size_t)n);
}

void oracle_die(const char *text, int err)
{
	say("DIED: %s: %s", text, err ? strerrorname_np(err) : "no errno");
	_exit(3);
}

static void map_logs(int fd)
{
	size_t bytes = sizeof(struct log) * ORACLE_SLOTS;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		_exit(4);
	logs = at;
}

static int to_fd(int fd, int wanted)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, wanted);

	close(fd);
	return high;
}

static void make_logs(void)
{
	int fd = memfd_create("oracle-log", 0);

	if (fd < 0 || ftruncate(fd, (off_t)sizeof(struct log) * ORACLE_SLOTS) < 0)
		_exit(4);
	map_logs(fd);
	if (dup2(fd, LOG_FD) < 0)
		_exit(4);
	close(fd);
}

void oracle_adopt(int slot)
{
	map_logs(LOG_FD);
	my_slot = slot;
}

void oracle_keep(void)
{
	fcntl(stage.ctl, F_SETFD, 0);
	fcntl(stage.ask, F_SETFD, 0);
}

void oracle_kept(int slot)
{
	oracle_adopt(slot);
	stage.ctl = CTL_FD;
	stage.ask = CTL_FD + 1;
	fcntl(stage.ctl, F_SETFD, FD_CLOEXEC);
	fcntl(stage.ask, F_SETFD, FD_CLOEXEC);
}

static void dump_logs(void)
{
	static const char names[ORACLE_SLOTS][3] = {"S", "C", "s2", "s3", "s4", "s5", "s6", "s7"};

	for (int i = 0; i < ORACLE_SLOTS; i++) {
		unsigned used = atomic_load(&logs[i].used);
		char *p = logs[i].text, *end = p + (used < LOG_BYTES ? used : LOG_BYTES);

		while (p < end) {
			char *nl = memchr(p, '\n', (size_t)(end - p));

			if (!nl)
				break;
			printf("%s: %.*s\n", names[i], (int)(nl - p), p);
			p = nl + 1;
		}
	}
	fflush(stdout);
}

/* The runner's time is up: show how far the roles came. */
static void on_term(int sig)
{
	(void)sig;
	for (int i = 0; i < 2; i++)
		if (role_pid[i] > 0)
			kill(role_pid[i], SIGKILL);
	dump_logs();
	printf("TIMEOUT\n");
	fflush(stdout);
	_exit(124);
}

/*
 * ORACLE_ONLY=server or client: that role alone runs under the library (ORACLE_PRELOAD). Both start
 * by exec then, so that the other one is surely without.
 */
static void start_afresh(int i)
{
	const char *only = getenv("ORACLE_ONLY");
	const char *library = getenv("ORACLE_PRELOAD");

	if (!only || !library)
		return;
	if (!strcmp(only, i ? "client" : "server"))
		setenv("LD_PRELOAD", library, 1);
	unsetenv("ORACLE_ONLY");
	setenv("ORACLE_ROLE", i ? "client" : "server", 1);
	oracle_keep();
	execv("/proc/self/exe", saved_argv);
	oracle_die("exec of a role", errno);
}

/* The other side of that exec. */
static void play_role(const char *name, oracle_role server, oracle_role client)
{
	int i = !strcmp(name, "client");

	unsetenv("ORACLE_ROLE");
	oracle_kept(i);
	(i ? client : server)();
	exit(0);
}

static void start_role(int i, oracle_role role, int ctl[2])
{
	int ask[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ask) < 0)
		_exit(4);
	ask_fd[i] = ask[0];
	role_pid[i] = fork();
	if (role_pid[i] != 0) {
		close(ask[1]);
		return;
	}
	signal(SIGTERM, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int j = 0; j <= i; j++)
		close(ask_fd[j]);
	my_slot = i;
	close(ctl[1 - i]);
	stage.ctl = to_fd(ctl[i], CTL_FD);
	stage.ask = to_fd(ask[1], CTL_FD);
	start_afresh(i);
	role();
	exit(0);
}

static void serve_asks(int i)
{
	struct oracle_ask ask;

	if (recv(ask_fd[i], &ask, sizeof(ask), MSG_DONTWAIT) != sizeof(ask))
		return;
	ask.answer = (ask.back ? oracle_send_back : oracle_look)(ask.pid, ask.fd);
	if (send(ask_fd[i], &ask, sizeof(ask), MSG_NOSIGNAL) < 0)
		return;
}

static void say_end(int i)
{
	int status = 0;

	if (waitpid(role_pid[i], &status, 0) != role_pid[i])
		return;
	role_pid[i] = 0;
	my_slot = i;
	if (WIFSIGNALED(status))
		say("ended by signal %d", WTERMSIG(status));
	else
		say("ended with %d", WEXITSTATUS(status));
}

static void watch_roles(void)
{
	struct pollfd p[4];

	for (int i = 0; i < 2; i++) {
		p[i].fd = role_pid[i] > 0 ? pidfd_open(role_pid[i], 0) : -1;
		p[2 + i].fd = ask_fd[i];
		p[i].events = p[2 + i].events = POLLIN;
	}
	while (role_pid[0] > 0 || role_pid[1] > 0) {
		if (poll(p, 4, -1) < 0)
			continue;
		for (int i = 0; i < 2; i++) {
			if (p[2 + i].revents & POLLIN)
				serve_asks(i);
			else if (p[2 + i].revents)
				p[2 + i].fd = -1;
			if (p[i].revents) {
				say_end(i);
				close(p[i].fd);
				p[i].fd = -1;
			}
		}
	}
}

int oracle_run(long proof, oracle_role server, oracle_role client)
{
	int ctl[2];

	if (getenv("ORACLE_ROLE"))
		play_role(getenv("ORACLE_ROLE"), server, client);
	make_logs();
	if (proof == PROOF_NONE)
		printf("# proof none\n");
	else
		printf("# proof %ld\n", proof);
	fflush(stdout);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ctl) < 0)
		return 4;
	signal(SIGTERM, on_term);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	start_role(0, server, ctl);
	if (client)
		start_role(1, client, ctl);
	close(ctl[0]);
	close(ctl[1]);
	watch_roles();
	/* A child that outlives its role has lines to write too. */
	while (wait(NULL) > 0)
		;
	dump_logs();
	return 0;
}

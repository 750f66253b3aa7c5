/* SPDX-License-Identifier: MIT */
/*
 * sandbox [--userns] UID PROGRAM ARGS: as Debian's unit keeps redis in. No AF_NETLINK sockets; with
 * --userns a user namespace that knows root and this user only, all others look like nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(125);
}

static void put(const char *name, pid_t pid, const char *text)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(path);
	close(fd);
}

/* The maps of two users are written from outside, by root. */
static void new_users(uid_t uid)
{
	int ready[2], mapped[2];
	pid_t self = getpid(), helper;
	char byte, text[64];

	if (pipe(ready) < 0 || pipe(mapped) < 0)
		die("pipe");
	helper = fork();
	if (helper == 0) {
		close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			_exit(1);
		snprintf(text, sizeof(text), "0 0 1\n%u %u 1\n", uid, uid);
		put("uid_map", self, text);
		put("gid_map", self, text);
		_exit(write(mapped[1], "", 1) != 1);
	}
	if (unshare(CLONE_NEWUSER) < 0)
		die("unshare");
	close(mapped[1]);
	if (write(ready[1], "", 1) != 1 || read(mapped[0], &byte, 1) != 1)
		die("helper");
	waitpid(helper, NULL, 0);
	for (int i = 0; i < 2; i++)
		close(ready[i]);
	close(mapped[0]);
}

static void no_netlink(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(rules) / sizeof(rules[0]), rules};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		die("seccomp");
}

/* Started by root. */
int main(int argc, char **argv)
{
	int at = argc > 1 && !strcmp(argv[1], "--userns") ? 2 : 1;
	uid_t uid;

	if (argc < at + 2)
		return 125;
	uid = (uid_t)atoi(argv[at]);
	if (at == 2)
		new_users(uid);
	if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		die("setresuid");
	no_netlink();
	execvp(argv[at + 1], argv + at + 1);
	die(argv[at + 1]);
}

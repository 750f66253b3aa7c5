/* SPDX-License-Identifier: MIT */
/* Doors: other programs, other processes, and the end of this one. */
#include "hook/door.h"

#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* fork() itself runs the library's handlers; this one runs none. */
XS_DOOR pid_t _Fork(void)
{
	pid_t r;

	xs_proc_fork_begin();
	r = xs_real._Fork();
	xs_proc_fork_end(r == 0);
	return r;
}

struct begin {
	int (*fn)(void *arg);
	void *arg;
};

static int in_clone(void *arg)
{
	const struct begin *b = arg;

	xs_proc_fork_end(true);
	return b->fn(b->arg);
}

/* As fork() when the child has memory of its own; threads and vfork children aren't that. */
XS_DOOR int clone(int (*fn)(void *arg), void *stack, int flags, void *arg, ...)
{
	struct begin b = {fn, arg};
	pid_t *parent_tid, *child_tid;
	void *tls;
	va_list ap;
	int r;

	va_start(ap, arg); /* they may not be there: the flags say which are looked at */
	parent_tid = va_arg(ap, pid_t *);
	tls = va_arg(ap, void *);
	child_tid = va_arg(ap, pid_t *);
	va_end(ap);
	if (flags & CLONE_VM || !fn || !stack)
		return xs_real.clone(fn, stack, flags, arg, parent_tid, tls, child_tid);
	xs_proc_fork_begin();
	r = xs_real.clone(in_clone, stack, flags, &b, parent_tid, tls, child_tid);
	xs_proc_fork_end(false);
	return r;
}

XS_DOOR int posix_spawn(pid_t *restrict pid, const char *restrict path,
			const posix_spawn_file_actions_t *restrict actions,
			const posix_spawnattr_t *restrict attr, char *const argv[restrict],
			char *const envp[restrict])
{
	xs_proc_spawn();
	return xs_real.posix_spawn(pid, path, actions, attr, argv, envp);
}

XS_DOOR int posix_spawnp(pid_t *restrict pid, const char *restrict file,
			 const posix_spawn_file_actions_t *restrict actions,
			 const posix_spawnattr_t *restrict attr, char *const argv[restrict],
			 char *const envp[restrict])
{
	xs_proc_spawn();
	return xs_real.posix_spawnp(pid, file, actions, attr, argv, envp);
}

/* What a child gets under a number of its choice leaves before the child is made. */
XS_DOOR int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int newfd)
{
	xs_proc_spawn_fd(fd);
	return xs_real.posix_spawn_file_actions_adddup2(actions, fd, newfd);
}

XS_DOOR int system(const char *command)
{
	xs_proc_spawn();
	return xs_real.system(command);
}

XS_DOOR FILE *popen(const char *command, const char *mode)
{
	FILE *file;

	xs_proc_spawn();
	file = xs_real.popen(command, mode);
	if (file)
		xs_fd_fresh(fileno(file));
	return file;
}

/* Its parent goes by an _exit inside libc, past our door: the streams leave before. */
XS_DOOR int daemon(int nochdir, int noclose)
{
	int r;

	xs_pin_all(XS_R_FORKED);
	r = xs_real.daemon(nochdir, noclose);
	for (int fd = 0; !noclose && fd <= 2; fd++)
		xs_fd_fresh(fd);
	return r;
}

/* Handlers of the program run first, and may still use sockets: our destructor is the end. */
XS_DOOR void exit(int status)
{
	xs_real.exit(status);
}

XS_DOOR void _exit(int status)
{
	xs_sock_exit();
	xs_real._exit(status);
}

XS_DOOR void _Exit(int status)
{
	xs_sock_exit();
	xs_real._Exit(status);
}

XS_DOOR void quick_exit(int status)
{
	xs_sock_exit();
	xs_real.quick_exit(status);
}

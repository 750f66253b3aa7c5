/* SPDX-License-Identifier: MIT */
/*
 * Doors: exec. libc's own execl and execv reach execve inside libc, past our door, so each
 * is a door; those with a list of arguments gather it on the stack and may do so after vfork.
 */
#include "hook/door.h"

#include <stdarg.h>
#include <unistd.h>

XS_DOOR int execve(const char *path, char *const argv[], char *const envp[])
{
	xs_proc_exec();
	return xs_real.execve(path, argv, envp);
}

XS_DOOR int execv(const char *path, char *const argv[])
{
	xs_proc_exec();
	return xs_real.execv(path, argv);
}

XS_DOOR int execvp(const char *file, char *const argv[])
{
	xs_proc_exec();
	return xs_real.execvp(file, argv);
}

XS_DOOR int execvpe(const char *file, char *const argv[], char *const envp[])
{
	xs_proc_exec();
	return xs_real.execvpe(file, argv, envp);
}

XS_DOOR int fexecve(int fd, char *const argv[], char *const envp[])
{
	xs_proc_exec();
	return xs_real.fexecve(fd, argv, envp);
}

XS_DOOR int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
	xs_proc_exec();
	return xs_real.execveat(dir, path, argv, envp, flags);
}

typedef int (*exec_fn)(const char *path, char *const argv[], char *const envp[]);

/* Gathers the arguments on the stack; behind their NULL may come the environment. */
static int with_list(exec_fn run, const char *path, const char *arg, va_list *ap, bool env)
{
	const char *a = arg;
	size_t n = 1;
	va_list again;

	va_copy(again, *ap);
	for (; a; n++)
		a = va_arg(again, const char *);
	va_end(again);
	char *argv[n];

	argv[0] = (char *)arg;
	for (size_t i = 1; i < n; i++)
		argv[i] = va_arg(*ap, char *);
	xs_proc_exec();
	return run(path, argv, env ? va_arg(*ap, char *const *) : environ);
}

XS_DOOR int execl(const char *path, const char *arg, ...)
{
	va_list ap;
	int r;

	va_start(ap, arg);
	r = with_list(xs_real.execve, path, arg, &ap, false);
	va_end(ap);
	return r;
}

XS_DOOR int execlp(const char *file, const char *arg, ...)
{
	va_list ap;
	int r;

	va_start(ap, arg);
	r = with_list(xs_real.execvpe, file, arg, &ap, false);
	va_end(ap);
	return r;
}

XS_DOOR int execle(const char *path, const char *arg, ...)
{
	va_list ap;
	int r;

	va_start(ap, arg);
	r = with_list(xs_real.execve, path, arg, &ap, true);
	va_end(ap);
	return r;
}

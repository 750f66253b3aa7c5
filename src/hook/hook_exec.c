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

/* Arguments up to and with the ending NULL. */
static size_t count(const char *arg, va_list *ap)
{
	size_t n = 1;

	while (arg) {
		arg = va_arg(*ap, const char *);
		n++;
	}
	return n;
}

static void gather(char **argv, const char *arg, va_list *ap)
{
	while (arg) {
		*argv++ = (char *)arg;
		arg = va_arg(*ap, const char *);
	}
	*argv = NULL;
}

XS_DOOR int execl(const char *path, const char *arg, ...)
{
	va_list ap;
	size_t n;

	va_start(ap, arg);
	n = count(arg, &ap);
	va_end(ap);
	char *argv[n];

	va_start(ap, arg);
	gather(argv, arg, &ap);
	va_end(ap);
	xs_proc_exec();
	return xs_real.execv(path, argv);
}

XS_DOOR int execlp(const char *file, const char *arg, ...)
{
	va_list ap;
	size_t n;

	va_start(ap, arg);
	n = count(arg, &ap);
	va_end(ap);
	char *argv[n];

	va_start(ap, arg);
	gather(argv, arg, &ap);
	va_end(ap);
	xs_proc_exec();
	return xs_real.execvp(file, argv);
}

XS_DOOR int execle(const char *path, const char *arg, ...)
{
	va_list ap;
	size_t n;

	va_start(ap, arg);
	n = count(arg, &ap);
	va_end(ap);
	char *argv[n];

	va_start(ap, arg);
	gather(argv, arg, &ap);
	char *const *envp = va_arg(ap, char *const *);
	va_end(ap);
	xs_proc_exec();
	return xs_real.execve(path, argv, envp);
}

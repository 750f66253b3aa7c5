/* SPDX-License-Identifier: MIT */
/* Doors: stdio on a descriptor, whose own reads and writes stay inside libc. */
#include "hook/door.h"

#include <stdarg.h>
#include <stdio.h>

XS_DOOR FILE *fdopen(int fd, const char *mode)
{
	xs_fd_pin(fd, XS_R_STDIO);
	return xs_real.fdopen(fd, mode);
}

static FILE *reopened(FILE *file)
{
	if (file)
		xs_fd_fresh(fileno(file));
	return file;
}

XS_DOOR FILE *freopen(const char *restrict path, const char *restrict mode, FILE *restrict file)
{
	return reopened(xs_real.freopen(path, mode, file));
}

XS_DOOR FILE *freopen64(const char *restrict path, const char *restrict mode, FILE *restrict file)
{
	return reopened(xs_real.freopen64(path, mode, file));
}

XS_DOOR int vdprintf(int fd, const char *restrict fmt, va_list ap)
{
	xs_fd_pin(fd, XS_R_STDIO);
	return xs_real.vdprintf(fd, fmt, ap);
}

XS_DOOR int __vdprintf_chk(int fd, int flag, const char *fmt, va_list ap)
{
	xs_fd_pin(fd, XS_R_STDIO);
	return xs_real.__vdprintf_chk(fd, flag, fmt, ap);
}

XS_DOOR int dprintf(int fd, const char *restrict fmt, ...)
{
	va_list ap;
	int ret;

	xs_fd_pin(fd, XS_R_STDIO);
	va_start(ap, fmt);
	ret = xs_real.vdprintf(fd, fmt, ap);
	va_end(ap);
	return ret;
}

XS_DOOR int __dprintf_chk(int fd, int flag, const char *fmt, ...)
{
	va_list ap;
	int ret;

	xs_fd_pin(fd, XS_R_STDIO);
	va_start(ap, fmt);
	ret = xs_real.__vdprintf_chk(fd, flag, fmt, ap);
	va_end(ap);
	return ret;
}

/* SPDX-License-Identifier: MIT */
/*
 * Door: syscall(). It is no cancellation point and has seven arguments, so what we don't
 * serve goes to the kernel from here.
 */
#include "base/rawsys.h"
#include "hook/door.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

XS_DOOR long syscall(long nr, ...)
{
	long a[6], ret;
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	ret = xs_raw6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (ret >= 0 || ret < -4095)
		return ret;
	errno = (int)-ret;
	return -1;
}

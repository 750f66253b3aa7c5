/* SPDX-License-Identifier: MIT */
/* Door: syscall(). Reads six arguments whatever the call has, as libc's own does. */
#include "base/real.h"
#include "hook/door.h"

#include <stdarg.h>
#include <unistd.h>

__attribute__((no_sanitize("address"))) XS_DOOR long syscall(long nr, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	return xs_real.syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

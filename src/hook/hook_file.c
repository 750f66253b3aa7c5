/* SPDX-License-Identifier: MIT */
/* Doors: from file to socket and from pipe to socket inside the kernel. */
#include "base/real.h"
#include "hook/door.h"

#include <fcntl.h>
#include <sys/sendfile.h>

XS_DOOR ssize_t sendfile(int out, int in, off_t *offset, size_t n)
{
	return xs_real.sendfile(out, in, offset, n);
}

XS_DOOR ssize_t sendfile64(int out, int in, off64_t *offset, size_t n)
{
	return xs_real.sendfile64(out, in, offset, n);
}

XS_DOOR ssize_t splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t n,
		       unsigned int flags)
{
	return xs_real.splice(in, in_at, out, out_at, n, flags);
}

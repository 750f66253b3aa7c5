/* SPDX-License-Identifier: MIT */
/* Doors: from file to socket and from pipe to socket inside the kernel. */
#include "hook/door.h"

#include <fcntl.h>
#include <sys/sendfile.h>

XS_DOOR ssize_t sendfile(int out, int in, off_t *offset, size_t n)
{
	XS_TX(call, out, 0);

	if (xs_call_kernel(&call))
		return xs_tx_done(&call, xs_real.sendfile(out, in, offset, n));
	return xs_door(xs_tx_sendfile(call.s, out, in, offset, n < XS_RW_MAX ? n : XS_RW_MAX));
}

XS_ALIAS(sendfile) ssize_t sendfile64(int out, int in, off64_t *offset, size_t n);

XS_DOOR ssize_t splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t n,
		       unsigned int flags)
{
	xs_fd_pin(in, XS_R_SPLICE);
	xs_fd_pin(out, XS_R_SPLICE);
	return xs_real.splice(in, in_at, out, out_at, n, flags);
}

/* SPDX-License-Identifier: MIT */
/* Doors: POSIX asynchronous I/O, which threads inside libc carry out. */
#include "base/real.h"
#include "hook/door.h"

#include <aio.h>

XS_DOOR int aio_read(struct aiocb *cb)
{
	return xs_real.aio_read(cb);
}

XS_DOOR int aio_read64(struct aiocb64 *cb)
{
	return xs_real.aio_read64(cb);
}

XS_DOOR int aio_write(struct aiocb *cb)
{
	return xs_real.aio_write(cb);
}

XS_DOOR int aio_write64(struct aiocb64 *cb)
{
	return xs_real.aio_write64(cb);
}

XS_DOOR int lio_listio(int mode, struct aiocb *const list[restrict], int n,
		       struct sigevent *restrict done)
{
	return xs_real.lio_listio(mode, list, n, done);
}

XS_DOOR int lio_listio64(int mode, struct aiocb64 *const list[restrict], int n,
			 struct sigevent *restrict done)
{
	return xs_real.lio_listio64(mode, list, n, done);
}

/* SPDX-License-Identifier: MIT */
/* Doors: POSIX asynchronous I/O, which threads inside libc carry out. */
#include "hook/door.h"

#include <aio.h>

XS_DOOR int aio_read(struct aiocb *cb)
{
	xs_fd_pin(cb->aio_fildes, XS_R_AIO);
	return xs_real.aio_read(cb);
}

XS_DOOR int aio_write(struct aiocb *cb)
{
	xs_fd_pin(cb->aio_fildes, XS_R_AIO);
	return xs_real.aio_write(cb);
}

XS_DOOR int lio_listio(int mode, struct aiocb *const list[restrict], int n,
		       struct sigevent *restrict done)
{
	for (int i = 0; i < n; i++)
		if (list[i])
			xs_fd_pin(list[i]->aio_fildes, XS_R_AIO);
	return xs_real.lio_listio(mode, list, n, done);
}

XS_DOOR int aio_read64(struct aiocb64 *cb)
{
	xs_fd_pin(cb->aio_fildes, XS_R_AIO);
	return xs_real.aio_read64(cb);
}

XS_DOOR int aio_write64(struct aiocb64 *cb)
{
	xs_fd_pin(cb->aio_fildes, XS_R_AIO);
	return xs_real.aio_write64(cb);
}

XS_DOOR int lio_listio64(int mode, struct aiocb64 *const list[restrict], int n,
			 struct sigevent *restrict done)
{
	for (int i = 0; i < n; i++)
		if (list[i])
			xs_fd_pin(list[i]->aio_fildes, XS_R_AIO);
	return xs_real.lio_listio64(mode, list, n, done);
}

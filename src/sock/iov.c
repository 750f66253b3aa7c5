/* SPDX-License-Identifier: MIT */
/* Pieces of a message's iov. */
#include "sock/conn.h"

size_t xs_iov_total(const struct msghdr *msg)
{
	size_t total = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++)
		total += msg->msg_iov[i].iov_len;
	return total < 0x7ffff000 ? total : 0x7ffff000; /* MAX_RW_COUNT */
}

int xs_iov_slice(const struct msghdr *msg, size_t skip, size_t n, struct iovec *out, int max,
		 size_t *len)
{
	int k = 0;

	*len = 0;
	for (size_t i = 0; i < msg->msg_iovlen && k < max && *len < n; i++) {
		const struct iovec *v = &msg->msg_iov[i];
		size_t some;

		if (skip >= v->iov_len) {
			skip -= v->iov_len;
			continue;
		}
		some = v->iov_len - skip;
		if (some > n - *len)
			some = n - *len;
		out[k].iov_base = (char *)v->iov_base + skip;
		out[k++].iov_len = some;
		*len += some;
		skip = 0;
	}
	return k;
}

bool xs_iov_bad(const struct msghdr *msg)
{
	if ((uintptr_t)msg < 4096 || (msg->msg_iovlen && (uintptr_t)msg->msg_iov < 4096))
		return true;
	for (size_t i = 0; i < msg->msg_iovlen; i++)
		if (msg->msg_iov[i].iov_len && (uintptr_t)msg->msg_iov[i].iov_base < 4096)
			return true;
	return false;
}

/* SPDX-License-Identifier: MIT */
/*
 * How many bytes of a stream the kernel has sent and received (design 2.1). bytes_acked and the
 * send queue move against each other while we read them one after the other, so bytes_acked is read
 * on both sides of the queue until both agree; likewise for reading. tcpi_bytes_sent isn't used:
 * one failed transmit leaves it too high for good.
 */
#include <linux/tcp.h>

#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/real.h"
#include "sock/conn.h"

#define ESTABLISHED 1 /* TCP_ESTABLISHED of the kernel's tcp_states.h */
#define TRIES 1000

static enum xs_reason info(int fd, struct tcp_info *ti)
{
	socklen_t len = sizeof(*ti);

	if (xs_real.getsockopt(fd, IPPROTO_TCP, TCP_INFO, ti, &len) < 0)
		return XS_R_NOT_TCP;
	if (len < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(ti->tcpi_bytes_received))
		return XS_R_KERNEL_OLD;
	return ti->tcpi_state == ESTABLISHED ? XS_R_NONE : XS_R_NEW;
}

enum xs_reason xs_twin_written(int fd, bool connected, uint64_t *written, uint64_t *acked)
{
	struct tcp_info before, after;
	enum xs_reason why;
	int queued;

	for (int i = 0; i < TRIES; i++) {
		why = info(fd, &before);
		if (why)
			return why;
		if (before.tcpi_options & TCPI_OPT_SYN_DATA)
			return XS_R_FASTOPEN;
		if (xs_real.ioctl(fd, SIOCOUTQ, &queued) < 0)
			return XS_R_KERNEL_OLD;
		why = info(fd, &after);
		if (why)
			return why;
		if (before.tcpi_bytes_acked != after.tcpi_bytes_acked)
			continue;
		*acked = after.tcpi_bytes_acked - (connected ? 1 : 0); /* the SYN counts */
		*written = *acked + (uint64_t)queued;
		return XS_R_NONE;
	}
	return XS_R_RETRY;
}

enum xs_reason xs_twin_received(int fd, bool connected, uint64_t *received, uint64_t *consumed)
{
	struct tcp_info before, after;
	enum xs_reason why;
	int queued;

	(void)connected;
	for (int i = 0; i < TRIES; i++) {
		why = info(fd, &before);
		if (why)
			return why;
		if (xs_real.ioctl(fd, SIOCINQ, &queued) < 0)
			return XS_R_KERNEL_OLD;
		why = info(fd, &after);
		if (why)
			return why;
		if (before.tcpi_bytes_received != after.tcpi_bytes_received)
			continue;
		*received = after.tcpi_bytes_received;
		*consumed = *received - (uint64_t)queued;
		return XS_R_NONE;
	}
	return XS_R_RETRY;
}

int xs_twin_state(int fd)
{
	struct tcp_info ti;
	socklen_t len = sizeof(ti);

	if (xs_real.getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &len) < 0)
		return -errno;
	return ti.tcpi_state;
}

bool xs_twin_ended(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};

	return xs_real.poll(&p, 1, 0) > 0;
}

uint32_t xs_twin_unread(int fd)
{
	int queued = 0;

	return xs_real.ioctl(fd, SIOCINQ, &queued) < 0 || queued < 0 ? 0 : (uint32_t)queued;
}

/* Behind tcpi_snd_wnd, since Linux 6.2; headers may be older. It's what the last acknowledgement
 * allows: a window never shrinks, so at 0 nothing can be under way. */
int xs_twin_window(int fd)
{
	const size_t at = offsetof(struct tcp_info, tcpi_snd_wnd) + sizeof(uint32_t);
	char ti[512];
	socklen_t len = sizeof(ti);
	uint32_t window;

	if (xs_real.getsockopt(fd, IPPROTO_TCP, TCP_INFO, ti, &len) < 0 ||
	    len < at + sizeof(window))
		return -1;
	memcpy(&window, ti + at, sizeof(window));
	return window > INT_MAX ? INT_MAX : (int)window;
}

void xs_twin_abort(int fd)
{
	struct linger hard = {.l_onoff = 1};

	xs_real.setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

/* SPDX-License-Identifier: MIT */
/*
 * What the twin says to a reader whose stream isn't plainly the kernel's.
 *
 * In KERN and OPEN: repeats, which a framed return has put below C, are read and dropped. In PLANE
 * the twin's reading end stands at X, where S tells how it returned: a frame, plain bytes, or an
 * end. Errors that the kernel tells once are kept for the program here.
 */
#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "base/real.h"
#include "sock/conn.h"

#define FIN_GRACE_MS 20 /* for bytes still in a completion queue when the twin's FIN is here */
#define PARTIAL_MS 200	/* half a frame from an S whose link died */

int xs_rx_error(const struct xs_sock *s, int err)
{
	/* The twin's FIN follows the one in band: the kernel would be in CLOSE_WAIT. */
	return err == ECONNRESET && s->rx.final_known ? EPIPE : err;
}

bool xs_rx_hard(struct xs_sock *s, int err)
{
	if (err != ECONNRESET && err != EPIPE && err != ETIMEDOUT && err != EHOSTUNREACH)
		return false;
	if (!s->peer_rst) /* else it has been told: PEER_GONE was quicker */
		s->error = xs_rx_error(s, err);
	s->peer_rst = true;
	return true;
}

void xs_rx_look_reset(struct xs_sock *s)
{
	socklen_t len = sizeof(int);
	int e = 0;

	if (s->peer_rst || xs_real.getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &e, &len) < 0 || !e)
		return;
	s->settled = false;
	xs_rx_hard(s, e);
}

ssize_t xs_rx_drop(struct xs_sock *s, int fd)
{
	uint64_t n;
	ssize_t r;

	while ((n = xs_r_twin_drop(&s->rx)) > 0) {
		r = xs_real.recv(fd, NULL, n < (1u << 20) ? n : 1u << 20, MSG_TRUNC | MSG_DONTWAIT);
		if (r < 0)
			return xs_rx_hard(s, errno) ? -EAGAIN : -errno;
		if (r == 0)
			return 0;
		xs_rx_left_twin(s, (size_t)r, 0);
		xs_r_twin_took(&s->rx, (uint64_t)r);
	}
	return 1;
}

/* --- the twin at X ---------- */

static void decoded(struct xs_sock *s, const char *how)
{
	uint64_t keep = s->rx.copies - s->rx.c;

	XS_LOG(INFO, "fd=%d rx plane->kernel at %llu epoch %u: %s", s->fd,
	       (unsigned long long)s->rx.c, s->rx.epoch, how);
	if (s->chan)
		xs_chan_ops(s->chan)->rx_close(s->chan, keep);
	s->partial_since = s->twin_fin_at = 0;
	if (s->row)
		atomic_fetch_add_explicit(&s->row->rx.returns, 1, memory_order_relaxed);
	xs_wake(s, XS_WHAT_MOVED | POLLIN);
}

static bool look_frame(struct xs_sock *s, const struct xs_return_frame *f)
{
	struct xs_return_frame sink;

	if (!xs_r_frame_valid(&s->rx, f)) {
		xs_conn_reset(s, XS_R_UNSEEN_WRITER);
		return true;
	}
	if (xs_real.recv(s->fd, &sink, sizeof(sink), MSG_DONTWAIT) != (ssize_t)sizeof(sink)) {
		xs_conn_reset(s, XS_R_UNSEEN_READER);
		return true;
	}
	xs_rx_left_twin(s, sizeof(sink), 0);
	xs_r_decoded_frame(&s->rx, f, xs_chan_ops(s->chan)->rx_avail(s->chan));
	decoded(s, "frame");
	return true;
}

static bool begins_frame(struct xs_sock *s, const struct xs_return_frame *f, size_t n)
{
	return !memcmp(f->secret, s->secret, n < sizeof(f->secret) ? n : sizeof(f->secret));
}

/* The beginning of a frame, or bytes that look like one: may the rest still come? */
static bool partial(struct xs_sock *s, struct xs_return_frame *f, size_t *n)
{
	bool ended = xs_twin_ended(s->fd);
	ssize_t again = xs_real.recv(s->fd, f, sizeof(*f), MSG_PEEK | MSG_DONTWAIT);

	if (again > 0)
		*n = (size_t)again; /* before an end nothing can have come after this look */
	if (ended || *n == sizeof(*f))
		return false;
	if (!s->partial_since)
		s->partial_since = xs_now_ns();
	/* S said that all is in: it can't be a frame that's still coming. */
	if (!s->rx.confirmed &&
	    (!xs_r_in_doubt(&s->rx) || xs_now_ns() - s->partial_since >= PARTIAL_MS * XS_NS_PER_MS))
		return false;
	xs_drive_in(s, PARTIAL_MS);
	return true;
}

static bool look_bytes(struct xs_sock *s, struct xs_return_frame *f, size_t n)
{
	bool frame = begins_frame(s, f, n);

	if (frame && n < sizeof(*f)) {
		if (partial(s, f, &n))
			return false;
		frame = begins_frame(s, f, n);
	}
	if (frame && n == sizeof(*f))
		return look_frame(s, f);
	if (frame && s->rx.confirmed) { /* S was killed with half of it written */
		xs_conn_reset(s, XS_R_PEER_KILLED);
		return true;
	}
	if (s->rx.confirmed) {
		xs_conn_reset(s, XS_R_UNSEEN_WRITER);
		return true;
	}
	xs_r_decoded_plain(&s->rx, xs_chan_ops(s->chan)->rx_avail(s->chan));
	decoded(s, "plain");
	return true;
}

/* How long a plane may take to bring what it has, or to say that nothing more comes. */
static uint64_t grace_ms(const struct xs_sock *s)
{
	return s->rx.linked && xs_chan_ops(s->chan)->tells_end ? xs_conf.return_ms : FIN_GRACE_MS;
}

/* A FIN at X. Bytes that the plane still brings come first. */
static bool look_fin(struct xs_sock *s)
{
	/* The peer's process is gone, and all that it had written is read: as TCP ends then. */
	if (s->complete && !xs_r_at_fin(&s->rx))
		xs_r_segment(&s->rx, s->rx.epoch, 0, true, s->rx.c);
	if (xs_r_at_fin(&s->rx)) {
		s->eof = true;
		if (!s->rx.frozen && !s->rx.asked)
			return false;
		xs_r_decoded_fin(&s->rx);
		decoded(s, "fin");
		return true;
	}
	if (!s->twin_fin_at)
		s->twin_fin_at = xs_now_ns();
	if (xs_now_ns() - s->twin_fin_at < grace_ms(s) * XS_NS_PER_MS) {
		xs_drive_in(s, FIN_GRACE_MS);
		return false;
	}
	xs_conn_reset(s, XS_R_PEER_KILLED);
	return true;
}

bool xs_rx_look(struct xs_sock *s)
{
	struct xs_return_frame f;
	ssize_t n;

	s->settled = false;
	if (s->fd < 0 || !s->chan || s->error || s->gone)
		return false;
	if (s->rx.state != XS_R_PLANE)
		return xs_rx_drop(s, s->fd), false;
	n = xs_real.recv(s->fd, &f, sizeof(f), MSG_PEEK | MSG_DONTWAIT);
	if (n > 0)
		return look_bytes(s, &f, (size_t)n);
	if (n == 0)
		return xs_chan_ops(s->chan)->rx_avail(s->chan) ? false : look_fin(s);
	if (!xs_rx_hard(s, errno))
		return false;
	xs_wake(s, ~0u);
	return true;
}

size_t xs_rx_readable(struct xs_sock *s)
{
	uint64_t held, unread, most, end;

	xs_rx_look(s);
	held = xs_rx_held(s);
	if (!xs_r_on_twin(&s->rx))
		return held;
	unread = xs_twin_unread(s->fd);
	most = xs_r_twin_limit(&s->rx);
	end = s->rx.t + (unread < most ? unread : most);
	/* The twin repeats what is held. */
	return end > s->rx.c + held ? (size_t)(end - s->rx.c) : (size_t)held;
}

/* SPDX-License-Identifier: MIT */
/*
 * The contract between a stream (sock/) and what carries its bytes off the kernel. Nothing above
 * knows which plane it is. A channel is one connection's share of a link to the peer process.
 *
 * Locks: a channel has no lock of its own: it borrows the connection's (xs_chan_events.lock). Each
 * operation below is called with it held; each event is delivered with it held, from the thread
 * that polls, never from inside an operation. A plane never blocks and never touches errno.
 */
#ifndef XS_LINK_PLANE_H
#define XS_LINK_PLANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/reason.h"
#include "link/wire.h"

enum xs_plane_id { XS_PLANE_KERNEL, XS_PLANE_RC, XS_PLANE_SHM, XS_PLANE_TEST, XS_PLANES };

struct xs_byteout; /* base/bytering.h */
struct xs_bytein;
struct xs_chan; /* opaque here: embeds xs_chan_base as its first member */

/* A message about one direction; DATA and FIN never come this way as messages but as `arrived`. */
struct xs_msg {
	uint8_t kind;  /* enum xs_kind */
	uint8_t flags; /* enum xs_seg_flag */
	uint16_t epoch;
	uint64_t offset;
};

/* What a segment of the stream (DATA or FIN) said, for the switch: FIRST, CONFIRMED, FIN. */
struct xs_arrival {
	uint16_t epoch;
	uint8_t flags; /* XS_F_FIRST, XS_F_CONFIRMED */
	bool fin;
	uint64_t offset; /* of its first byte; of the end if fin */
	uint32_t length;
};

/* How far unlocked calls have brought a channel with rings. */
struct xs_moved {
	uint64_t sent;	   /* taken from the program up to here */
	uint64_t acked;	   /* consumed by the peer */
	uint64_t consumed; /* by our program */
	bool tx, rx;	   /* that direction has a ring */
};

struct xs_chan_events {
	/* The connection's lock, and a reference that keeps `user` alive meanwhile. */
	void (*lock)(void *user);
	void (*unlock)(void *user);
	void (*hold)(void *user);
	void (*release)(void *user);

	/* PREPARE READY SWITCHED ACK RETURN_ME RETURNED FLUSHED PEER_GONE, in any order, twice,
	 * late. Piggybacked consumption comes as an ACK with its epoch. */
	void (*message)(void *user, const struct xs_msg *m);
	/*
	 * A segment of the receiving direction, before its bytes are placed. True: place them (or
	 * note the FIN); false: drop them (wrong epoch, frozen, closed). Duplicates and bytes below
	 * the consumption are dropped by the channel itself. `arrived` follows once they're placed.
	 */
	bool (*segment)(void *user, const struct xs_arrival *a);
	void (*arrived)(void *user);
	/* Room in the sender's window: acknowledged, or posting goes on after a lack of entries. */
	void (*room)(void *user);
	/* The link is dead: nothing comes or goes any more. Bytes that have been placed stay
	 * readable, kept bytes stay kept. PEER_KILLED: the peer is gone, and all that it sent on
	 * the plane has been placed. Called once. */
	void (*dead)(void *user, enum xs_reason why);
};

struct xs_chan_ops {
	const char *name;
	enum xs_plane_id plane;
	/* The end of the peer's process is the channel's: `dead` follows soon. */
	bool tells_end;

	/* --- sending direction ------------------------------------------------------------------
	 */
	/* A new epoch begins at stream offset x: the window is empty. */
	void (*tx_open)(struct xs_chan *c, uint16_t epoch, uint64_t x);
	/* Bytes that tx_put would take now. 0: wait for `room`. */
	size_t (*tx_room)(struct xs_chan *c);
	/*
	 * Takes bytes behind those taken before, copies them into kept memory and posts what it can
	 * (the rest is posted when entries come). flags: FIRST is remembered for the first segment,
	 * CONFIRMED goes on all from now on. Returns bytes taken, -EAGAIN, -ENOMEM, -ENOTCONN
	 * (dead).
	 */
	ssize_t (*tx_put)(struct xs_chan *c, const struct iovec *iov, int iovcnt, size_t skip,
			  unsigned flags);
	/* The stream ends behind what was taken. */
	void (*tx_fin)(struct xs_chan *c, unsigned flags);
	/* The peer has consumed everything below offset: forget it. */
	void (*tx_acked)(struct xs_chan *c, uint64_t offset);
	/* Kept bytes from offset on, in at most two pieces; returns their number. */
	size_t (*tx_kept)(struct xs_chan *c, uint64_t offset, struct iovec iov[2]);
	/* No further segment of this epoch is posted; kept bytes stay until tx_close. */
	void (*tx_stop)(struct xs_chan *c);
	void (*tx_close)(struct xs_chan *c);
	/* Our id for the connection, for stats. */
	uint32_t (*id)(const struct xs_chan *c);
	/* The largest window from now on (SO_SNDBUF, config). */
	void (*tx_limit)(struct xs_chan *c, size_t bytes);

	/* --- receiving direction ----------------------------------------------------------------
	 */
	/* Segments of this epoch are expected; nothing below `from` is needed. */
	void (*rx_open)(struct xs_chan *c, uint16_t epoch, uint64_t from);
	/* Bytes below offset were consumed elsewhere (read from the twin): the consumption is
	 * offset now. */
	void (*rx_seek)(struct xs_chan *c, uint64_t offset);
	/* Contiguous placed bytes at the consumption, in at most `max` pieces; returns their number
	 * of pieces, *len their total. Valid until rx_advance. */
	int (*rx_peek)(struct xs_chan *c, struct iovec *iov, int max, size_t *len);
	/* The application has consumed n of them. */
	void (*rx_advance)(struct xs_chan *c, size_t n);
	/* Contiguous placed bytes at the consumption (FIONREAD, "announced"). */
	size_t (*rx_avail)(struct xs_chan *c);
	/* The epoch is over; the first `keep` contiguous bytes stay readable, all else is dropped.
	 */
	void (*rx_close)(struct xs_chan *c, size_t keep);
	/* What acknowledgements this direction sends: piggybacked in every segment from now on.
	 * Returns what segments have told already in this epoch, 0: nothing. */
	uint64_t (*rx_ack)(struct xs_chan *c, uint16_t epoch, uint64_t offset);

	/* --- messages ---------------------------------------------------------------------------
	 */
	/* Never fails for lack of room: the latest of each kind waits in the channel and is sent
	 * when entries allow. -ENOTCONN once the link is dead. */
	int (*send)(struct xs_chan *c, const struct xs_msg *m);
	/* True when the last message of this kind has completed (FLUSHED, rule 9). */
	bool (*sent)(struct xs_chan *c, uint8_t kind);

	/* --- rings (base/bytering.h)
	 * --------------------------------------------------------------
	 */
	/* The sides of rings, in memory of the owner's that outlives the channel: what a plane in
	 * shared memory moves bytes by, with its other operations or, without the lock, by
	 * xs_byte_put() and xs_byte_get(). */
	void (*rings)(struct xs_chan *c, struct xs_byteout *out, struct xs_bytein *in);
	/* After unlocked calls: the peer is told what it waits for. */
	void (*settle)(struct xs_chan *c, struct xs_moved *m);
	/* Is the owner to hear of each arrival (`arrived`)? No: a look is enough. In a channel
	 * without rings it always is. Look once more after yes. */
	void (*rx_listen)(struct xs_chan *c, bool on);

	/* --- rest and end ------------------------------------------------------------------------
	 */
	/* Nothing has moved for some milliseconds: memory that can be had again goes back. */
	void (*idle)(struct xs_chan *c);
	/* The connection is gone: later segments for its id are answered PEER_GONE if `reset`, else
	 * dropped (RETURN_ME without SWITCHED is answered RETURNED, rule 4). Frees the channel. */
	void (*close)(struct xs_chan *c, bool reset);
};

struct xs_chan_base {
	const struct xs_chan_ops *ops;
	const struct xs_chan_events *events;
	void *user;
	uint64_t link_id; /* which link, for stats: one number per link of this process */
};

static inline const struct xs_chan_ops *xs_chan_ops(const struct xs_chan *c)
{
	return ((const struct xs_chan_base *)c)->ops;
}

#endif

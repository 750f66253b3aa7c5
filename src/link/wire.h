/* SPDX-License-Identifier: MIT */
/*
 * What two shims say to each other: fixed width, little-endian, asserted. Printed into DESIGN.md.
 * Everything read from a peer is copied out before it is checked.
 */
#ifndef XS_LINK_WIRE_H
#define XS_LINK_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define XS_WIRE_VERSION 1

/* Kinds of segments. S->R: from the sender of the direction; R->S: from its receiver. */
enum xs_kind {
	XS_K_DATA = 1,	/* S->R: length bytes at offset */
	XS_K_FIN,	/* S->R: the stream ends at offset */
	XS_K_PREPARE,	/* S->R: may I upgrade? offset = bytes that the kernel says are acknowledged
			 */
	XS_K_READY,	/* R->S: yes; offset = bytes that the kernel has received */
	XS_K_SWITCHED,	/* R->S: application and twin stand at X; reading the plane */
	XS_K_ACK,	/* R->S: offset = bytes consumed; FIN consumed counts one more */
	XS_K_RETURN_ME, /* R->S: give the stream back; offset = C; flag SWITCHED */
	XS_K_RETURNED,	/* S->R: answer to a RETURN_ME without SWITCHED */
	XS_K_FLUSHED,	/* S->R: all bytes of this epoch's return are in the twin */
	XS_K_PEER_GONE, /* either: the connection is closed here; RST */
	XS_K_CREDIT,	/* link: offset = small entries granted so far, ack = bulk entries */
	XS_K_PAIR_ASK,	/* link: payload xs_pair_ask */
	XS_K_PAIR_ANSWER, /* link: payload xs_pair_answer */
	XS_K_PAIR_DONE,	  /* link: payload xs_pair_done: the asker's last word */
	XS_K_HELLO,	  /* link: payload xs_hello, the first message on a new link, both ways */
	XS_K_BYE,	  /* link: it is going away in good order; its streams return first */
	XS_K_MAX
};

enum xs_seg_flag {
	XS_F_FIRST = 1,	    /* DATA, FIN: offset is X */
	XS_F_CONFIRMED = 2, /* DATA, FIN: S has SWITCHED */
	XS_F_SWITCHED = 4,  /* RETURN_ME: R had sent SWITCHED */
	XS_F_WANT_ACK = 8,  /* DATA: S needs room; acknowledge once this is consumed */
	XS_F_RING = 16, /* DATA: no bytes: they're in a ring; with FIRST: xs_ring_name says which */
};

/*
 * id names the receiver's connection (0: the link itself), generation guards against its reuse.
 * epoch is that of the direction the message is about. ack and ack_epoch carry the consumption of
 * the other direction in every segment of a connection (ack_epoch 0: none).
 */
struct xs_seghdr {
	uint32_t id;
	uint16_t generation;
	uint16_t epoch;
	uint16_t ack_epoch;
	uint8_t kind;
	uint8_t flags;
	uint32_t length;
	uint64_t offset;
	uint64_t ack;
};
static_assert(sizeof(struct xs_seghdr) == 32, "segment header is 32 bytes");
static_assert(offsetof(struct xs_seghdr, length) == 12 &&
		      offsetof(struct xs_seghdr, offset) == 16 &&
		      offsetof(struct xs_seghdr, ack) == 24,
	      "segment header has no holes");

/* Payload of FIRST with RING: the ring that carries this epoch's bytes, from X on. */
struct xs_ring_name {
	uint32_t number; /* of those that the sender may write */
	uint32_t use;	 /* the receiver says so when it has done with it */
};
static_assert(sizeof(struct xs_ring_name) == 8, "ring name");

/* The only foreign bytes ever written into a twin: design 2.3, Invariant D. */
struct xs_return_frame {
	uint8_t secret[16];
	uint16_t sequence; /* frames on this direction so far */
	uint16_t epoch;
	uint32_t kept; /* bytes that follow and were on the plane: behind them the epoch is over */
	uint64_t a;    /* the stream goes on from here */
};
static_assert(sizeof(struct xs_return_frame) == 32, "RETURN frame is 32 bytes");

/* An end of a TCP connection; IPv4 as ::ffff:a.b.c.d. Port in host order. */
struct xs_wire_addr {
	uint8_t ip[16];
	uint16_t port;
	uint16_t zero;
};
static_assert(sizeof(struct xs_wire_addr) == 20, "address is 20 bytes");

struct xs_hello {
	uint8_t version; /* must be equal */
	uint8_t zero[3];
	uint32_t features;   /* ANDed */
	uint8_t process[16]; /* random, one per process: recognises a second link to the same one */
	uint32_t small_entries, bulk_entries; /* receive entries granted from the start */
	uint32_t small_size, bulk_size;	      /* largest segment (header and payload) per lane */
};
static_assert(sizeof(struct xs_hello) == 40, "hello is 40 bytes");

/* Stream bytes of the asker's two directions as its kernel counts them (design 2.1, 3). */
struct xs_proof {
	uint64_t acked;	   /* what I wrote and your kernel has acknowledged */
	uint64_t written;  /* what I wrote */
	uint64_t received; /* what my kernel has received */
};

struct xs_pair_ask {
	struct xs_wire_addr asker, answerer; /* the two ends as the asker sees them */
	uint32_t id;			     /* the asker's id for the connection */
	uint16_t generation;
	uint16_t zero;
	uint64_t nonce; /* repeated in the answer */
	uint8_t secret[16];
	struct xs_proof proof;
};
static_assert(sizeof(struct xs_pair_ask) == 96, "pair ask");

struct xs_pair_answer {
	uint64_t nonce;
	uint32_t id;
	uint16_t generation;
	uint16_t reason;   /* 0: paired; else an xs_reason */
	uint32_t retry_ms; /* with a reason: ask again after; 0: never */
	uint32_t asker_id;
	struct xs_proof proof;
};
static_assert(sizeof(struct xs_pair_answer) == 48, "pair answer");

/* The answerer says nothing on the connection's behalf before this, or a segment, has come. */
struct xs_pair_done {
	uint32_t id; /* the answerer's */
	uint16_t generation;
	uint16_t reason; /* 0: paired; else the channel is void */
};
static_assert(sizeof(struct xs_pair_done) == 8, "pair done");

#endif

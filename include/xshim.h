/* SPDX-License-Identifier: MIT */
/*
 * libxshim's public header: the layout of the state file that each process under the shim
 * publishes, <stats_dir>/xshim.<uid>.<pid>.<starttime>. Tools may map it read-only and read it at
 * any time; `xshim stat` does. Counters are exact, each on its own; a row is consistent when its
 * `seq` is even and the same before and after reading it. Native byte order and C11 atomics: for
 * tools on the same machine only.
 */
#ifndef XSHIM_H
#define XSHIM_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define XSHIM_VERSION "0.1.0"
#define XSHIM_WIRE 1 /* what two shims say to each other; must be equal */
#define XSHIM_STATE_MAGIC 0x314d494853780a0dull
#define XSHIM_STATE_VERSION 1

/* Where a direction's bytes go now. `test` exists in the test library only. */
#define XSHIM_PLANE_LIST(X) \
	X(KERNEL, "kernel") \
	X(RC, "rc") X(SHM, "shm") X(TEST, "test")
#define XSHIM_ID(id, name) XSHIM_##id,
enum { XSHIM_PLANE_LIST(XSHIM_ID) XSHIM_PLANES };

/* A sending direction on its way between planes (DESIGN.md: S), and a receiving one (R). */
#define XSHIM_TX_LIST(X)  \
	X(KERN, "kern")   \
	X(PREP, "prep")   \
	X(READY, "ready") \
	X(PLANE, "plane") X(SWD, "swd") X(RET, "ret") X(DONE, "done")
#define XSHIM_TX_ID(id, name) XSHIM_TX_##id,
enum { XSHIM_TX_LIST(XSHIM_TX_ID) XSHIM_TX_STATES };

#define XSHIM_RX_LIST(X) X(KERN, "kern") X(OPEN, "open") X(PLANE, "plane")
#define XSHIM_RX_ID(id, name) XSHIM_RX_##id,
enum { XSHIM_RX_LIST(XSHIM_RX_ID) XSHIM_RX_STATES };

enum { XSHIM_ROLE_UNKNOWN, XSHIM_ROLE_CONNECTED, XSHIM_ROLE_ACCEPTED };

/* request_fd: a descriptor, or one of these. */
enum { XSHIM_REQUEST_ALL = -1, XSHIM_REQUEST_COUNTERS = -2 };

/* One direction of one connection. */
struct xshim_dir {
	_Atomic uint8_t plane;	 /* XSHIM_KERNEL ... */
	_Atomic uint8_t state;	 /* XSHIM_TX_ or XSHIM_RX_KERN ... */
	_Atomic uint16_t epoch;	 /* of the last upgrade */
	_Atomic uint16_t reason; /* why it isn't on a better plane; 0: it is on the best */
	uint16_t zero;
	_Atomic uint64_t bytes[XSHIM_PLANES];
	_Atomic uint32_t upgrades, returns;
};
static_assert(sizeof(struct xshim_dir) == 48, "state: direction");

struct xshim_conn {
	_Atomic uint32_t seq;		/* odd while the row is being changed (not its counters) */
	_Atomic uint32_t used;		/* 0: a free row */
	_Atomic int32_t fd;		/* a descriptor of it, -1: closed, still draining */
	uint32_t id;			/* our id for the peer's segments; 0 before pairing */
	uint8_t role;			/* XSHIM_ROLE_UNKNOWN ... */
	uint8_t family;			/* 4, 6 */
	uint16_t local_port, peer_port; /* host order */
	uint16_t wire;			/* wire version in use; 0 before pairing */
	uint8_t local_ip[16], peer_ip[16]; /* IPv4: the first four bytes */
	uint64_t link;			   /* which link of this process; 0: none */
	struct xshim_dir rx, tx;
};
static_assert(sizeof(struct xshim_conn) == 160, "state: connection");

struct xshim_state {
	_Atomic uint64_t magic; /* written last */
	uint32_t version;	/* of this layout */
	_Atomic uint32_t rows;	/* rows that the file has room for now; grows */
	int32_t pid;
	uint32_t uid;
	uint64_t starttime; /* field 22 of /proc/PID/stat */
	char program[64];
	char library[16]; /* XSHIM_VERSION */
	uint32_t wire;
	_Atomic uint32_t overflow; /* connections that found no row in the file */
	/* Process-wide counters. */
	_Atomic uint64_t links, wire_posts, wire_signalled, wire_rnr, registrations, dropped;
	/*
	 * Requests to the process, with one pwrite(2) of the first two under flock(2): a new
	 * request_fd, and request increased by one. The process sets answered to request.
	 * XSHIM_REQUEST_ALL or a descriptor: back to TCP, and stay there; XSHIM_REQUEST_COUNTERS:
	 * bring the counters above up to date. Before it is watching, nothing has ever left TCP; it
	 * answers when it begins to watch.
	 */
	_Atomic int32_t request_fd;
	_Atomic uint32_t request, answered, watching;
	uint64_t pid_ns; /* inode of /proc/self/ns/pid: pid means nothing elsewhere */
	uint32_t pad[16];
	struct xshim_conn conn[];
};
static_assert(offsetof(struct xshim_state, conn) == 256, "state: head");
static_assert(offsetof(struct xshim_state, request) ==
		      offsetof(struct xshim_state, request_fd) + sizeof(int32_t),
	      "state: one write");

#endif

/* SPDX-License-Identifier: MIT */
/* The carrier through which the fuzzer plays a peer that breaks every rule (hostile_link.c). */
#ifndef XS_TESTS_FUZZ_HOSTILE_H
#define XS_TESTS_FUZZ_HOSTILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "link/ids.h"
#include "link/linkage.h"

/* The link of this input: what the library posted last, by kind. */
struct hostile {
	_Atomic uint32_t posted; /* bits of kinds, until awaited */
	struct xs_seghdr last[XS_K_MAX];
	union {
		struct xs_hello hello;
		struct xs_pair_ask ask;
		struct xs_pair_answer answer;
	} said[XS_K_MAX];
};
extern struct hostile hostile;

/* The connection of this input: its two ends, and the victim's name for it (hostile_pair.c). */
extern int victim_fd, peer_fd;
extern struct xs_id_key theirs;
void hostile_connect(bool victim_connects);
void hostile_pair(bool victim_connects, uint32_t entries);

/* Runs fn in the progress thread and waits for its end. */
void hostile_in_progress(void (*fn)(void));
/* A link from the peer to our rendezvous. False: no memory. */
bool hostile_incoming(void);
/* The library has asked for a link, and it is up now. */
bool hostile_connected(void);
/* Waits until the library has posted another message of this kind; not for ever. */
bool hostile_await(enum xs_kind kind);
/* A segment with n bytes of payload. */
void hostile_says(enum xs_lane lane, struct xs_seghdr h, const void *payload, uint32_t n);
/* Posts complete: all but the last `keep` of each lane. */
void hostile_completes(unsigned keep);
/* The next posts find the send queue full, or no longer. */
void hostile_full(bool full);
/* The link dies, if there is one. */
void hostile_dies(void);

#endif

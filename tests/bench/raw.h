/* SPDX-License-Identifier: MIT */
/*
 * The raw verbs reference: one RC queue pair between two processes, set up through rdma_cm, and
 * three loads on it (raw_modes.c). It is what the shim is judged against: no shim, no sockets.
 *
 * Each end has send slots and receive slots of one registered buffer. Receives are posted before
 * the connection exists and before the peer may answer, so RNR can't happen. Two completion queues
 * share one completion channel: sends are signalled now and then, receives always.
 */
#ifndef RAW_H
#define RAW_H

#include "bench.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

enum raw_mode { RAW_PINGPONG, RAW_STREAM, RAW_REQUESTS };

/* Travels as rdma_cm's private data (56 bytes at most): the server learns everything from it. */
struct raw_params {
	uint32_t mode, wait;
	uint32_t size, reply; /* bytes of a message and of its answer */
	uint32_t depth;	      /* send slots of a stream, requests in flight */
	uint32_t pad;
	uint64_t rounds, warm; /* messages in all, and those not counted */
};

struct raw_end {
	struct raw_params params;
	bool is_server;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	bool send_armed, recv_armed;
	bool wants_sends; /* a wait also ends on send completions */
	struct ibv_mr *mr;
	char *memory;
	uint32_t send_size, send_slots;
	uint32_t recv_size, recv_slots;
	uint32_t inline_max;
	uint64_t sends_posted, sends_done;
};

enum { RAW_BATCH = 32 };

/* raw_conn.c */
void raw_serve(struct raw_end *end, const char *host, const char *port);
void raw_connect(struct raw_end *end, const char *host, const char *port);
void raw_finish(struct raw_end *end);
char *raw_send_slot(struct raw_end *end, uint64_t index);
char *raw_recv_slot(struct raw_end *end, uint64_t index);
void raw_post_recv(struct raw_end *end, uint64_t index, uint32_t count);
/* Posts the slots index .. index + count - 1 as one list, each with size bytes. */
void raw_post_send(struct raw_end *end, uint64_t index, uint32_t count, uint32_t size);
/*
 * Waits as params.wait says until receives have completed, or sends if wants_sends; returns how
 * many receives. Slots complete in order, so a count is all that a caller needs.
 */
int raw_wait(struct raw_end *end);

/* raw_modes.c */
void raw_size_slots(struct raw_end *end);
void raw_run(struct raw_end *end);

#endif

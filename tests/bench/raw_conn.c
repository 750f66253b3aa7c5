// SPDX-License-Identifier: MIT
/* Raw verbs reference: the queue pair, its slots, posting and waiting; see raw.h. */
#include "raw.h"

#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	RESOLVE_MS = 2000,
	ACK_TIMEOUT = 14, /* 4.096 us << 14 = 67 ms */
	RETRIES = 6,	  /* 7 would mean for ever on soft-RoCE */
	RNR_TIMER = 1,	  /* 10 us; rdma_cm's default means 655 ms */
	SIGNAL_EVERY = 16,
	SEND_SLACK = 64,
};

static void expect_event(struct raw_end *end, enum rdma_cm_event_type type, struct rdma_cm_id **id,
			 struct raw_params *params)
{
	struct rdma_cm_event *event;

	errno = 0;
	if (rdma_get_cm_event(end->events, &event))
		bench_die("rdma_cm event");
	if (event->event != type)
		bench_die("rdma_cm says %s (status %d), expected %s", rdma_event_str(event->event),
			  event->status, rdma_event_str(type));
	if (id)
		*id = event->id;
	if (params) {
		if (event->param.conn.private_data_len < sizeof(*params))
			bench_die("short private data");
		memcpy(params, event->param.conn.private_data, sizeof(*params));
	}
	rdma_ack_cm_event(event);
}

static struct sockaddr_storage resolve(const char *host, const char *port, socklen_t *length)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
	struct addrinfo *found;
	struct sockaddr_storage address;
	int error = getaddrinfo(host, port, &hints, &found);

	errno = 0;
	if (error)
		bench_die("%s port %s: %s", host, port, gai_strerror(error));
	memcpy(&address, found->ai_addr, found->ai_addrlen);
	*length = found->ai_addrlen;
	freeaddrinfo(found);
	return address;
}

static void make_memory(struct raw_end *end)
{
	size_t sends = (size_t)end->send_size * end->send_slots;
	size_t recvs = (size_t)end->recv_size * end->recv_slots;

	if (posix_memalign((void **)&end->memory, 4096, sends + recvs))
		bench_die("no memory for the slots");
	memset(end->memory, 0, sends + recvs);
	end->mr = ibv_reg_mr(end->id->pd, end->memory, sends + recvs, IBV_ACCESS_LOCAL_WRITE);
	if (!end->mr)
		bench_die("ibv_reg_mr of %zu bytes", sends + recvs);
}

static void make_queue_pair(struct raw_end *end)
{
	uint32_t sends = end->send_slots + SEND_SLACK;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap =
			{
				.max_send_wr = sends,
				.max_recv_wr = end->recv_slots,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = end->send_size <= 256 ? 256 : 0,
			},
	};
	uint8_t timeout = ACK_TIMEOUT;

	end->channel = ibv_create_comp_channel(end->id->verbs);
	if (!end->channel)
		bench_die("completion channel");
	end->send_cq = ibv_create_cq(end->id->verbs, (int)sends, NULL, end->channel, 0);
	end->recv_cq = ibv_create_cq(end->id->verbs, (int)end->recv_slots, NULL, end->channel, 0);
	if (!end->send_cq || !end->recv_cq)
		bench_die("completion queue");
	init.send_cq = end->send_cq;
	init.recv_cq = end->recv_cq;
	if (rdma_create_qp(end->id, NULL, &init))
		bench_die("queue pair");
	end->inline_max = init.cap.max_inline_data;
	/* Only before the connection exists: afterwards rdma_cm doesn't apply it. */
	if (rdma_set_option(end->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			    sizeof(timeout)))
		bench_die("ack timeout");
	make_memory(end);
	raw_post_recv(end, 0, end->recv_slots);
}

static void set_rnr_timer(struct raw_end *end)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = RNR_TIMER};

	if (ibv_modify_qp(end->id->qp, &attr, IBV_QP_MIN_RNR_TIMER))
		bench_die("min_rnr_timer");
}

static struct rdma_conn_param conn_param(const struct raw_params *params)
{
	struct rdma_conn_param param = {
		.private_data = params,
		.private_data_len = params ? sizeof(*params) : 0,
		.retry_count = RETRIES,
		.rnr_retry_count = RETRIES,
	};

	return param;
}

void raw_serve(struct raw_end *end, const char *host, const char *port)
{
	struct rdma_cm_id *listener;
	struct rdma_conn_param param = conn_param(NULL);
	struct sockaddr_storage address;
	socklen_t length;

	end->is_server = true;
	address = resolve(host, port, &length);
	end->events = rdma_create_event_channel();
	if (!end->events || rdma_create_id(end->events, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&address) || rdma_listen(listener, 1))
		bench_die("rdma_cm listen on %s port %s", host, port);
	printf("listening %u\n", ntohs(rdma_get_src_port(listener)));
	fflush(stdout);
	expect_event(end, RDMA_CM_EVENT_CONNECT_REQUEST, &end->id, &end->params);
	raw_size_slots(end);
	make_queue_pair(end);
	if (rdma_accept(end->id, &param))
		bench_die("rdma_accept");
	expect_event(end, RDMA_CM_EVENT_ESTABLISHED, NULL, NULL);
	set_rnr_timer(end);
	rdma_destroy_id(listener);
}

void raw_connect(struct raw_end *end, const char *host, const char *port)
{
	struct rdma_conn_param param = conn_param(&end->params);
	struct sockaddr_storage address;
	socklen_t length;

	address = resolve(host, port, &length);
	end->events = rdma_create_event_channel();
	if (!end->events || rdma_create_id(end->events, &end->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(end->id, NULL, (struct sockaddr *)&address, RESOLVE_MS))
		bench_die("rdma_cm address %s", host);
	expect_event(end, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, NULL);
	if (rdma_resolve_route(end->id, RESOLVE_MS))
		bench_die("rdma_cm route to %s", host);
	expect_event(end, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, NULL);
	raw_size_slots(end);
	make_queue_pair(end);
	if (rdma_connect(end->id, &param))
		bench_die("rdma_connect");
	expect_event(end, RDMA_CM_EVENT_ESTABLISHED, NULL, NULL);
	set_rnr_timer(end);
}

/* The client hangs up; the server stays until then, so that its last send gets acknowledged. */
void raw_finish(struct raw_end *end)
{
	if (!end->is_server)
		rdma_disconnect(end->id);
	expect_event(end, RDMA_CM_EVENT_DISCONNECTED, NULL, NULL);
	rdma_destroy_qp(end->id);
	ibv_dereg_mr(end->mr);
	ibv_destroy_cq(end->send_cq);
	ibv_destroy_cq(end->recv_cq);
	ibv_destroy_comp_channel(end->channel);
	rdma_destroy_id(end->id);
	rdma_destroy_event_channel(end->events);
	free(end->memory);
}

char *raw_send_slot(struct raw_end *end, uint64_t index)
{
	return end->memory + (size_t)(index % end->send_slots) * end->send_size;
}

char *raw_recv_slot(struct raw_end *end, uint64_t index)
{
	return end->memory + (size_t)end->send_slots * end->send_size +
	       (size_t)(index % end->recv_slots) * end->recv_size;
}

void raw_post_recv(struct raw_end *end, uint64_t index, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)raw_recv_slot(end, index + i),
			.length = end->recv_size,
			.lkey = end->mr->lkey,
		};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
		struct ibv_recv_wr *bad;

		errno = ibv_post_recv(end->id->qp, &wr, &bad);
		if (errno)
			bench_die("ibv_post_recv");
	}
}

static void fill_send(struct raw_end *end, struct ibv_send_wr *wr, struct ibv_sge *sge,
		      uint64_t index, uint32_t size)
{
	uint32_t every = end->send_slots < SIGNAL_EVERY ? (end->send_slots + 3) / 4 : SIGNAL_EVERY;

	memset(wr, 0, sizeof(*wr));
	sge->addr = (uintptr_t)raw_send_slot(end, index);
	sge->length = size;
	sge->lkey = end->mr->lkey;
	wr->wr_id = ++end->sends_posted;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->opcode = IBV_WR_SEND;
	wr->send_flags = size <= end->inline_max ? IBV_SEND_INLINE : 0;
	if (end->sends_posted % every == 0)
		wr->send_flags |= IBV_SEND_SIGNALED;
}

void raw_post_send(struct raw_end *end, uint64_t index, uint32_t count, uint32_t size)
{
	struct ibv_send_wr wr[RAW_BATCH], *bad;
	struct ibv_sge sge[RAW_BATCH];

	for (uint32_t i = 0; i < count; i++) {
		fill_send(end, &wr[i], &sge[i], index + i, size);
		wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
	}
	errno = ibv_post_send(end->id->qp, wr, &bad);
	if (errno)
		bench_die("ibv_post_send");
}

static int poll_queue(struct raw_end *end, struct ibv_cq *cq)
{
	struct ibv_wc wc[RAW_BATCH];
	int got = ibv_poll_cq(cq, RAW_BATCH, wc);

	errno = 0;
	if (got < 0)
		bench_die("ibv_poll_cq");
	for (int i = 0; i < got; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			bench_die("completion: %s", ibv_wc_status_str(wc[i].status));
		if (cq == end->send_cq)
			end->sends_done = wc[i].wr_id;
	}
	return got;
}

static void sleep_for_event(struct raw_end *end)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(end->channel, &cq, &context))
		bench_die("completion event");
	ibv_ack_cq_events(cq, 1);
	if (cq == end->send_cq)
		end->send_armed = false;
	else
		end->recv_armed = false;
}

/* True if a queue was armed now: completions may have come before, so poll once more. */
static bool arm(struct raw_end *end)
{
	bool armed = false;

	if (!end->recv_armed) {
		ibv_req_notify_cq(end->recv_cq, 0);
		end->recv_armed = armed = true;
	}
	if (end->wants_sends && !end->send_armed) {
		ibv_req_notify_cq(end->send_cq, 0);
		end->send_armed = armed = true;
	}
	return armed;
}

int raw_wait(struct raw_end *end)
{
	for (;;) {
		int sends = poll_queue(end, end->send_cq);
		int recvs = poll_queue(end, end->recv_cq);

		if (recvs > 0 || (sends > 0 && end->wants_sends))
			return recvs;
		if (end->params.wait == BENCH_YIELD)
			sched_yield();
		else if (!arm(end))
			sleep_for_event(end);
	}
}

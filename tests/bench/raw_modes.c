// SPDX-License-Identifier: MIT
/*
 * Raw verbs reference: the three loads.
 *
 * pingpong  one message each way in turn.
 * stream    SEND of one write's size into receive buffers, one copy on each side (application
 *           buffer to send slot, receive slot to application buffer), the application's buffers
 *           being of the write's size. The receiver returns credits, a quarter of its slots at a
 *           time, and its last credit carries the figures of its own clock.
 * requests  depth small requests in flight on one queue pair, each answered; both ends batch what
 *           has arrived. It's the most that a redis with depth clients could get from this stack.
 */
#include "raw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From the stream's receiver to its sender. */
struct credit {
	uint64_t consumed;
	uint64_t elapsed_ns; /* 0 but in the last */
	uint64_t bytes;
};

enum { PINGPONG_SLOTS = 16, CREDIT_SLOTS = 16 };

static uint32_t stream_window(const struct raw_end *end)
{
	return end->params.depth * 2;
}

static void slots(struct raw_end *end, uint32_t sends, uint32_t send_size, uint32_t recvs,
		  uint32_t recv_size)
{
	end->send_slots = sends;
	end->send_size = send_size;
	end->recv_slots = recvs;
	end->recv_size = recv_size;
}

void raw_size_slots(struct raw_end *end)
{
	const struct raw_params *p = &end->params;
	uint32_t there = end->is_server ? p->reply : p->size;
	uint32_t back = end->is_server ? p->size : p->reply;

	errno = 0;
	if (p->size == 0 || p->reply == 0 || p->depth == 0 || p->depth > 4096 ||
	    p->rounds <= p->warm)
		bench_die("parameters out of range");
	if (p->mode == RAW_PINGPONG)
		slots(end, PINGPONG_SLOTS, p->size, PINGPONG_SLOTS, p->size);
	else if (p->mode == RAW_REQUESTS)
		slots(end, p->depth + RAW_BATCH, there, p->depth + RAW_BATCH, back);
	else if (end->is_server)
		slots(end, CREDIT_SLOTS, sizeof(struct credit), stream_window(end), p->size);
	else
		slots(end, p->depth, p->size, CREDIT_SLOTS, sizeof(struct credit));
}

static void wait_one(struct raw_end *end, uint64_t index)
{
	/* The peer has at most one message under way, so this is exactly one. */
	raw_wait(end);
	raw_post_recv(end, index, 1);
}

static void pingpong_server(struct raw_end *end)
{
	for (uint64_t i = 0; i < end->params.rounds; i++) {
		wait_one(end, i);
		raw_post_send(end, i, 1, end->params.size);
	}
}

static void pingpong_client(struct raw_end *end)
{
	const struct raw_params *p = &end->params;
	struct bench_samples samples;
	uint64_t started = 0;

	bench_samples_init(&samples, p->rounds - p->warm);
	for (uint64_t i = 0; i < p->rounds; i++) {
		uint64_t before = bench_now_ns();

		if (i == p->warm)
			started = before;
		raw_post_send(end, i, 1, p->size);
		wait_one(end, i);
		if (i >= p->warm)
			bench_samples_add(&samples, bench_now_ns() - before);
	}
	bench_samples_print(&samples, bench_now_ns() - started);
}

static void send_credit(struct raw_end *end, uint64_t index, const struct credit *credit)
{
	memcpy(raw_send_slot(end, index), credit, sizeof(*credit));
	raw_post_send(end, index, 1, sizeof(*credit));
}

static void stream_server(struct raw_end *end)
{
	const struct raw_params *p = &end->params;
	uint32_t step = stream_window(end) / 4 ? stream_window(end) / 4 : 1;
	char *buffer = bench_alloc(p->size);
	struct credit credit = {0};
	uint64_t started = p->warm ? 0 : bench_now_ns();
	uint64_t credits = 0;

	while (credit.consumed < p->rounds) {
		int got = raw_wait(end);

		for (int i = 0; i < got; i++) {
			memcpy(buffer, raw_recv_slot(end, credit.consumed), p->size);
			raw_post_recv(end, credit.consumed++, 1);
			if (credit.consumed == p->warm)
				started = bench_now_ns();
			if (credit.consumed % step == 0 && credit.consumed < p->rounds)
				send_credit(end, credits++, &credit);
		}
	}
	credit.elapsed_ns = bench_now_ns() - started;
	credit.bytes = (p->rounds - p->warm) * p->size;
	send_credit(end, credits, &credit);
	free(buffer);
}

static void take_credits(struct raw_end *end, uint64_t *taken, struct credit *latest)
{
	int got = raw_wait(end);

	for (int i = 0; i < got; i++) {
		memcpy(latest, raw_recv_slot(end, *taken), sizeof(*latest));
		raw_post_recv(end, (*taken)++, 1);
	}
}

static void stream_client(struct raw_end *end)
{
	const struct raw_params *p = &end->params;
	char *buffer = bench_alloc(p->size);
	struct credit latest = {0};
	uint64_t taken = 0;

	end->wants_sends = true;
	for (uint64_t sent = 0; sent < p->rounds; sent++) {
		while (sent - latest.consumed >= stream_window(end) ||
		       sent - end->sends_done >= end->send_slots)
			take_credits(end, &taken, &latest);
		memcpy(raw_send_slot(end, sent), buffer, p->size);
		raw_post_send(end, sent, 1, p->size);
	}
	end->wants_sends = false;
	while (latest.elapsed_ns == 0)
		take_credits(end, &taken, &latest);
	printf("{\"mb_s\": %.2f, \"bytes\": %llu, \"seconds\": %.3f, \"depth\": %u}\n",
	       (double)latest.bytes * 1e3 / (double)latest.elapsed_ns,
	       (unsigned long long)latest.bytes, (double)latest.elapsed_ns / 1e9, p->depth);
	free(buffer);
}

static void requests_server(struct raw_end *end)
{
	uint64_t done = 0;

	while (done < end->params.rounds) {
		int got = raw_wait(end);

		raw_post_recv(end, done, (uint32_t)got);
		raw_post_send(end, done, (uint32_t)got, end->params.reply);
		done += (uint64_t)got;
	}
}

static void requests_client(struct raw_end *end)
{
	const struct raw_params *p = &end->params;
	uint64_t *sent_ns = bench_alloc(p->depth * sizeof(*sent_ns));
	uint64_t sent = 0, done = 0, started = 0;
	struct bench_samples samples;

	bench_samples_init(&samples, p->rounds - p->warm);
	while (done < p->rounds) {
		uint64_t room = done + p->depth < p->rounds ? done + p->depth : p->rounds;
		uint64_t now = bench_now_ns();

		for (uint32_t step; sent < room; sent += step) {
			step = room - sent < RAW_BATCH ? (uint32_t)(room - sent) : RAW_BATCH;
			for (uint32_t i = 0; i < step; i++)
				sent_ns[(sent + i) % p->depth] = now;
			raw_post_send(end, sent, step, p->size);
		}
		for (int got = raw_wait(end); got > 0; got--, done++) {
			raw_post_recv(end, done, 1);
			if (done == p->warm)
				started = bench_now_ns();
			if (done >= p->warm)
				bench_samples_add(&samples,
						  bench_now_ns() - sent_ns[done % p->depth]);
		}
	}
	bench_samples_print(&samples, bench_now_ns() - started);
	free(sent_ns);
}

void raw_run(struct raw_end *end)
{
	static void (*const load[][2])(struct raw_end *) = {
		[RAW_PINGPONG] = {pingpong_client, pingpong_server},
		[RAW_STREAM] = {stream_client, stream_server},
		[RAW_REQUESTS] = {requests_client, requests_server},
	};

	errno = 0;
	if (end->params.mode > RAW_REQUESTS)
		bench_die("unknown mode %u", end->params.mode);
	load[end->params.mode][end->is_server](end);
}

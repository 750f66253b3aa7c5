/* SPDX-License-Identifier: MIT */
/* Reassembly against an array of bytes: random pieces, twice, overlapping, kept or copied. */
#include "check.h"
#include "link/reasm.h"

#include <stdlib.h>

#define STREAM 60000u

static uint8_t stream[STREAM];
static bool there[STREAM];
static int kept;

static uint32_t state = 12345;

static uint32_t rnd(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % n;
}

static void give_back(void *arg, struct xs_rxbuf *buf)
{
	(void)arg;
	kept--;
	memset(buf->payload, 0xee, buf->length);
	free(buf->payload);
	free(buf);
}

/* A buffer of its own, so that a sanitizer sees a use after it was given back. */
static struct xs_rxbuf *make(uint64_t offset, uint32_t n)
{
	struct xs_rxbuf *b = calloc(1, sizeof(*b));

	b->payload = malloc(n + 1);
	b->length = n;
	memcpy(b->payload, stream + offset, n);
	return b;
}

static void send_piece(struct xs_reasm *r, uint64_t offset, uint32_t n, bool may_keep)
{
	struct xs_rxbuf *b = make(offset, n);
	enum xs_placed got;

	kept++;
	got = xs_reasm_place(r, offset, b->payload, n, may_keep ? b : NULL);
	CHECK(got != XS_PLACED_BAD && got != XS_PLACED_NO_MEMORY);
	if (got != XS_PLACED_KEPT)
		give_back(NULL, b);
	for (uint32_t i = 0; i < n; i++)
		if (offset + i >= r->at)
			there[offset + i] = true;
}

static uint64_t contiguous(uint64_t from)
{
	while (from < STREAM && there[from])
		from++;
	return from;
}

static void verify(struct xs_reasm *r)
{
	struct iovec iov[4];
	size_t len, at = 0;
	int n = xs_reasm_peek(r, iov, 4, &len);

	CHECK_EQ(r->contig, contiguous(r->at));
	CHECK(len <= r->contig - r->at && (n == 4 || len == r->contig - r->at));
	for (int i = 0; i < n; i++) {
		CHECK(!memcmp(iov[i].iov_base, stream + r->at + at, iov[i].iov_len));
		at += iov[i].iov_len;
	}
}

static void fuzz_once(void)
{
	struct xs_reasm r = {.give_back = give_back};

	memset(there, 0, sizeof(there));
	xs_reasm_reset(&r, 0);
	while (r.at < STREAM) {
		uint64_t at = r.at + rnd(3000);
		uint32_t n = rnd(4) ? rnd(200) : rnd(6000);

		at = rnd(8) || at < 500 ? at : at - rnd(500);
		if (rnd(3) == 0)
			at = r.contig;
		if (at > STREAM)
			at = STREAM;
		if (n > STREAM - at)
			n = (uint32_t)(STREAM - at);
		send_piece(&r, at, n, rnd(2));
		verify(&r);
		if (rnd(4) == 0 && r.contig > r.at)
			xs_reasm_consume(&r, r.at + 1 + rnd((uint32_t)(r.contig - r.at)));
		if (rnd(200) == 0) { /* read elsewhere */
			uint64_t to = r.at + rnd(2000);

			xs_reasm_consume(&r, to < STREAM ? to : STREAM);
		}
		verify(&r);
	}
	xs_reasm_free(&r);
	CHECK_EQ(kept, 0);
}

static void test_cut(void)
{
	struct xs_reasm r = {.give_back = give_back};

	memset(there, 0, sizeof(there));
	xs_reasm_reset(&r, 100);
	send_piece(&r, 100, 50, true);
	send_piece(&r, 150, 50, false);
	send_piece(&r, 300, 10, true);
	xs_reasm_cut(&r, 160);
	CHECK_EQ(r.contig, 160);
	memset(there + 160, 0, 1000);
	verify(&r);
	xs_reasm_cut(&r, 0);
	CHECK_EQ(r.contig, 100);
	CHECK(r.head == NULL);
	xs_reasm_free(&r);
	CHECK_EQ(kept, 0);
}

static void test_nonsense(void)
{
	struct xs_reasm r = {.give_back = give_back};
	uint8_t byte = 1;

	/* The twin's queue may be long: the first offset is far ahead of the consumption. */
	xs_reasm_reset(&r, 5);
	CHECK_EQ(xs_reasm_place(&r, 9u << 20, &byte, 1, NULL), XS_PLACED_COPIED);
	CHECK_EQ(xs_reasm_place(&r, (9u << 20) + XS_WINDOW_MAX, &byte, 1, NULL), XS_PLACED_BAD);
	CHECK_EQ(xs_reasm_place(&r, 5, &byte, 1, NULL), XS_PLACED_BAD);
	CHECK_EQ(xs_reasm_place(&r, (9u << 20) - 10, &byte, 1, NULL), XS_PLACED_COPIED);
	CHECK_EQ(xs_reasm_place(&r, UINT64_MAX, &byte, 1, NULL), XS_PLACED_BAD);
	xs_reasm_consume(&r, (9u << 20) + 1);
	CHECK_EQ(xs_reasm_place(&r, (9u << 20) + XS_WINDOW_MAX, &byte, 1, NULL), XS_PLACED_COPIED);
	xs_reasm_free(&r);
}

/* Single bytes with gaps between them: memory for some windows, not two thousand. */
static void test_crumbs(void)
{
	struct xs_reasm r = {.give_back = give_back};
	enum xs_placed got = XS_PLACED_COPIED;
	uint8_t byte = 1;
	uint64_t at;

	xs_reasm_reset(&r, 0);
	for (at = 1; at < XS_WINDOW_MAX && got == XS_PLACED_COPIED; at += 2)
		got = xs_reasm_place(&r, at, &byte, 1, NULL);
	CHECK_EQ(got, XS_PLACED_BAD);
	CHECK(r.room <= 4u * XS_WINDOW_MAX);
	xs_reasm_reset(&r, 0);
	CHECK_EQ(r.room, 0);
	/* The worst that an honest sender does: pieces that just don't fit behind each other. */
	for (at = 0; at + 1025 <= XS_WINDOW_MAX; at += 1025) {
		uint8_t some[1025] = {0};

		CHECK_EQ(xs_reasm_place(&r, at, some, sizeof(some), NULL), XS_PLACED_COPIED);
	}
	xs_reasm_free(&r);
	CHECK_EQ(r.room, 0);
}

int main(void)
{
	for (uint32_t i = 0; i < STREAM; i++)
		stream[i] = (uint8_t)(i * 7 + i / 251);
	for (int i = 0; i < 60; i++)
		fuzz_once();
	test_cut();
	test_nonsense();
	test_crumbs();
	return check_done();
}

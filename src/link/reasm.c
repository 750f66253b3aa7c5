/* SPDX-License-Identifier: MIT */
/*
 * Reassembly. Segments come in any order over two lanes, some twice; pieces are kept in a list that
 * is ordered by offset and never overlaps. Nearly all segments extend the last piece or follow it,
 * so the list is searched from its end.
 *
 * A small payload is copied, into the last piece's spare room if it follows it. A bulk payload
 * stays in the carrier's buffer if the caller allows it and nothing of it is there already; else
 * its gaps are copied.
 *
 * Memory is bounded by offsets, as all of an epoch's bytes that aren't consumed lie within one
 * window, and by itself: tiny pieces with gaps between them would take much more than their bytes.
 */
#include "link/reasm.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_MOST (4ul * XS_WINDOW_MAX)
#define ROOM_MIN 2048u /* small pieces get room for those that follow */

struct xs_piece {
	struct xs_piece *prev, *next;
	uint64_t offset;
	uint32_t length;
	uint32_t room; /* bytes that `own` has from data on */
	uint8_t *data;
	struct xs_rxbuf *buf; /* NULL: data lies in own */
	uint8_t own[];
};

static uint64_t end_of(const struct xs_piece *p)
{
	return p->offset + p->length;
}

/* --- pieces ---------------------------------------------------------------------------------- */
static struct xs_piece *new_piece(struct xs_reasm *r, uint32_t room)
{
	struct xs_piece *p = r->spare;

	if (room && room < ROOM_MIN)
		room = ROOM_MIN;
	if (r->room + room > ROOM_MOST)
		return NULL;
	if (p && room == ROOM_MIN) {
		r->spare = NULL;
	} else {
		p = malloc(sizeof(*p) + room);
		if (!p)
			return NULL;
		p->room = room;
	}
	r->room += p->room;
	p->buf = NULL;
	p->length = 0;
	p->data = p->own;
	return p;
}

static void drop_piece(struct xs_reasm *r, struct xs_piece *p)
{
	if (p->prev)
		p->prev->next = p->next;
	else
		r->head = p->next;
	if (p->next)
		p->next->prev = p->prev;
	else
		r->tail = p->prev;
	r->room -= p->room;
	if (p->buf)
		r->give_back(r->arg, p->buf);
	if (!p->buf && p->room == ROOM_MIN && !r->spare)
		r->spare = p;
	else
		free(p);
}

/* Behind `before` (NULL: at the head). */
static void insert(struct xs_reasm *r, struct xs_piece *before, struct xs_piece *p)
{
	p->prev = before;
	p->next = before ? before->next : r->head;
	if (p->prev)
		p->prev->next = p;
	else
		r->head = p;
	if (p->next)
		p->next->prev = p;
	else
		r->tail = p;
}

/* --- placing --------------------------------------------------------------------------------- */
static bool append(struct xs_piece *p, uint64_t offset, const void *from, uint32_t n)
{
	size_t used;

	if (!p || p->buf || end_of(p) != offset)
		return false;
	used = (size_t)(p->data - p->own) + p->length;
	if (p->room - used < n)
		return false;
	memcpy(p->own + used, from, n);
	p->length += n;
	return true;
}

/* Fills the gap [offset, offset + n), which lies behind `before`. */
static bool fill(struct xs_reasm *r, struct xs_piece *before, uint64_t offset, const uint8_t *from,
		 uint32_t n)
{
	struct xs_piece *p;

	if (append(before, offset, from, n))
		return true;
	p = new_piece(r, n);
	if (!p)
		return false;
	p->offset = offset;
	p->length = n;
	memcpy(p->data, from, n);
	insert(r, before, p);
	return true;
}

/* The last piece that begins at or below offset. */
static struct xs_piece *before_of(const struct xs_reasm *r, uint64_t offset)
{
	struct xs_piece *p = r->tail;

	while (p && p->offset > offset)
		p = p->prev;
	return p;
}

static enum xs_placed copy_gaps(struct xs_reasm *r, uint64_t offset, const uint8_t *from,
				uint64_t end)
{
	struct xs_piece *before = before_of(r, offset), *next;
	enum xs_placed got = XS_PLACED_NONE;
	uint64_t stop;

	while (offset < end) {
		if (before && end_of(before) > offset) {
			stop = end_of(before) < end ? end_of(before) : end;
		} else {
			next = before ? before->next : r->head;
			stop = next && next->offset < end ? next->offset : end;
			if (stop > offset &&
			    !fill(r, before, offset, from, (uint32_t)(stop - offset)))
				return XS_PLACED_NO_MEMORY;
			if (stop > offset)
				got = XS_PLACED_COPIED;
			before = next ? next : r->tail;
		}
		from += stop - offset;
		offset = stop;
		if (before && before->next && before->next->offset <= offset)
			before = before->next;
	}
	return got;
}

static bool keep_whole(struct xs_reasm *r, uint64_t offset, const void *from, uint32_t n,
		       struct xs_rxbuf *buf)
{
	struct xs_piece *before = before_of(r, offset);
	struct xs_piece *next = before ? before->next : r->head;
	struct xs_piece *p;

	if ((before && end_of(before) > offset) || (next && next->offset < offset + n))
		return false;
	p = new_piece(r, 0);
	if (!p)
		return false;
	p->offset = offset;
	p->length = n;
	p->data = (uint8_t *)(uintptr_t)from;
	p->buf = buf;
	insert(r, before, p);
	return true;
}

static void extend(struct xs_reasm *r)
{
	struct xs_piece *p = before_of(r, r->contig);

	for (; p && p->offset <= r->contig; p = p->next)
		if (end_of(p) > r->contig)
			r->contig = end_of(p);
}

static bool within_window(struct xs_reasm *r, uint64_t offset, uint64_t end)
{
	uint64_t low = offset < r->low ? offset : r->low;
	uint64_t high = end > r->high ? end : r->high;
	uint64_t from = low > r->at ? low : r->at;

	if (end < offset || (high > from && high - from > XS_WINDOW_MAX))
		return false;
	r->low = low;
	r->high = high;
	return true;
}

enum xs_placed xs_reasm_place(struct xs_reasm *r, uint64_t offset, const void *p, uint32_t n,
			      struct xs_rxbuf *keep)
{
	const uint8_t *from = p;
	uint64_t end = offset + n;
	enum xs_placed got;

	if (!within_window(r, offset, end))
		return XS_PLACED_BAD;
	if (end <= r->at || !n)
		return XS_PLACED_NONE;
	if (offset < r->at) {
		from += r->at - offset;
		offset = r->at;
	}
	if (keep && keep_whole(r, offset, from, (uint32_t)(end - offset), keep))
		got = XS_PLACED_KEPT;
	else
		got = copy_gaps(r, offset, from, end);
	if (got == XS_PLACED_NO_MEMORY && r->room > ROOM_MOST / 2)
		return XS_PLACED_BAD;
	extend(r);
	return got;
}

/* --- consuming ------------------------------------------------------------------------------- */
void xs_reasm_consume(struct xs_reasm *r, uint64_t offset)
{
	struct xs_piece *p;

	if (offset <= r->at)
		return;
	r->at = offset;
	while ((p = r->head) && end_of(p) <= offset)
		drop_piece(r, p);
	if (p && p->offset < offset) {
		p->data += offset - p->offset;
		p->length -= (uint32_t)(offset - p->offset);
		p->offset = offset;
	}
	if (r->contig < offset) {
		r->contig = offset;
		extend(r);
	}
}

void xs_reasm_cut(struct xs_reasm *r, uint64_t end)
{
	struct xs_piece *p;

	while ((p = r->tail) && p->offset >= end)
		drop_piece(r, p);
	if (p && end_of(p) > end)
		p->length = (uint32_t)(end - p->offset);
	if (r->contig > end)
		r->contig = end > r->at ? end : r->at;
}

int xs_reasm_peek(const struct xs_reasm *r, struct iovec *iov, int max, size_t *len)
{
	uint64_t at = r->at;
	int n = 0;

	for (struct xs_piece *p = r->head; p && n < max && p->offset == at; p = p->next) {
		iov[n].iov_base = p->data;
		iov[n].iov_len = p->length;
		at += p->length;
		n++;
	}
	*len = (size_t)(at - r->at);
	return n;
}

void xs_reasm_reset(struct xs_reasm *r, uint64_t at)
{
	while (r->head)
		drop_piece(r, r->head);
	r->at = r->contig = at;
	r->low = UINT64_MAX;
	r->high = 0;
}

void xs_reasm_free(struct xs_reasm *r)
{
	xs_reasm_reset(r, 0);
	free(r->spare);
	r->spare = NULL;
}

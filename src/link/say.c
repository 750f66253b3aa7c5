/* SPDX-License-Identifier: MIT */
/* Messages of the link's own (pairing, answers for closed ids): they wait for credits in an outbox.
 */
#include "link/linkage.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OUTBOX_MAX 16384 /* a peer that asks without reading answers loses its link */

struct xs_saying {
	struct xs_saying *next;
	struct xs_seghdr h;
	uint8_t payload[XS_SAY_MAX];
};

/* 0, -EAGAIN or -ENOTCONN. */
static int say_now(struct xs_link *l, const struct xs_seghdr *h, const void *payload)
{
	uint64_t seq, rooms = atomic_load(&l->room_count);
	int r;

	if (!xs_credit_take(l, XS_LANE_SMALL, NULL, true))
		return -EAGAIN;
	r = xs_link_post(l, XS_LANE_SMALL, h, payload, xs_link_now(), &seq);
	if (r)
		xs_credit_untake(l, XS_LANE_SMALL);
	if (r == -EAGAIN)
		xs_credit_full(l, XS_LANE_SMALL, NULL, rooms);
	return r;
}

static void put_back(struct xs_link *l, struct xs_saying *s)
{
	xs_lock_take(&l->lock);
	s->next = l->say_head;
	l->say_head = s;
	if (!l->say_tail)
		l->say_tail = s;
	l->say_n++;
	xs_lock_drop(&l->lock);
}

static struct xs_saying *take_first(struct xs_link *l)
{
	struct xs_saying *s;

	xs_lock_take(&l->lock);
	s = l->say_head;
	if (s) {
		l->say_head = s->next;
		if (!l->say_head)
			l->say_tail = NULL;
		l->say_n--;
	}
	xs_lock_drop(&l->lock);
	return s;
}

bool xs_link_say_waiting(struct xs_link *l)
{
	struct xs_saying *s;

	while ((s = take_first(l))) {
		if (say_now(l, &s->h, s->payload) == -EAGAIN) {
			put_back(l, s);
			return false;
		}
		free(s);
	}
	return true;
}

void xs_link_say(struct xs_link *l, const struct xs_seghdr *h, const void *payload)
{
	struct xs_saying *s = NULL;
	bool empty, room;

	xs_lock_take(&l->lock);
	empty = !l->say_head;
	room = l->say_n < OUTBOX_MAX;
	xs_lock_drop(&l->lock);
	if (empty && say_now(l, h, payload) != -EAGAIN)
		return;
	if (room)
		s = calloc(1, sizeof(*s));
	if (!s) {
		XS_LOG(WARN, "link %llu: a message is lost", (unsigned long long)l->id);
		xs_link_note(l, XS_DUE_BAD);
		return;
	}
	s->h = *h;
	if (h->length)
		memcpy(s->payload, payload, h->length);
	xs_lock_take(&l->lock);
	if (l->say_tail)
		l->say_tail->next = s;
	else
		l->say_head = s;
	l->say_tail = s;
	l->say_n++;
	xs_lock_drop(&l->lock);
	xs_link_kick(l); /* what it waits for may have come meanwhile */
}

void xs_link_say_forget(struct xs_link *l)
{
	struct xs_saying *s;

	while ((s = take_first(l))) {
		free(s);
	}
}

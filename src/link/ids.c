/* SPDX-License-Identifier: MIT */
/*
 * Ids. Closed ones are re-used first in, first out and only once FORGET_AFTER others wait before
 * them, so that late segments of a connection still find what is to be answered; the generation
 * tells a re-used id from its predecessor.
 */
#include "link/ids.h"

#include "base/lock.h"
#include "link/linkage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_IDS 1024u
#define PAGES 1024u
#define FORGET_AFTER 1024u

struct slot {
	_Atomic(struct xs_chan *) chan;
	struct xs_link *link;
	struct xs_id_key peer;
	uint32_t next; /* of the unused ones */
	_Atomic uint16_t generation;
	uint8_t state; /* enum xs_id_state */
	bool told;
};

/* All under the lock, but for xs_id_enter_held(). */
static struct xs_lock lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct slot *pages[PAGES];
static uint32_t made = 1; /* id 0 is the link's own */
static uint32_t unused_head, unused_tail, unused_n;

/* One that was made. */
static struct slot *slot_at(uint32_t id)
{
	return &pages[id / PAGE_IDS][id % PAGE_IDS];
}

static struct slot *slot_of(uint32_t id)
{
	return id && id < made ? slot_at(id) : NULL;
}

static struct slot *find(struct xs_id_key key)
{
	struct slot *s = slot_of(key.id);

	return s && s->generation == key.generation ? s : NULL;
}

static void put_unused(uint32_t id)
{
	struct slot *s = slot_of(id);

	s->next = 0;
	if (unused_tail)
		slot_of(unused_tail)->next = id;
	else
		unused_head = id;
	unused_tail = id;
	unused_n++;
}

static uint32_t get_unused(void)
{
	uint32_t id = unused_head;

	unused_head = slot_of(id)->next;
	if (!unused_head)
		unused_tail = 0;
	unused_n--;
	return id;
}

static uint32_t make(void)
{
	uint32_t page = made / PAGE_IDS;

	if (page == PAGES)
		return 0;
	if (!pages[page])
		pages[page] = calloc(PAGE_IDS, sizeof(struct slot));
	return pages[page] ? made++ : 0;
}

int xs_id_take(struct xs_id_key *key)
{
	struct slot *s;
	uint32_t id = 0;

	xs_lock_take(&lock);
	if (unused_n <= FORGET_AFTER)
		id = make();
	if (!id && unused_n)
		id = get_unused();
	if (id) {
		s = slot_at(id);
		s->generation = (uint16_t)(s->generation + 1 ? s->generation + 1 : 1);
		s->state = XS_ID_PENDING;
		s->told = false;
		s->chan = NULL;
		*key = (struct xs_id_key){id, s->generation};
	}
	xs_lock_drop(&lock);
	return id ? 0 : -ENOMEM;
}

void xs_id_drop(struct xs_id_key key)
{
	struct slot *s;

	xs_lock_take(&lock);
	s = find(key);
	if (s && s->state == XS_ID_PENDING) {
		s->state = XS_ID_FREE;
		put_unused(key.id);
	}
	xs_lock_drop(&lock);
}

void xs_id_attach(struct xs_id_key key, struct xs_chan *c)
{
	struct slot *s;

	xs_lock_take(&lock);
	s = find(key);
	if (s && s->state == XS_ID_PENDING) {
		s->state = XS_ID_LIVE;
		s->chan = c;
	}
	xs_lock_drop(&lock);
}

void xs_id_close(struct xs_id_key key, bool reset, struct xs_link *link, struct xs_id_key peer)
{
	struct slot *s;

	xs_lock_take(&lock);
	s = find(key);
	if (s && s->state == XS_ID_LIVE) {
		s->state = reset ? XS_ID_RESET : XS_ID_QUIET;
		s->chan = NULL;
		s->link = link;
		s->peer = peer;
		put_unused(key.id);
	}
	xs_lock_drop(&lock);
}

static void tell_gone(struct slot *s, struct xs_id_gone *gone)
{
	*gone = (struct xs_id_gone){.state = XS_ID_FREE};
	if (!s || (s->state != XS_ID_QUIET && s->state != XS_ID_RESET))
		return;
	gone->state = (enum xs_id_state)s->state;
	gone->peer = s->peer;
	gone->link = s->link;
	gone->told = s->told;
	s->told = true;
}

/*
 * A live id is closed under its connection's lock, and slots stay where they are: with that lock a
 * slot that still names this generation and channel stays so.
 */
bool xs_id_enter_held(struct xs_id_key key, struct xs_entered *e)
{
	struct slot *s = slot_at(key.id);
	bool live;

	e->events->lock(e->user);
	live = atomic_load(&s->generation) == key.generation && atomic_load(&s->chan) == e->chan;
	if (!live)
		xs_id_leave(e);
	return live;
}

bool xs_id_enter(struct xs_id_key key, struct xs_entered *e, struct xs_id_gone *gone)
{
	const struct xs_chan_base *base;
	struct slot *s;
	bool live;

	xs_lock_take(&lock);
	s = find(key);
	live = s && s->state == XS_ID_LIVE;
	if (live) {
		base = &s->chan->base;
		*e = (struct xs_entered){s->chan, base->events, base->user};
		e->events->hold(e->user);
	} else if (gone) {
		tell_gone(s, gone);
	}
	xs_lock_drop(&lock);
	if (!live)
		return false;
	if (xs_id_enter_held(key, e))
		return true;
	if (gone)
		gone->state = XS_ID_FREE;
	return false;
}

void xs_id_leave(const struct xs_entered *e)
{
	e->events->unlock(e->user);
	e->events->release(e->user);
}

void xs_ids_fork_child(void)
{
	xs_lock_init(&lock, XS_RANK_LEAF);
	memset(pages, 0, sizeof(pages));
	made = 1;
	unused_head = unused_tail = unused_n = 0;
}

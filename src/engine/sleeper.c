/* SPDX-License-Identifier: MIT */
/*
 * The record of a sleeping thread and its wake descriptor. Records are never given back: a waker
 * may hold on to one for longer than its thread lives, and then wakes nobody or, harmlessly, its
 * heir.
 */
#include "base/crit.h"
#include "base/highfd.h"
#include "base/rawsys.h"
#include "engine/engine.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define CHUNK 16384

static struct xs_lock records_lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct xs_sleeper *records, *spare; /* records lock */
static __thread struct xs_sleeper *mine;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;

static void thread_ends(void *record)
{
	struct xs_sleeper *s = record;
	struct xs_crit cs;

	mine = NULL;
	xs_crit_enter(&cs);
	xs_rest_drop(s);
	atomic_store(&s->state, 0);
	xs_lock_take(&records_lock);
	s->spare = spare;
	spare = s;
	xs_lock_drop(&records_lock);
	xs_crit_leave(&cs);
}

static void make_key(void)
{
	key_made = pthread_key_create(&key, thread_ends) == 0;
}

/* A page of new records; records lock. */
static void grow(void)
{
	long r = xs_sys(__NR_mmap, 0, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	struct xs_sleeper *s = (struct xs_sleeper *)r;

	if (r < 0 && r > -4096)
		return;
	for (size_t i = 0; i < CHUNK / sizeof(*s); i++) {
		s[i].wake_fd = s[i].signal_fd = -1;
		xs_rest_init(&s[i]);
		s[i].all = records;
		records = &s[i];
		s[i].spare = spare;
		spare = &s[i];
	}
}

static struct xs_sleeper *take_record(void)
{
	struct xs_sleeper *s;

	xs_lock_take(&records_lock);
	if (!spare)
		grow();
	s = spare;
	if (s)
		spare = s->spare;
	xs_lock_drop(&records_lock);
	return s;
}

struct xs_sleeper *xs_sleeper_self(void)
{
	struct xs_sleeper *s = mine;
	struct xs_crit cs;

	if (s && s->wake_fd >= 0)
		return s;
	xs_crit_enter(&cs);
	if (!s) {
		pthread_once(&key_once, make_key);
		s = take_record();
		mine = s;
		if (s && key_made)
			pthread_setspecific(key, s);
	}
	if (s && s->wake_fd < 0)
		s->wake_fd = xs_highfd((int)xs_sys(__NR_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK));
	xs_crit_leave(&cs);
	return s && s->wake_fd >= 0 ? s : NULL;
}

void xs_sleeper_begin(struct xs_sleeper *s)
{
	s->generation++;
	s->about = 0;
	atomic_store(&s->state, XS_SL_ANNOUNCED);
}

void xs_sleeper_about(struct xs_sleeper *s, uint64_t serial)
{
	s->about = serial;
}

void xs_sleeper_end(struct xs_sleeper *s)
{
	atomic_store(&s->state, 0);
}

void xs_sleeper_tell(struct xs_sleeper *s, unsigned bits)
{
	unsigned old = atomic_fetch_or(&s->state, bits);
	uint64_t one = 1;

	if ((old & XS_SL_ASLEEP) && !(old & (XS_SL_WOKEN | XS_SL_LEAD)))
		xs_sys(__NR_write, s->wake_fd, &one, sizeof(one));
}

void xs_sleeper_wake(struct xs_sleeper *s)
{
	xs_sleeper_tell(s, XS_SL_WOKEN);
}

void xs_sleeper_forget(void)
{
	struct xs_sleeper *s;

	xs_lock_init(&records_lock, XS_RANK_LEAF);
	spare = NULL;
	for (s = records; s; s = s->all) {
		xs_highfd_close(&s->wake_fd);
		xs_rest_drop(s);
		if (s->signal_own)
			xs_highfd_close(&s->signal_fd);
		s->signal_fd = -1;
		s->signal_own = s->follows = false;
		atomic_store(&s->state, 0);
		if (s == mine)
			continue;
		s->spare = spare;
		spare = s;
	}
}

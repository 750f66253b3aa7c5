/* SPDX-License-Identifier: MIT */
/*
 * The scanning thread reads the program's own arrays through process_vm_readv: the call may have
 * returned and the memory gone meanwhile, and then the read fails or shows something else, and the
 * record's generation has changed. Where the system call is refused every active record counts.
 */
#include "sock/sleeps.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/crit.h"
#include "base/lock.h"
#include "base/rawsys.h"
#include "sock/readiness.h"
#include "sock/sock.h"

#define CHUNK 16384
#define PIECE 512

struct xs_sleep {
	_Atomic unsigned kind; /* enum xs_sleep_kind */
	_Atomic unsigned generation;
	_Atomic(const void *) at[3]; /* the array; the three sets; the epoll set */
	_Atomic unsigned long n;
	struct xs_sleep *all, *spare;
};

static struct xs_lock records_lock = XS_LOCK_INIT(XS_RANK_LEAF);
static _Atomic(struct xs_sleep *) records;
static struct xs_sleep *spare; /* records lock */
static __thread struct xs_sleep *mine;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;

static void thread_ends(void *record)
{
	struct xs_sleep *r = record;
	struct xs_crit cs;

	mine = NULL;
	atomic_store(&r->kind, XS_SLEEP_NONE);
	xs_crit_enter(&cs);
	xs_lock_take(&records_lock);
	r->spare = spare;
	spare = r;
	xs_lock_drop(&records_lock);
	xs_crit_leave(&cs);
}

static void make_key(void)
{
	key_made = pthread_key_create(&key, thread_ends) == 0;
}

/* records lock */
static void grow(void)
{
	long m = xs_sys(__NR_mmap, 0, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	struct xs_sleep *r = (struct xs_sleep *)m;

	if (m < 0 && m > -4096)
		return;
	for (size_t i = 0; i < CHUNK / sizeof(*r); i++) {
		r[i].all = atomic_load(&records);
		r[i].spare = spare;
		spare = &r[i];
		atomic_store(&records, &r[i]);
	}
}

struct xs_sleep *xs_sleep_self(void)
{
	struct xs_crit cs;
	int keep = errno;

	if (mine)
		return mine;
	xs_crit_enter(&cs);
	pthread_once(&key_once, make_key);
	xs_lock_take(&records_lock);
	if (!spare)
		grow();
	mine = spare;
	if (mine)
		spare = mine->spare;
	xs_lock_drop(&records_lock);
	if (mine && key_made)
		pthread_setspecific(key, mine);
	xs_crit_leave(&cs);
	errno = keep;
	return mine;
}

static void enter(struct xs_sleep *r, unsigned kind)
{
	atomic_fetch_add_explicit(&r->generation, 1, memory_order_relaxed);
	atomic_store(&r->kind, kind);
}

static void put(struct xs_sleep *r, int i, const void *at)
{
	atomic_store_explicit(&r->at[i], at, memory_order_relaxed);
}

void xs_sleep_poll(struct xs_sleep *r, const struct pollfd *fds, nfds_t n)
{
	put(r, 0, fds);
	atomic_store_explicit(&r->n, n, memory_order_relaxed);
	enter(r, XS_SLEEP_POLL);
}

void xs_sleep_select(struct xs_sleep *r, int n, const fd_set *const set[3])
{
	for (int i = 0; i < 3; i++)
		put(r, i, set[i]);
	atomic_store_explicit(&r->n, (unsigned long)n, memory_order_relaxed);
	enter(r, XS_SLEEP_SELECT);
}

void xs_sleep_epoll(struct xs_sleep *r, const void *set)
{
	put(r, 0, set);
	enter(r, XS_SLEEP_EPOLL);
}

void xs_sleep_leave(struct xs_sleep *r)
{
	int keep = errno;

	atomic_store(&r->kind, XS_SLEEP_NONE);
	if (xs_ready_wanted())
		xs_ready_look();
	errno = keep;
}

int xs_wait_leave(struct xs_sleep *sleep, int r)
{
	xs_sleep_leave(sleep);
	return r;
}

/* --- the scan ---------- */
/* Copies from the program's memory; false: it isn't there, or we may not. */
static bool copy(void *to, const void *from, size_t len, bool *refused)
{
	struct iovec l = {.iov_base = to, .iov_len = len};
	struct iovec r = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};
	long n = xs_sys(__NR_process_vm_readv, getpid(), &l, 1, &r, 1, 0);

	*refused = n == -EPERM || n == -ENOSYS || n == -EACCES;
	return n == (long)len;
}

static bool array_has(const struct pollfd *at, unsigned long n, int fd)
{
	struct pollfd piece[PIECE];
	bool refused = false;

	for (unsigned long done = 0; done < n; done += PIECE) {
		unsigned long k = n - done < PIECE ? n - done : PIECE;

		if (!copy(piece, at + done, k * sizeof(*at), &refused))
			return refused;
		for (unsigned long i = 0; i < k; i++)
			if (piece[i].fd == fd)
				return true;
	}
	return false;
}

static bool set_has(const void *at, unsigned long n, int fd)
{
	const unsigned bits = 8 * sizeof(unsigned long);
	unsigned long word = 0;
	bool refused = false;

	if (!at || (unsigned long)fd >= n)
		return false;
	if (!copy(&word, (const unsigned long *)at + (unsigned)fd / bits, sizeof(word), &refused))
		return refused;
	return word >> ((unsigned)fd % bits) & 1;
}

static bool covers(struct xs_sleep *r, unsigned kind, int fd)
{
	unsigned long n = atomic_load_explicit(&r->n, memory_order_relaxed);
	const void *at[3];

	for (int i = 0; i < 3; i++)
		at[i] = atomic_load_explicit(&r->at[i], memory_order_relaxed);
	if (kind == XS_SLEEP_POLL)
		return array_has(at[0], n, fd);
	return kind == XS_SLEEP_SELECT &&
	       (set_has(at[0], n, fd) || set_has(at[1], n, fd) || set_has(at[2], n, fd));
}

bool xs_sleeps_on_fd(int fd)
{
	for (struct xs_sleep *r = atomic_load(&records); r; r = r->all) {
		unsigned generation = atomic_load(&r->generation);
		unsigned kind = atomic_load(&r->kind);

		if (kind != XS_SLEEP_POLL && kind != XS_SLEEP_SELECT)
			continue;
		/* In a later call than the one that we looked at it has seen "managed". */
		if (covers(r, kind, fd) && atomic_load(&r->generation) == generation &&
		    atomic_load(&r->kind) == kind)
			return true;
	}
	return false;
}

bool xs_sleeps_on_set(const void *set)
{
	for (struct xs_sleep *r = atomic_load(&records); r; r = r->all)
		if (atomic_load(&r->kind) == XS_SLEEP_EPOLL && atomic_load(&r->at[0]) == set)
			return true;
	return false;
}

void xs_sleeps_fork_child(void)
{
	xs_lock_init(&records_lock, XS_RANK_LEAF);
	spare = NULL;
	for (struct xs_sleep *r = atomic_load(&records); r; r = r->all) {
		atomic_store(&r->kind, XS_SLEEP_NONE);
		if (r == mine)
			continue;
		r->spare = spare;
		spare = r;
	}
}

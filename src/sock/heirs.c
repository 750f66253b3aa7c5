/* SPDX-License-Identifier: MIT */
/*
 * heirs.h. A process that pairs makes an estate: a shared mapping with a word for each of its
 * paired sockets, an eventfd that its progress thread watches, and a descriptor that tells whether
 * it lives. Children have all three at the same address and by the same numbers, however many forks
 * lie between; a child that pairs sockets of its own makes another estate for them.
 *
 * An heir writes ASKED and rings the bell; the owner's progress thread freezes and returns the
 * stream as for a hand-over (design 2.3) and writes DONE or BROKEN; the heir sleeps on the word
 * (futex) meanwhile, and looks now and then whether the owner still lives. However the socket ends
 * in the owner (close, exit, exec, reset), the word is told.
 */
#include "sock/heirs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/highfd.h"
#include "base/log.h"
#include "base/rawsys.h"
#include "base/real.h"
#include "sock/sock.h"

#define WORDS (1u << 20) /* of untouched memory until used */
#define HEIR_LOOK_MS 100

/* A word; a free one is FREE + the next free one's number. */
enum { OWNED = 1, ASKED, DONE, BROKEN, FREE };

struct xs_estate {
	pid_t owner;
	int bell, life; /* descriptors; life -1: the kernel has none */
	dev_t dev;	/* the bell's */
	ino_t ino;
	_Atomic bool look; /* a child has taken events of a shared epoll set */
	_Atomic uint32_t word[];
};

static struct xs_estate *mine, *inherited;
static struct xs_lock lock = XS_LOCK_INIT(XS_RANK_LEAF);
static uint32_t made, unused; /* lock */
static struct xs_fdwatch bell = {.fd = -1};
static int living = -1, heir_end = -1; /* xs_heirs_fork_prepare() */
static bool unseen;		       /* there are children without it */

static _Atomic uint32_t *word_of(const struct xs_sock *s)
{
	return &s->estate->word[s->word];
}

/* --- the owner ---------- */

static void answer_one(struct xs_sock *s, void *arg)
{
	struct xs_crit cs;

	(void)arg;
	if (!s->word || s->estate != mine || atomic_load(word_of(s)) != ASKED)
		return;
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (!s->child_asks) {
		s->child_asks = true;
		if (!s->rx.frozen) /* else it is on its way already */
			xs_return_announce(s);
		s->pin = XS_R_FORKED;
		s->rx.pinned = s->tx.giving = s->rx.frozen = true;
		xs_return_tx(s, XS_R_FORKED);
		xs_return_rx(s, XS_R_FORKED);
	}
	xs_conn_leave(s);
	xs_crit_leave(&cs);
}

static void look_one(struct xs_sock *s, void *arg)
{
	struct xs_crit cs;

	(void)arg;
	if (!xs_managed(s))
		return;
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	xs_rx_look(s);
	xs_wake(s, ~0u);
	xs_conn_leave(s);
	xs_crit_leave(&cs);
}

static void rung(struct xs_fdwatch *w, uint32_t events)
{
	uint64_t n;

	(void)events;
	if (xs_real.read(w->fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		XS_LOG(WARN, "fork bell: read failed");
	xs_conn_each(answer_one, NULL);
	if (atomic_exchange(&mine->look, false))
		xs_conn_each(look_one, NULL);
}

static struct xs_estate *make(void)
{
	size_t size = sizeof(struct xs_estate) + WORDS * sizeof(_Atomic uint32_t);
	struct xs_estate *e = mmap(NULL, size, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct stat st;

	if (e == MAP_FAILED)
		return NULL;
	bell.fd = xs_highfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	bell.fn = rung;
	if (bell.fd < 0 || fstat(bell.fd, &st) < 0 || xs_progress_watch(&bell, POLLIN) < 0) {
		munmap(e, size);
		return NULL;
	}
	e->owner = getpid();
	e->bell = bell.fd;
	e->dev = st.st_dev;
	e->ino = st.st_ino;
	e->life = xs_highfd((int)xs_sys(__NR_pidfd_open, e->owner, 0));
	return e;
}

static uint32_t new_word(void)
{
	uint32_t w;

	xs_lock_take(&lock);
	w = unused;
	if (w)
		unused = atomic_load(&mine->word[w]) - FREE;
	else if (made + 1 < WORDS)
		w = ++made;
	xs_lock_drop(&lock);
	return w;
}

/* At the first pairing: before any stream can move. Locked (that socket's lock). */
void xs_heirs_begin(struct xs_sock *s)
{
	if (s->word)
		return;
	if (!mine)
		mine = make();
	s->word = mine ? new_word() : 0;
	if (!s->word) { /* it stays where a fork can't hurt it */
		s->pin = mine ? XS_R_NO_MEMORY : XS_R_NO_DESCRIPTOR;
		return;
	}
	s->estate = mine;
	atomic_store(word_of(s), OWNED);
}

void xs_heirs_end(struct xs_sock *s)
{
	if (!s->word || s->estate != mine || xs_heirs_maybe(s))
		return; /* an heir may look at the word for ever */
	xs_lock_take(&lock);
	atomic_store(word_of(s), FREE + unused);
	unused = s->word;
	xs_lock_drop(&lock);
	s->word = 0;
}

static void tell(struct xs_sock *s, uint32_t what)
{
	if (atomic_exchange(word_of(s), what) != what)
		xs_sys(__NR_futex, word_of(s), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

bool xs_heirs_told(const struct xs_sock *s)
{
	return s->word && s->estate == mine && atomic_load(word_of(s)) == DONE;
}

void xs_heirs_look(struct xs_sock *s)
{
	if (!s->child_asks)
		return;
	if (s->peer_rst || s->error) {
		tell(s, BROKEN);
	} else if (xs_returned(s, true)) {
		s->rx.copies = s->rx.c;
		tell(s, DONE);
	} else {
		xs_drive_in(s, 2);
		return;
	}
	s->child_asks = false;
	s->rx.frozen = false;
}

void xs_heirs_release(struct xs_sock *s)
{
	bool whole;

	if (!s->word || s->estate != mine || atomic_load(word_of(s)) >= DONE)
		return;
	whole = !s->peer_rst && !s->error && xs_returned(s, true);
	tell(s, whole ? DONE : BROKEN);
	s->child_asks = false;
}

/*
 * Children have the write end of a pipe, and their children; it's close-on-exec, and never used. So
 * the read end says whether any is left.
 */
void xs_heirs_fork_prepare(void)
{
	char path[32];
	int p[2];

	if (!mine)
		return;
	if (living >= 0) { /* the owner has closed its own write end */
		snprintf(path, sizeof(path), "/proc/self/fd/%d", living);
		heir_end =
			xs_highfd((int)xs_sys(__NR_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC));
	} else if (pipe2(p, O_CLOEXEC) == 0) {
		living = xs_highfd(p[0]);
		heir_end = xs_highfd(p[1]);
	}
	if (heir_end < 0)
		unseen = true;
}

void xs_heirs_fork_parent(void)
{
	xs_highfd_close(&heir_end);
}

bool xs_heirs_maybe(struct xs_sock *s)
{
	struct pollfd p = {.fd = living, .events = POLLIN};

	if (!s->shared || s->passed || s->foreign || living < 0 || unseen)
		return s->shared;
	if (xs_real.poll(&p, 1, 0) == 1 && p.revents == POLLHUP)
		s->shared = false;
	return s->shared;
}

/* --- an heir ---------- */

/* The program may have closed our descriptor, and have its number for something else. */
static bool ring(const struct xs_estate *e)
{
	uint64_t one = 1;
	struct stat st;

	return fstat(e->bell, &st) == 0 && st.st_dev == e->dev && st.st_ino == e->ino &&
	       xs_real.write(e->bell, &one, sizeof(one)) == (ssize_t)sizeof(one);
}

static bool lives(const struct xs_estate *e)
{
	struct pollfd p = {.fd = e->life, .events = POLLIN};

	if (e->life >= 0 && xs_real.poll(&p, 1, 0) >= 0 && !(p.revents & ~POLLIN))
		return !p.revents;
	return kill(e->owner, 0) == 0 || errno != ESRCH;
}

static void owned_again(struct xs_sock *s, int error)
{
	s->foreign = false;
	s->lent = 0; /* the owner has put the twin's options back */
	s->error = error;
	s->peer_rst = error != 0;
	atomic_store_explicit(&s->managed, error ? XS_MANAGED_RX | XS_MANAGED_TX : 0,
			      memory_order_seq_cst);
}

int xs_heirs_claim(struct xs_sock *s, int fd)
{
	const struct timespec look = {.tv_nsec = HEIR_LOOK_MS * (long)XS_NS_PER_MS};
	uint32_t was = OWNED, now;
	uint64_t until = 0;

	if (!s->foreign)
		return 0;
	atomic_compare_exchange_strong(word_of(s), &was, ASKED);
	if (was <= ASKED && !ring(s->estate)) { /* nobody may ever answer */
		XS_LOG(WARN, "fd=%d: the owner's bell is gone", fd);
		until = xs_now_ns() + xs_conf.return_ms * XS_NS_PER_MS;
	}
	while ((now = atomic_load(word_of(s))) < DONE) {
		if (!lives(s->estate) || (until && xs_now_ns() > until))
			break; /* killed: what it held is lost */
		xs_sys(__NR_futex, word_of(s), FUTEX_WAIT, now, &look, NULL, 0);
	}
	now = atomic_load(word_of(s));
	XS_LOG(INFO, "fd=%d forked child: %s", fd, now == DONE ? "returned to it" : "broken");
	owned_again(s, now == DONE ? 0 : ECONNRESET);
	return now == DONE ? 0 : -ECONNRESET;
}

/* By a call that tells the error, which isn't told again. */
static int claim_and_tell(struct xs_sock *s, int fd)
{
	int r = xs_heirs_claim(s, fd);

	if (r < 0) {
		s->error = 0;
		s->eof = true;
	}
	return r;
}

ssize_t xs_heirs_recv(struct xs_sock *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t r = claim_and_tell(s, fd);

	if (r < 0)
		return r;
	r = xs_real.recvmsg(fd, msg, flags);
	return r < 0 ? -errno : r;
}

ssize_t xs_heirs_send(struct xs_sock *s, int fd, const struct msghdr *msg, int flags)
{
	ssize_t r = claim_and_tell(s, fd);

	if (r < 0)
		return r;
	r = xs_real.sendmsg(fd, msg, flags);
	return r < 0 ? -errno : r;
}

void xs_heirs_ring(void)
{
	if (!inherited)
		return;
	atomic_store(&inherited->look, true);
	ring(inherited);
}

void xs_heirs_fork_child(void)
{
	xs_lock_init(&lock, XS_RANK_LEAF);
	if (mine)
		inherited = mine;
	mine = NULL;
	made = unused = 0;
	bell.fd = -1;
	xs_highfd_close(&living);
	heir_end = -1; /* ours as long as we live */
	unseen = false;
}

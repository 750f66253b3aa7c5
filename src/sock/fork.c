/* SPDX-License-Identifier: MIT */
/*
 * fork.h. One word per paired socket in a shared mapping, indexed by s->word. The child writes
 * ASKED and rings the bell; the parent's progress thread freezes and returns the stream as for a
 * hand-over (design 2.3) and writes DONE or BROKEN; the child sleeps on the word (futex) meanwhile,
 * and looks now and then whether the parent still lives.
 */
#include "sock/fork.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/highfd.h"
#include "base/log.h"
#include "base/rawsys.h"
#include "base/real.h"
#include "engine/pool.h"
#include "sock/pairing.h"
#include "sock/sock.h"

#define WORDS 65536 /* of untouched memory until used */
#define CHILD_LOOK_MS 100

enum { FREE, OWNED, ASKED, DONE, BROKEN };

static _Atomic uint32_t *words;
static _Atomic uint32_t next_word;
static struct xs_fdwatch bell = {.fd = -1};
static pid_t pid, parent;

static void answer_one(struct xs_sock *s, void *arg)
{
	struct xs_crit cs;

	(void)arg;
	if (!s->word || atomic_load(&words[s->word]) != ASKED)
		return;
	xs_crit_enter(&cs);
	xs_conn_enter(s);
	if (!s->child_asks) {
		s->child_asks = true;
		s->announced = xs_rx_held(s);
		s->pin = XS_R_FORKED;
		s->rx.pinned = s->tx.giving = s->rx.frozen = true;
		xs_return_tx(s, XS_R_FORKED);
		xs_return_rx(s, XS_R_FORKED);
	}
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
}

/* At the first pairing: before any stream can move. Locked (that socket's lock). */
void xs_own_word(struct xs_sock *s)
{
	uint32_t w;

	if (!words) {
		void *mem = mmap(NULL, WORDS * sizeof(*words), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		int fd = mem == MAP_FAILED ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

		bell.fd = xs_highfd(fd);
		bell.fn = rung;
		if (bell.fd < 0 || xs_progress_watch(&bell, POLLIN) < 0) {
			s->pin = XS_R_NO_DESCRIPTOR;
			return;
		}
		words = mem;
	}
	if (!s->word) {
		w = atomic_fetch_add(&next_word, 1) + 1;
		if (w >= WORDS) { /* later connections stay where a fork can't hurt them */
			s->pin = XS_R_NO_MEMORY;
			return;
		}
		s->word = w;
	}
	atomic_store(&words[s->word], OWNED);
}

static void tell(struct xs_sock *s, uint32_t what)
{
	atomic_store(&words[s->word], what);
	xs_sys(__NR_futex, &words[s->word], FUTEX_WAKE, 64, NULL, NULL, 0);
}

void xs_fork_look(struct xs_sock *s)
{
	if (!s->child_asks)
		return;
	if (s->peer_rst || s->error) {
		tell(s, BROKEN);
	} else if (xs_returned(s, true, s->announced)) {
		s->rx.copies = s->rx.c;
		s->rx.frozen = false;
		tell(s, DONE);
	} else {
		xs_drive_in(s, 2);
		return;
	}
	s->child_asks = false;
	s->rx.frozen = false;
}

void xs_fork_release(struct xs_sock *s)
{
	if (s->word)
		tell(s, s->tx.state == XS_S_KERN && s->rx.state == XS_R_KERN ? DONE : BROKEN);
}

/* --- the child ---------- */

static void owned_again(struct xs_sock *s, int error)
{
	s->foreign = false;
	s->error = error;
	s->peer_rst = error != 0;
	atomic_store_explicit(&s->managed, error ? XS_MANAGED_RX | XS_MANAGED_TX : 0,
			      memory_order_seq_cst);
}

int xs_fork_claim(struct xs_sock *s, int fd)
{
	const struct timespec look = {.tv_nsec = CHILD_LOOK_MS * (long)XS_NS_PER_MS};
	uint32_t was = OWNED, now;
	uint64_t one = 1;

	if (!s->foreign)
		return 0;
	if (atomic_compare_exchange_strong(&words[s->word], &was, ASKED) &&
	    xs_real.write(bell.fd, &one, sizeof(one)) < 0)
		XS_LOG(WARN, "fd=%d: the parent's bell is gone", fd);
	while ((now = atomic_load(&words[s->word])) == ASKED || now == OWNED) {
		if (getppid() != parent)
			break; /* killed: what it held is lost */
		xs_sys(__NR_futex, &words[s->word], FUTEX_WAIT, now, &look, NULL, 0);
	}
	now = atomic_load(&words[s->word]);
	XS_LOG(INFO, "fd=%d forked child: %s", fd, now == DONE ? "returned to it" : "broken");
	owned_again(s, now == DONE ? 0 : ECONNRESET);
	return now == DONE ? 0 : -ECONNRESET;
}

ssize_t xs_fork_recv(struct xs_sock *s, int fd, struct msghdr *msg, int flags)
{
	ssize_t r;

	if (xs_fork_claim(s, fd) < 0)
		return -ECONNRESET;
	r = xs_real.recvmsg(fd, msg, flags);
	return r < 0 ? -errno : r;
}

ssize_t xs_fork_send(struct xs_sock *s, int fd, const struct msghdr *msg, int flags)
{
	ssize_t r;

	if (xs_fork_claim(s, fd) < 0)
		return -ECONNRESET;
	r = xs_real.sendmsg(fd, msg, flags);
	return r < 0 ? -errno : r;
}

/* --- fork itself ---------- */

static void share_one(struct xs_sock *s, void *arg)
{
	(void)arg;
	s->shared = true;
	if (!s->chan && s->role != XS_ROLE_LISTENER && s->role != XS_ROLE_NONE && !s->pin) {
		s->pin = s->tx_why = s->rx_why = XS_R_FORKED;
		xs_conn_publish(s);
	}
}

/* From prepare to its two ends: no handler runs while the engine's lock is held for the fork. */
static _Thread_local struct xs_crit forking __attribute__((tls_model("initial-exec")));

static void prepare(void)
{
	xs_crit_enter(&forking);
	xs_conn_each(share_one, NULL);
	xs_progress_fork_prepare();
}

static void after_parent(void)
{
	xs_progress_fork_parent();
	xs_crit_leave(&forking);
}

static void child_one(struct xs_sock *s, void *arg)
{
	(void)arg;
	xs_conn_fork_child(s);
	s->waiters = NULL;
	s->work.posted = false;
	s->timer.when = 0;
	s->timer_at = 0;
	s->row = NULL;
	s->named = false;
	s->ready_wanted = false;
	atomic_store(&s->rx_kernel, 0);
	atomic_store(&s->tx_kernel, 0);
	atomic_store(&s->watching, 0);
	s->in_tuples = false;
	s->foreign = s->chan && s->word && !s->orphan && s->fd >= 0;
	s->chan = NULL;
	xs_s_init(&s->tx);
	xs_r_init(&s->rx);
	atomic_store(&s->managed, s->foreign ? XS_MANAGED_RX | XS_MANAGED_TX : 0);
	if (s->orphan)
		s->fd = -1; /* the duplicate is the parent's business */
	s->orphan = false;
	if (s->pairing != XS_PAIR_NONE || s->role >= XS_ROLE_CONNECTED)
		s->pairing = XS_PAIR_NEVER;
}

static void after_child(void)
{
	parent = pid;
	pid = getpid();
	xs_lock_forget_all();
	xs_fdtable_begin();
	xs_conn_pool_fork_child();
	xs_tuples_fork_child();
	xs_stats_fork_child();
	xs_conn_each(child_one, NULL);
	xs_ep_fork_child();
	xs_pair_fork_child();
	xs_pool_fork_child();
	xs_progress_fork_child();
	xs_crit_leave(&forking);
}

void xs_fork_init(void)
{
	pid = getpid();
	xs_fdtable_begin();
	pthread_atfork(prepare, after_parent, after_child);
}

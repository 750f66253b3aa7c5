/* SPDX-License-Identifier: MIT */
/*
 * Differential fuzz of the epoll code against the kernel: the same random operations on two sets of
 * socket pairs; one in bare kernel sets, the other in sets of ours, with sockets that are managed.
 *
 * plane: our descriptor is silent, readiness and wakes come from the kernel's own pair, as from a
 * plane. mirror: both pairs get the traffic, and sockets become managed and unmanaged at random.
 *
 * In mirror an edge may be reported once more right after a conversion; nothing may ever be
 * missing.
 */
#include "base/clock.h"
#include "base/config.h"
#include "base/crit.h"
#include "base/real.h"
#include "sock/epollset.h"
#include "sock/fdtable.h"
#include "sock/sock.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define SOCKS 6
#define SETS 2
#define OPS 60000
#define MAX 64

/* --- the fake socket: what sock/ gives the epoll code ------------------------------------ */
struct xs_sock {
	struct xs_obj obj;
	struct xs_lock lock;
	_Atomic bool managed;
	struct xs_waiter *waiters;
	int fd, peer;	/* ours */
	int hfd, hpeer; /* the kernel's */
	int in, out;	/* private sets that tell of the kernel's wakes, by key */
	bool in_set[SETS];
	uint32_t events[SETS];
	bool converted[SETS]; /* since the last report */
};

static bool mirror;
static struct xs_sock *sock[SOCKS];

#include "../unit/fake_waiters.h"

unsigned xs_ready(struct xs_sock *s, unsigned want)
{
	struct pollfd p = {.fd = mirror ? s->fd : s->hfd, .events = (short)want};

	return xs_real.poll(&p, 1, 0) > 0 ? (unsigned short)p.revents : 0;
}

unsigned xs_twin_serves(struct xs_sock *s)
{
	(void)s;
	return POLLRDHUP | POLLHUP | (mirror ? POLLIN | POLLOUT : 0);
}

unsigned xs_twin_watch(struct xs_sock *s, unsigned want)
{
	return (want & xs_twin_serves(s)) | POLLIN | POLLRDHUP;
}

bool xs_ready_wanted(void)
{
	return false;
}

void xs_ready_look(void)
{
}

/* --- operations -------------------------------------------------------------------------- */
static int ours[SETS], kernel[SETS], our_event, kernel_event;
static unsigned long compared, reported, doubled;
static unsigned seed;

static unsigned pick(unsigned n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

/* What the kernel woke its waiters with, since the last look. */
static void pass_wakes(struct xs_sock *s)
{
	struct epoll_event ev;
	unsigned what = 0;

	if (xs_real.epoll_wait(s->in, &ev, 1, 0) == 1)
		what |= POLLIN | POLLRDNORM | (ev.events & (POLLHUP | POLLERR)) |
			(ev.events & POLLRDHUP);
	if (xs_real.epoll_wait(s->out, &ev, 1, 0) == 1)
		what |= POLLOUT | POLLWRNORM | (ev.events & (POLLHUP | POLLERR));
	if (what && !mirror)
		wake(s, what);
}

static void drain(int fd, size_t most)
{
	static char buf[1 << 20];

	if (fd >= 0)
		(void)!xs_real.read(fd, buf, most < sizeof(buf) ? most : sizeof(buf));
}

static void fill(int fd)
{
	static char buf[65536];

	while (fd >= 0 && xs_real.send(fd, buf, sizeof(buf), MSG_NOSIGNAL) > 0)
		;
}

/* An operation on the kernel's pair, and in mirror on ours. */
static void traffic(struct xs_sock *s, unsigned op, size_t n)
{
	for (int k = 0; k < (mirror ? 2 : 1); k++) {
		int fd = k ? s->fd : s->hfd, peer = k ? s->peer : s->hpeer;
		static char buf[4096];

		if (op < 4 && peer >= 0)
			(void)!xs_real.send(peer, buf, n, MSG_NOSIGNAL);
		else if (op < 7)
			drain(fd, op == 6 ? 1 << 20 : n);
		else if (op == 7)
			fill(fd);
		else if (op == 8)
			drain(peer, 1 << 20);
		else if (op == 9 && n % 4 == 0)
			xs_real.shutdown(peer, SHUT_WR);
	}
	pass_wakes(s);
}

static uint32_t random_events(void)
{
	static const uint32_t bits[] = {EPOLLIN, EPOLLIN, EPOLLOUT,    EPOLLRDHUP,
					EPOLLET, EPOLLET, EPOLLONESHOT};
	uint32_t ev = 0;

	for (unsigned i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		if (pick(3) == 0)
			ev |= bits[i];
	return ev;
}

static void control(struct xs_sock *s, unsigned set, int op, uint32_t events, unsigned id)
{
	struct epoll_event ev = {.events = events, .data.u64 = id};
	int a = xs_ep_ctl(ours[set], op, s->fd, &ev);
	int b = xs_real.epoll_ctl(kernel[set], op, s->hfd, &ev);

	assert((a < 0) == (b < 0));
	assert(a >= 0 || a == -errno);
	if (b < 0)
		return;
	s->in_set[set] = op != EPOLL_CTL_DEL;
	s->events[set] = events;
	s->converted[set] = false;
}

static void change(unsigned id)
{
	struct xs_sock *s = sock[id];
	unsigned set = pick(SETS), op = 1 + pick(3);

	if (!s->in_set[set] && pick(4))
		op = EPOLL_CTL_ADD;
	if (op == EPOLL_CTL_DEL && pick(2))
		op = EPOLL_CTL_MOD;
	control(s, set, (int)op, random_events(), id);
}

static void toggle(struct xs_sock *s)
{
	bool now = !s->managed;

	s->managed = now;
	for (unsigned i = 0; i < SETS; i++)
		s->converted[i] = true;
	if (now)
		assert(!xs_ep_sleepers(s));
	else
		wake(s, XS_WHAT_MOVED);
}

static void by_id(const struct epoll_event *ev, int n, uint32_t *mask)
{
	memset(mask, 0, (SOCKS + 1) * sizeof(*mask));
	for (int i = 0; i < n; i++) {
		assert(ev[i].data.u64 <= SOCKS);
		assert(!mask[ev[i].data.u32]);
		mask[ev[i].data.u32] = ev[i].events;
	}
}

/* May our set report this where the kernel doesn't? Once, after a conversion, and if it's true. */
static bool may_double(unsigned id, unsigned set, uint32_t mask)
{
	struct xs_sock *s = id < SOCKS ? sock[id] : NULL;

	if (!s || !mirror || !s->converted[set] || !(s->events[set] & EPOLLET))
		return false;
	return mask == (xs_ready(s, s->events[set]) & (s->events[set] | EPOLLERR | EPOLLHUP));
}

static void fail(unsigned long op, unsigned id, uint32_t a, uint32_t b, unsigned set)
{
	printf("op %lu, set %u, socket %u (events %x, managed %d): ours %x, kernel %x\n", op, set,
	       id, id < SOCKS ? sock[id]->events[set] : 0, id < SOCKS && sock[id]->managed, a, b);
	exit(1);
}

/* As the door does it. */
static int wait_now(int epfd, struct epoll_event *ev)
{
	static const struct timespec zero;
	struct xs_ep_wait w = {.epfd = epfd, .ev = ev, .max = MAX};

	return xs_ep_enter(&w, &zero) ? xs_ep_leave(&w, xs_real.epoll_wait(epfd, ev, MAX, 0))
				      : xs_ep_wait(&w);
}

static void compare(unsigned long op)
{
	struct epoll_event a[MAX], b[MAX];
	uint32_t ma[SOCKS + 1], mb[SOCKS + 1];
	unsigned set = pick(SETS);
	int na = wait_now(ours[set], a);
	int nb = xs_real.epoll_wait(kernel[set], b, MAX, 0);

	assert(na >= 0 && nb >= 0);
	by_id(a, na, ma);
	by_id(b, nb, mb);
	for (unsigned id = 0; id <= SOCKS; id++) {
		struct xs_sock *s = id < SOCKS ? sock[id] : NULL;

		if (ma[id] != mb[id] && (mb[id] || !may_double(id, set, ma[id])))
			fail(op, id, ma[id], mb[id], set);
		if (ma[id] != mb[id])
			doubled++;
		if (ma[id] != mb[id] && s->events[set] & EPOLLONESHOT) /* both disarmed again */
			control(s, set, EPOLL_CTL_MOD, s->events[set], id);
		else if (s && ma[id])
			s->converted[set] = false;
		reported += mb[id] != 0;
	}
	compared++;
}

/* --- sockets come and go ----------------------------------------------------------------- */
static void free_sock(struct xs_obj *obj)
{
	free(obj);
}

static int watch(int fd, uint32_t events)
{
	struct epoll_event ev = {.events = events | EPOLLET};
	int set = xs_real.epoll_create1(0);

	assert(!xs_real.epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev));
	return set;
}

static void make(unsigned id)
{
	struct xs_sock *s = calloc(1, sizeof(*s));
	int p[2], err = 0;
	struct xs_crit cs;

	assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p));
	s->fd = p[0];
	s->peer = p[1];
	assert(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p));
	s->hfd = p[0];
	s->hpeer = p[1];
	s->in = watch(s->hfd, EPOLLIN | EPOLLRDHUP);
	s->out = watch(s->hfd, EPOLLOUT);
	s->managed = !mirror;
	xs_lock_init(&s->lock, XS_RANK_CONN);
	xs_obj_init(&s->obj, XS_FD_SOCK, free_sock);
	xs_crit_enter(&cs);
	assert(!xs_fdtable_set(s->fd, &s->obj, &err) && !err);
	xs_crit_leave(&cs);
	sock[id] = s;
	pass_wakes(s);
}

static void drop(unsigned id)
{
	struct xs_sock *s = sock[id];
	int fds[] = {s->fd, s->peer, s->hfd, s->hpeer, s->in, s->out};
	struct xs_obj *o;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	o = xs_fdtable_clear(s->fd);
	xs_ep_fd_closed(s, s->fd, true);
	xs_crit_leave(&cs);
	assert(o == &s->obj && !s->waiters);
	for (unsigned i = 0; i < 6; i++)
		if (fds[i] >= 0)
			xs_real.close(fds[i]);
	xs_obj_put(o);
	xs_obj_put(o);
}

static void hang_up(struct xs_sock *s)
{
	if (s->hpeer < 0)
		return;
	xs_real.close(s->hpeer);
	s->hpeer = -1;
	if (mirror) {
		xs_real.close(s->peer);
		s->peer = -1;
	}
	pass_wakes(s);
}

static void one(unsigned long op)
{
	unsigned id = pick(SOCKS), what = pick(100);
	struct xs_sock *s = sock[id];
	uint64_t n = 1;

	if (what < 45) {
		traffic(s, pick(10), 1 + pick(3000));
	} else if (what < 65) {
		change(id);
	} else if (what < 67 && mirror) {
		toggle(s);
	} else if (what == 67 && pick(4) == 0) {
		hang_up(s);
	} else if (what == 68 && pick(4) == 0) {
		drop(id);
		make(id);
	} else if (what == 69) {
		(void)!xs_real.write(our_event, &n, 8);
		(void)!xs_real.write(kernel_event, &n, 8);
	} else if (what == 70) {
		(void)!xs_real.read(our_event, &n, 8);
		(void)!xs_real.read(kernel_event, &n, 8);
	} else {
		compare(op);
	}
}

static void run(bool mirrored, unsigned long ops)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = SOCKS};

	mirror = mirrored;
	our_event = eventfd(0, EFD_NONBLOCK);
	kernel_event = eventfd(0, EFD_NONBLOCK);
	for (unsigned i = 0; i < SETS; i++) {
		ours[i] = xs_real.epoll_create1(0);
		xs_ep_created(ours[i]);
		kernel[i] = xs_real.epoll_create1(0);
		assert(!xs_ep_ctl(ours[i], EPOLL_CTL_ADD, our_event, &ev));
		assert(!xs_real.epoll_ctl(kernel[i], EPOLL_CTL_ADD, kernel_event, &ev));
	}
	for (unsigned i = 0; i < SOCKS; i++)
		make(i);
	for (unsigned long op = 0; op < ops; op++)
		one(op);
	for (unsigned i = 0; i < SOCKS; i++)
		drop(i);
	for (unsigned i = 0; i < SETS; i++) {
		struct xs_obj *o = xs_fdtable_clear(ours[i]);

		xs_ep_set_closed(ours[i]);
		xs_obj_put(o);
		xs_real.close(ours[i]);
		xs_real.close(kernel[i]);
	}
	xs_real.close(our_event);
	xs_real.close(kernel_event);
}

int main(int argc, char **argv)
{
	unsigned first = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	unsigned seeds = argc > 2 ? (unsigned)atoi(argv[2]) : 4;

	xs_real_init();
	xs_config_load();
	for (unsigned i = 0; i < seeds; i++) {
		for (int mode = 0; mode < 2; mode++) {
			seed = first + i;
			printf("seed %u %s\n", first + i, mode ? "mirror" : "plane");
			fflush(stdout);
			run(mode, OPS);
		}
	}
	printf("%lu waits compared, %lu reports, %lu edges doubled at a conversion\n", compared,
	       reported, doubled);
	printf("1 passed, 0 failed\n");
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * The life of a conduit: memory and a Unix socket that it shares with one peer process.
 *
 * The socket carries nothing of the streams. It brought the two together, its packets wake whoever
 * sleeps, and its end is the other process's end: then what lies in the ring is delivered first,
 * and the link hears of it after that. Bytes survive the one who wrote them.
 *
 * The memory is a memfd that the connecting side makes: sealed, so that its size never changes
 * under a mapping, and a plain one (a hostile peer's could be of huge pages, or lie on a file
 * system that's full, and touching it would kill us). It isn't inherited over fork.
 */
#include "base/clock.h"
#include "base/highfd.h"
#include "base/log.h"
#include "base/rawsys.h"
#include "link/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define ANSWER_NS (10 * XS_NS_PER_S)
#define MOST 256	   /* links of a process */
#define MOST_OF_A_USER 128 /* nobody takes them all */
#define TMPFS 0x01021994
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static struct xs_conduit *all; /* progress thread */

static void set_state(struct xs_conduit *c, enum xs_shm_state to)
{
	static const char *const name[] = {"new", "up", "down"};

	XS_LOG(DEBUG, "shm: conduit %p %s -> %s", (void *)c, name[xs_shm_state_of(c)], name[to]);
	atomic_store(&c->state, (int)to);
}

/* --- memory ----------------------------------------------------------------------------------- */
static void unmap(struct xs_shm_area *area)
{
	xs_sys(__NR_munmap, area, sizeof(*area));
}

static struct xs_shm_area *map(int fd)
{
	long r = xs_sys(__NR_mmap, NULL, sizeof(struct xs_shm_area), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (r < 0 && r > -4096)
		return NULL;
	xs_sys(__NR_madvise, r, sizeof(struct xs_shm_area), MADV_DONTFORK);
	xs_sys(__NR_madvise, r, sizeof(struct xs_shm_area), MADV_DONTDUMP);
	return (struct xs_shm_area *)r;
}

struct xs_shm_area *xs_shm_area_map(int fd)
{
	long seals = xs_sys(__NR_fcntl, fd, F_GET_SEALS, 0);
	struct statfs fs;
	struct stat st;

	/* Not sealed against writing: then it couldn't be mapped. */
	if (seals < 0 || (seals & SEALS) != SEALS || xs_sys(__NR_fstatfs, fd, &fs) < 0 ||
	    fs.f_type != TMPFS || fstat(fd, &st) < 0 ||
	    st.st_size != (off_t)sizeof(struct xs_shm_area))
		return NULL;
	return map(fd);
}

int xs_shm_area_make(struct xs_shm_area **area, int *fd)
{
	int made =
		xs_highfd((int)xs_sys(__NR_memfd_create, "xshim", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	long r;

	if (made < 0)
		return made;
	r = xs_sys(__NR_ftruncate, made, sizeof(struct xs_shm_area));
	if (r >= 0)
		r = xs_sys(__NR_fcntl, made, F_ADD_SEALS, SEALS);
	*area = r < 0 ? NULL : map(made);
	if (*area) {
		*fd = made;
		return 0;
	}
	xs_highfd_close(&made);
	return r < 0 ? (int)r : -ENOMEM;
}

/* --- the end ---------------------------------------------------------------------------------- */
void xs_shm_conduit_hold(struct xs_conduit *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

void xs_shm_conduit_drop(struct xs_conduit *c)
{
	if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return;
	unmap(c->area);
	free(c);
}

static void unlist(struct xs_conduit *c)
{
	struct xs_conduit **at = &all;

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
}

void xs_shm_conduit_destroy(struct xs_conduit *c)
{
	unlist(c);
	xs_highfd_close(&c->fd);
	xs_shm_conduit_drop(c);
}

/* A socket that has ended without a word is a process that has. */
static enum xs_reason reason(struct xs_conduit *c)
{
	enum xs_reason why = (enum xs_reason)atomic_load(&c->failed);

	if (why == XS_R_PEER_KILLED &&
	    (!c->polled || atomic_load(&c->out.d->left) || atomic_load(&c->in.d->behind)))
		why = XS_R_LINK_LOST;
	return why;
}

static void bury(struct xs_work *w)
{
	struct xs_conduit *c = (struct xs_conduit *)((char *)w - offsetof(struct xs_conduit, work));

	if (xs_shm_state_of(c) == XS_SHM_DOWN)
		return;
	xs_timer_cancel(&c->timer);
	if (c->watched)
		xs_progress_unwatch(&c->watch);
	c->watched = false;
	xs_shm_close_lane(c);
	if (c->polled) {
		xs_poller_remove(&c->poller);
		xs_shm_drain(c);
	}
	set_state(c, XS_SHM_DOWN);
	atomic_store(&c->in.d->left, 1);
	xs_sys(__NR_shutdown, c->fd, SHUT_RDWR);
	xs_link_down(c->link, reason(c));
}

void xs_shm_fail(struct xs_conduit *c, enum xs_reason why)
{
	int none = XS_R_NONE;

	if (atomic_compare_exchange_strong(&c->failed, &none, (int)why))
		xs_progress_post(&c->work);
}

static void gave_up(struct xs_timer *t)
{
	struct xs_conduit *c =
		(struct xs_conduit *)((char *)t - offsetof(struct xs_conduit, timer));

	xs_shm_fail(c, XS_R_NO_SHIM);
}

static void hung_up(struct xs_fdwatch *w, uint32_t events)
{
	struct xs_conduit *c =
		(struct xs_conduit *)((char *)w - offsetof(struct xs_conduit, watch));

	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		xs_shm_fail(c, XS_R_PEER_KILLED);
}

/* --- the beginning ---------------------------------------------------------------------------- */
bool xs_shm_conduit_room(uid_t uid)
{
	unsigned n = 0, same = 0;

	for (struct xs_conduit *c = all; c; c = c->next) {
		n++;
		same += c->uid == uid;
	}
	return n < MOST && same < MOST_OF_A_USER;
}

struct xs_conduit *xs_shm_conduit_new(int fd, uid_t uid, struct xs_shm_area *area, int side)
{
	struct xs_conduit *c = calloc(1, sizeof(*c));

	if (!c) {
		unmap(area);
		xs_highfd_close(&fd);
		return NULL;
	}
	atomic_store(&c->refs, 1);
	xs_lock_init(&c->lock, XS_RANK_LANE);
	c->fd = fd;
	c->uid = uid;
	c->area = area;
	xs_shm_out_init(&c->out, &area->dir[side]);
	xs_shm_in_init(&c->in, &area->dir[!side]);
	c->rings.ours = area->ring[side];
	c->rings.theirs = area->ring[!side];
	c->work.fn = bury;
	c->timer.fn = gave_up;
	c->watch = (struct xs_fdwatch){.fd = fd, .fn = hung_up};
	c->poller = (struct xs_poller){.fd = fd,
				       .cheap = true,
				       .poll = xs_shm_poll,
				       .arm = xs_shm_arm,
				       .disarm = xs_shm_disarm};
	c->next = all;
	all = c;
	xs_timer_set(&c->timer, xs_now_ns() + ANSWER_NS);
	return c;
}

void xs_shm_conduit_start(struct xs_conduit *c)
{
	if (xs_shm_state_of(c) != XS_SHM_NEW || atomic_load(&c->failed))
		return;
	xs_timer_cancel(&c->timer);
	c->watch.fn = hung_up;
	if (!c->watched)
		c->watched = xs_progress_watch(&c->watch, EPOLLRDHUP) >= 0;
	else
		xs_progress_rewatch(&c->watch, EPOLLRDHUP);
	set_state(c, XS_SHM_UP);
	xs_link_up(c->link);
	c->polled = c->watched && xs_poller_add(&c->poller) >= 0;
	if (!c->polled)
		xs_shm_fail(c, XS_R_NO_DESCRIPTOR);
}

/* The mappings aren't there: nothing but descriptors. */
void xs_shm_conduits_fork_child(void)
{
	for (struct xs_conduit *c = all; c; c = c->next)
		xs_highfd_close(&c->fd);
	all = NULL;
}

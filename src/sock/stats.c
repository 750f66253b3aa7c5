/* SPDX-License-Identifier: MIT */
/*
 * Rows of the state file (statefile.c), and those of private memory where there's no file or no
 * room in it: nobody sees them, but counters and the report work. Also the requests of `xshim
 * return`, which come through the file: inotify tells the progress thread of the tool's write. What
 * the process itself writes goes through the mapping, and inotify never sees that.
 */
#include "sock/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/crit.h"
#include "base/highfd.h"
#include "base/lock.h"
#include "base/rawsys.h"
#include "engine/progress.h"
#include "link/link.h"
#include "link/wire.h"
#include "sock/statefile.h"
#include "sock/switch.h"

#define SAME(id, name) static_assert((int)XSHIM_TX_##id == (int)XS_S_##id, "state: S " name);
XSHIM_TX_LIST(SAME)
#undef SAME
#define SAME(id, name) static_assert((int)XSHIM_RX_##id == (int)XS_R_##id, "state: R " name);
XSHIM_RX_LIST(SAME)
#undef SAME
#define SAME(id, name) static_assert((int)XSHIM_##id == (int)XS_PLANE_##id, "state: " name);
XSHIM_PLANE_LIST(SAME)
#undef SAME
static_assert(XSHIM_WIRE == XS_WIRE_VERSION, "state: wire version");

#define WORDS (XS_STATE_ROWS / 64)

struct arena {
	struct xshim_conn *rows; /* NULL: not there */
	uint32_t n;		 /* rows that may be used now */
	uint32_t hint;		 /* no word below has a free bit */
	uint64_t taken[WORDS];
};

static struct xs_lock lock = XS_LOCK_INIT(XS_RANK_LEAF);
static bool begun;
static struct arena in_file, spare;
static struct xshim_state private_head;
static struct xshim_state *state = &private_head;
static struct xshim_conn nowhere; /* for connections that found no memory at all */

static struct xs_fdwatch watch = {.fd = -1};
static void (*on_request)(int fd);

/* --- who we are ---------- */

/* Field 22 of our /proc/PID/stat, and the name in it. False: /proc is absent, or another's. */
static bool read_identity(struct xshim_state *head)
{
	char text[1024], *name, *end;
	long fd = xs_sys(__NR_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0), n;

	if (fd < 0)
		return false;
	n = xs_sys(__NR_read, fd, text, sizeof(text) - 1);
	xs_sys(__NR_close, fd);
	text[n > 0 ? n : 0] = '\0';
	name = strchr(text, '(');
	end = strrchr(text, ')');
	if (!name || !end || atoi(text) != head->pid)
		return false;
	snprintf(head->program, sizeof(head->program), "%.*s", (int)(end - name - 1), name + 1);
	for (int field = 2; end && field < 22; field++)
		end = strchr(end + 1, ' ');
	if (end)
		head->starttime = strtoull(end + 1, NULL, 10);
	return end != NULL;
}

static bool describe(struct xshim_state *head)
{
	struct stat ns;

	memset(head, 0, sizeof(*head));
	head->version = XSHIM_STATE_VERSION;
	head->pid = (int32_t)xs_sys(__NR_getpid);
	head->uid = (uint32_t)xs_sys(__NR_geteuid);
	head->wire = XSHIM_WIRE;
	snprintf(head->library, sizeof(head->library), "%s", XSHIM_VERSION);
	snprintf(head->program, sizeof(head->program), "%s", program_invocation_short_name);
	if (stat("/proc/self/ns/pid", &ns) == 0)
		head->pid_ns = ns.st_ino;
	return read_identity(head);
}

static void begin(void)
{
	struct xshim_state *made = NULL;

	begun = true;
	if (describe(&private_head))
		made = xs_statefile_make(&private_head);
	if (!made)
		return;
	state = made;
	in_file.rows = made->conn;
	in_file.n = atomic_load_explicit(&made->rows, memory_order_relaxed);
}

const struct xshim_state *xs_stats_head(void)
{
	return state;
}

/* --- rows ---------- */

static struct xshim_conn *take_from(struct arena *a)
{
	for (uint32_t w = a->hint; w * 64 < a->n; w++) {
		uint64_t free_bits = ~a->taken[w];
		uint32_t i;

		a->hint = w;
		if (!free_bits)
			continue;
		i = w * 64 + (uint32_t)__builtin_ctzll(free_bits);
		if (i >= a->n)
			return NULL;
		a->taken[w] |= 1ull << (i % 64);
		return &a->rows[i];
	}
	return NULL;
}

static struct xshim_conn *take_spare(void)
{
	void *at;

	atomic_fetch_add_explicit(&state->overflow, 1, memory_order_relaxed);
	if (!spare.rows) {
		at = mmap(NULL, XS_STATE_ROWS * sizeof(struct xshim_conn), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (at == MAP_FAILED)
			return NULL;
		madvise(at, XS_STATE_ROWS * sizeof(struct xshim_conn), MADV_NOHUGEPAGE);
		spare.rows = at;
		spare.n = XS_STATE_ROWS;
	}
	return take_from(&spare);
}

static struct xshim_conn *take(void)
{
	struct xshim_conn *row;

	if (!begun)
		begin();
	row = take_from(&in_file);
	if (!row && in_file.rows && in_file.n < XS_STATE_ROWS && xs_statefile_grow(state)) {
		in_file.n = atomic_load_explicit(&state->rows, memory_order_relaxed);
		row = take_from(&in_file);
	}
	return row ? row : take_spare();
}

/* A row that changes is odd; readers look again. */
static void change(struct xshim_conn *row)
{
	atomic_fetch_add_explicit(&row->seq, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static void changed(struct xshim_conn *row)
{
	atomic_fetch_add_explicit(&row->seq, 1, memory_order_release);
}

struct xshim_conn *xs_stats_row(void)
{
	struct xshim_conn *row;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_lock_take(&lock);
	row = take();
	xs_lock_drop(&lock);
	xs_crit_leave(&cs);
	if (!row)
		return &nowhere;
	change(row);
	memset((char *)row + offsetof(struct xshim_conn, fd), 0,
	       sizeof(*row) - offsetof(struct xshim_conn, fd));
	atomic_store_explicit(&row->fd, -1, memory_order_relaxed);
	atomic_store_explicit(&row->used, 1, memory_order_relaxed);
	changed(row);
	return row;
}

static bool give_to(struct arena *a, const struct xshim_conn *row)
{
	uint32_t i;

	if (!a->rows || row < a->rows || row >= a->rows + XS_STATE_ROWS)
		return false;
	i = (uint32_t)(row - a->rows);
	a->taken[i / 64] &= ~(1ull << (i % 64));
	if (i / 64 < a->hint)
		a->hint = i / 64;
	return true;
}

void xs_stats_release(struct xshim_conn *row)
{
	struct xs_crit cs;

	if (row == &nowhere)
		return;
	change(row);
	atomic_store_explicit(&row->used, 0, memory_order_relaxed);
	changed(row);
	xs_crit_enter(&cs);
	xs_lock_take(&lock);
	if (!give_to(&in_file, row))
		give_to(&spare, row);
	xs_lock_drop(&lock);
	xs_crit_leave(&cs);
}

/* IPv4 over an IPv6 socket is shown as IPv4. */
static uint8_t set_address(const struct sockaddr *addr, uint8_t ip[16], uint16_t *port)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;

	if (addr->sa_family == AF_INET) {
		memcpy(ip, &v4->sin_addr, 4);
		*port = ntohs(v4->sin_port);
		return 4;
	}
	if (addr->sa_family != AF_INET6)
		return 0;
	*port = ntohs(v6->sin6_port);
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		memcpy(ip, v6->sin6_addr.s6_addr + 12, 4);
		return 4;
	}
	memcpy(ip, &v6->sin6_addr, 16);
	return 6;
}

void xs_stats_name(struct xshim_conn *row, int fd, unsigned role, const struct sockaddr *local,
		   const struct sockaddr *peer)
{
	if (row == &nowhere)
		return;
	change(row);
	atomic_store_explicit(&row->fd, fd, memory_order_relaxed);
	row->role = (uint8_t)role;
	row->family = set_address(local, row->local_ip, &row->local_port);
	set_address(peer, row->peer_ip, &row->peer_port);
	changed(row);
}

void xs_stats_pair(struct xshim_conn *row, uint32_t id, uint64_t link, unsigned wire)
{
	if (row == &nowhere)
		return;
	change(row);
	row->id = id;
	row->link = link;
	row->wire = (uint16_t)wire;
	changed(row);
}

/* --- counters of the process ---------- */

void xs_stats_links(void)
{
	struct xs_link_info sum;

	xs_link_totals(&sum);
	atomic_store_explicit(&state->links, sum.id, memory_order_relaxed);
	atomic_store_explicit(&state->wire_posts, sum.wire_posts, memory_order_relaxed);
	atomic_store_explicit(&state->wire_signalled, sum.wire_signalled, memory_order_relaxed);
	atomic_store_explicit(&state->wire_rnr, sum.wire_rnr, memory_order_relaxed);
	atomic_store_explicit(&state->registrations, sum.registrations, memory_order_relaxed);
	atomic_store_explicit(&state->dropped, sum.dropped, memory_order_relaxed);
}

/* --- requests ---------- */

static void answer(void)
{
	uint32_t asked = atomic_load_explicit(&state->request, memory_order_acquire);
	int fd = atomic_load_explicit(&state->request_fd, memory_order_relaxed);

	if (asked == atomic_load_explicit(&state->answered, memory_order_relaxed))
		return;
	xs_stats_links();
	if (fd >= XSHIM_REQUEST_ALL)
		on_request(fd);
	atomic_store_explicit(&state->answered, asked, memory_order_release);
}

static void file_changed(struct xs_fdwatch *w, uint32_t events)
{
	char buf[1024] __attribute__((aligned(8)));
	long n;

	(void)events;
	do
		n = xs_sys(__NR_read, w->fd, buf, sizeof(buf));
	while (n > 0 || n == -EINTR);
	if (n != -EAGAIN) { /* the program has closed it, or has it for something else */
		xs_progress_unwatch(w);
		w->fd = -1;
		atomic_store_explicit(&state->watching, 0, memory_order_relaxed);
		return;
	}
	answer();
}

void xs_stats_watch(void (*request)(int fd))
{
	long fd;

	if (watch.fd >= 0 || !in_file.rows)
		return;
	fd = xs_highfd((int)xs_sys(__NR_inotify_init1, IN_CLOEXEC | IN_NONBLOCK));
	if (fd < 0)
		return;
	on_request = request;
	watch.fd = (int)fd;
	watch.fn = file_changed;
	if (xs_sys(__NR_inotify_add_watch, fd, xs_statefile_path(), IN_MODIFY) < 0 ||
	    xs_progress_watch(&watch, EPOLLIN) < 0) {
		xs_highfd_close(&watch.fd);
		return;
	}
	atomic_store_explicit(&state->watching, 1, memory_order_release);
	answer(); /* what was asked before */
}

/* --- end and fork ---------- */

void xs_stats_exit(void)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_lock_take(&lock);
	if (in_file.rows)
		xs_statefile_unlink();
	xs_lock_drop(&lock);
	xs_crit_leave(&cs);
}

/* Is the number still our inotify descriptor? */
static bool is_inotify(int fd)
{
	char name[32], what[32];
	long n;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = xs_sys(__NR_readlinkat, AT_FDCWD, name, what, sizeof(what));
	return n == 18 && !memcmp(what, "anon_inode:inotify", 18);
}

void xs_stats_fork_child(void)
{
	xs_lock_init(&lock, XS_RANK_LEAF);
	if (watch.fd >= 0 && is_inotify(watch.fd))
		xs_highfd_close(&watch.fd);
	watch.fd = -1;
	if (in_file.rows)
		xs_statefile_forget(state);
	state = &private_head;
	memset(&in_file, 0, sizeof(in_file));
	memset(spare.taken, 0, sizeof(spare.taken));
	spare.hint = 0;
	begun = false;
}

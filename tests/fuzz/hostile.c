/* SPDX-License-Identifier: MIT */
/*
 * A hostile peer against the whole library in one process: the victim's calls go through the doors,
 * as a program's do; the peer is a bare TCP socket and a link (hostile_link.c) over which it says
 * what the input wants: segments, pairing, HELLO, credits, RETURN frames and plain bytes in the
 * twin, ends of both. Much of it is nearly right, or nothing behind the first check would be
 * reached. Nothing may be read or written where it mustn't, no lock rule broken, no call may
 * hang, and afterwards every descriptor is gone.
 *
 * libFuzzer's entry; driver.c stands in for it where there's no clang.
 */
#include "hostile.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/real.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* This input's connection. */
static int set;		/* of epoll; the victim's */
static uint64_t said;	/* the peer's stream offset, roughly */
static uint16_t epoch;	/* of the peer's last PREPARE */
static uint16_t frames; /* that it has written */

/* --- the input -------------------------------------------------------------------------------- */
static const uint8_t *in, *in_end;

static uint8_t u8(void)
{
	return in < in_end ? *in++ : 0;
}

static uint16_t u16(void)
{
	uint16_t lo = u8();

	return (uint16_t)(lo | u8() << 8);
}

static uint64_t u64(void)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | u8();
	return v;
}

static void bytes(void *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = u8();
}

/* --- nearly right ------------------------------------------------------------------------------
 */
static uint16_t some_epoch(void)
{
	uint8_t how = u8();

	if (how < 96)
		return hostile.last[XS_K_PREPARE].epoch;
	if (how < 192)
		return (uint16_t)(1 + how % 3);
	return how < 224 ? hostile.last[how % XS_K_MAX].epoch : u16();
}

static uint64_t some_offset(void)
{
	uint8_t how = u8();

	if (how < 128)
		return said;
	if (how < 160)
		return said + u8() - 128;
	if (how < 224)
		return hostile.last[how % XS_K_MAX].offset;
	return how < 240 ? u16() : u64();
}

static void name(struct xs_seghdr *h)
{
	uint8_t how = u8();

	h->id = how < 240 ? theirs.id : u16();
	h->generation = how < 232 ? theirs.generation : u16();
}

static void say_segment(void)
{
	static uint8_t payload[65536];
	uint8_t kind = u8(), lane = u8();
	struct xs_seghdr h = {.kind = kind < 250 ? 1 + kind % (XS_K_MAX - 1) : kind};
	uint32_t n = 0;

	name(&h);
	h.epoch = some_epoch();
	h.flags = u8() & 15;
	h.offset = some_offset();
	if (u8() & 1) {
		h.ack_epoch = some_epoch();
		h.ack = some_offset();
	}
	if (h.kind == XS_K_DATA || kind >= 250)
		n = lane & 1 ? u16() : u16() % 4065;
	if (h.kind == XS_K_DATA && h.offset == said)
		said += n;
	memset(payload, lane, n);
	hostile_says(lane & 1 ? XS_LANE_BULK : XS_LANE_SMALL, h, payload, n);
}

/* A message of the link's own with a length of its own. */
static void say_raw(void)
{
	static const uint8_t kinds[] = {XS_K_HELLO,	  XS_K_CREDIT,	  XS_K_PAIR_ASK,
					XS_K_PAIR_ANSWER, XS_K_PAIR_DONE, XS_K_BYE};
	static const uint8_t sizes[] = {sizeof(struct xs_hello),     0,
					sizeof(struct xs_pair_ask),  sizeof(struct xs_pair_answer),
					sizeof(struct xs_pair_done), 0};
	uint8_t payload[256], which = u8() % sizeof(kinds), odd = u8();
	struct xs_seghdr h = {.kind = kinds[which], .offset = u64(), .ack = u64()};
	uint32_t n = odd < 200 ? sizes[which] : odd;

	bytes(payload, sizeof(payload) < n ? sizeof(payload) : n);
	if (kinds[which] == XS_K_BYE && odd < 250)
		return; /* would end most inputs */
	hostile_says(XS_LANE_SMALL, h, payload, n);
}

/* Plain bytes, a frame or something like one, into the victim's twin. */
static void twin_bytes(void)
{
	struct xs_return_frame f = {.sequence = u8() % 3};
	uint8_t how = u8(), junk[300];
	ssize_t r;

	if (how < 64) {
		memset(junk, how, sizeof(junk));
		r = xs_real.send(peer_fd, junk, 1 + u8(), MSG_DONTWAIT | MSG_NOSIGNAL);
		said += r > 0 ? (uint64_t)r : 0;
		return;
	}
	/* The peer chose the secret, or was told it: see hostile_pair.c. */
	memset(f.secret, 0x5a, sizeof(f.secret));
	if (how & 1)
		memcpy(f.secret, hostile.said[XS_K_PAIR_ASK].ask.secret, sizeof(f.secret));
	f.epoch = some_epoch();
	f.kept = how < 128 ? u8() : (uint32_t)u64();
	f.a = some_offset();
	xs_real.send(peer_fd, &f, how < 200 ? sizeof(f) : u8() % sizeof(f),
		     MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* --- the victim's calls ------------------------------------------------------------------------
 */
static void victim_reads(uint8_t how)
{
	static char buf[70000];

	recv(victim_fd, buf, how & 1 ? sizeof(buf) : 1u + u8(),
	     (how & 2 ? MSG_PEEK : 0) | (how & 4 ? MSG_TRUNC : 0) | (how & 8 ? MSG_WAITALL : 0));
}

static void victim_writes(uint8_t how)
{
	static char buf[200000];

	send(victim_fd, buf, how & 1 ? u16() * 3u : 1u + u8(), MSG_NOSIGNAL);
}

static void victim_asks(uint8_t how)
{
	struct pollfd p = {.fd = victim_fd, .events = POLLIN | POLLOUT | POLLRDHUP};
	struct epoll_event ev = {.events =
					 EPOLLIN | EPOLLOUT | EPOLLRDHUP | (how & 8 ? EPOLLET : 0)};
	int n;

	if (how & 1)
		poll(&p, 1, 0);
	if (how & 2)
		ioctl(victim_fd, FIONREAD, &n);
	if (how & 4)
		epoll_ctl(set, how & 16 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, victim_fd, &ev);
	epoll_wait(set, &ev, 1, 0);
}

static void victim_changes(uint8_t how)
{
	int n = how;

	if (how < 64)
		shutdown(victim_fd, how % 3);
	else if (how < 128)
		setsockopt(victim_fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof(n));
	else if (how < 144)
		setsockopt(victim_fd, IPPROTO_TCP, TCP_MAXSEG, &n,
			   sizeof(n)); /* returns the stream */
	else if (how < 192)
		n = dup(victim_fd), close(victim_fd), victim_fd = n;
	else if (how < 224)
		setsockopt(victim_fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof(n));
}

/* --- as a good peer would ----------------------------------------------------------------------
 */
static struct xs_seghdr proper(enum xs_kind kind, uint16_t e, uint64_t offset)
{
	return (struct xs_seghdr){.id = theirs.id,
				  .generation = theirs.generation,
				  .kind = (uint8_t)kind,
				  .epoch = e,
				  .offset = offset};
}

static void stream_data(uint8_t flags, uint8_t n)
{
	static const uint8_t payload[256];
	struct xs_seghdr h = proper(XS_K_DATA, epoch, said);

	h.flags = flags;
	hostile_says(XS_LANE_SMALL, h, payload, n);
	said += n;
}

static void upgrade_in(uint8_t how)
{
	epoch++;
	hostile_says(XS_LANE_SMALL, proper(XS_K_PREPARE, epoch, said), NULL, 0);
	hostile_await(XS_K_READY);
	if (how & 1)
		return;
	stream_data(XS_F_FIRST, how);
	victim_reads(1);
	if (how & 2 && hostile_await(XS_K_SWITCHED))
		stream_data(XS_F_CONFIRMED, how);
}

static void upgrade_out(uint8_t how)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);
	uint16_t e;

	if (!hostile_await(XS_K_PREPARE))
		return;
	e = hostile.last[XS_K_PREPARE].epoch;
	xs_real.getsockopt(peer_fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	hostile_says(XS_LANE_SMALL, proper(XS_K_READY, e, info.tcpi_bytes_received), NULL, 0);
	victim_writes(how);
	if (how & 4)
		hostile_says(XS_LANE_SMALL, proper(XS_K_SWITCHED, e, said), NULL, 0);
	if (how & 8)
		hostile_says(
			XS_LANE_SMALL,
			proper(XS_K_ACK, e,
			       hostile.last[XS_K_DATA].offset + hostile.last[XS_K_DATA].length),
			NULL, 0);
}

/* A RETURN frame that may be right, and what it says that follows. */
static void return_in(uint8_t how)
{
	static const uint8_t kept[255];
	struct xs_return_frame f = {.sequence = frames, .epoch = epoch, .kept = how, .a = said};

	if (how & 1)
		f.a -= f.a < how ? 0 : how;
	memset(f.secret, 0x5a, sizeof(f.secret));
	if (hostile.last[XS_K_PAIR_ASK].kind)
		memcpy(f.secret, hostile.said[XS_K_PAIR_ASK].ask.secret, sizeof(f.secret));
	frames += xs_real.send(peer_fd, &f, sizeof(f), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
	if (how & 2)
		xs_real.send(peer_fd, kept, how, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (how & 4)
		hostile_says(XS_LANE_SMALL, proper(XS_K_FLUSHED, epoch, 0), NULL, 0);
}

static void peer_reads(void)
{
	static char buf[1 << 16];

	xs_real.recv(peer_fd, buf, sizeof(buf), MSG_DONTWAIT);
}

static void nothing(void)
{
}

static void step(void)
{
	uint8_t op = u8(), how;

	if (op < 110)
		return say_segment();
	how = u8();
	if (op < 120)
		say_raw();
	else if (op < 140)
		twin_bytes();
	else if (op < 170)
		victim_reads(how);
	else if (op < 195)
		victim_writes(how);
	else if (op < 208)
		victim_asks(how);
	else if (op < 214)
		victim_changes(how);
	else if (op < 220)
		peer_reads();
	else if (op < 232)
		hostile_completes(how % 8);
	else if (op < 236)
		hostile_full(how & 1);
	else if (op < 238)
		xs_real.shutdown(peer_fd, SHUT_WR);
	else if (op == 238 && how < 64)
		hostile_dies();
	else if (op == 239 && how < 64)
		xs_real.poll(NULL, 0, how % 32);
	else if (op < 245)
		upgrade_in(how);
	else if (op < 250)
		upgrade_out(how);
	else if (op < 253)
		return_in(how);
	else
		hostile_in_progress(nothing);
}

/* --- the end of an input -----------------------------------------------------------------------
 */
static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void cut_off(int fd)
{
	struct linger now = {.l_onoff = 1};

	xs_real.setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	xs_real.close(fd);
}

static void check_rest(void)
{
	static int first;
	int n = 0;

	if (!first)
		first = descriptors();
	for (int i = 0; i < 5000; i++) {
		n = descriptors();
		if (n <= first + 16)
			return;
		xs_real.poll(NULL, 0, 1);
	}
	fprintf(stderr, "%d descriptors at first, %d now\n", first, n);
	abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	if (!getenv("XSHIM_POLICY")) { /* the library reads it before main */
		setenv("XSHIM_POLICY", "eager", 1);
		setenv("XSHIM_PLANES", "test", 1);
		setenv("XSHIM_RETURN_MS", "5", 1);
		setenv("XSHIM_EXIT_MS", "1", 1);
		execv("/proc/self/exe", *argv);
		abort();
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned rounds;
	bool victim_connects;

	in = data;
	in_end = data + (size < 2048 ? size : 2048);
	victim_connects = u8() & 1;
	said = 1;
	epoch = frames = 0;
	set = epoll_create1(0);
	hostile_connect(victim_connects);
	hostile_pair(victim_connects, 1 + u8() % 64);
	while (in < in_end)
		step();
	cut_off(peer_fd);
	hostile_dies();
	close(victim_fd);
	close(set);
	if (rounds++ % 256 == 0)
		check_rest();
	return 0;
}

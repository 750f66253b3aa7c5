/* SPDX-License-Identifier: MIT */
/*
 * The switch tables (sock/switch.h) driven by a random scheduler: one direction, a twin that holds
 * real bytes and frames, two lanes that overtake each other, a link that dies and comes back,
 * returns for both ends' reasons, FIN, and in every fourth round S is killed. Byte n of the stream
 * has the value of a hash of n, so each consumed byte is checked. The rules themselves are proved
 * by tests/model/switch.pml; this holds the code against them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "link/wire.h"
#include "sock/switch.h"

#define TWIN 256
#define WINDOW 64
#define LANE 16
#define TOTAL 3000

struct msg {
	uint8_t kind, flags, len;
	uint16_t epoch;
	uint64_t offset;
};
struct lane {
	struct msg m[LANE];
	unsigned n;
};

static struct {
	struct xs_s s;
	struct xs_r r;
	uint8_t twin[TWIN];
	unsigned in_twin;
	bool twin_fin;
	uint64_t kw, kr; /* kernel counts */
	uint64_t acc;	 /* bytes accepted */
	struct lane s2r[2], r2s[2];
	bool up, closed, eof, failed;
	bool killed;		      /* S is: its twin ends where it stood */
	uint8_t have[TOTAL + WINDOW]; /* placed on the plane, by offset */
	uint8_t frame[XS_FRAME_SIZE];
	unsigned deaths;
} w;

static struct {
	unsigned long frames, plains, deaths, kills, switches, resets, finals, proved;
} all;

static uint64_t seed;

static unsigned rnd(unsigned n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static uint8_t val(uint64_t n)
{
	return (uint8_t)((n * 2654435761u) >> 13);
}

static void fail(const char *why)
{
	if (!w.failed)
		printf("# %s: S %s e%u R %s e%u c=%llu t=%llu acc=%llu x=%llu\n", why,
		       xs_s_name(w.s.state), w.s.epoch, xs_r_name(w.r.state), w.r.epoch,
		       (unsigned long long)w.r.c, (unsigned long long)w.r.t,
		       (unsigned long long)w.acc, (unsigned long long)w.r.x);
	w.failed = true;
}

static bool post(struct lane *l, uint8_t kind, uint16_t epoch, uint64_t offset, uint8_t flags,
		 uint8_t len)
{
	if (!w.up)
		return true; /* lost with the link */
	if (l->n == LANE)
		return false;
	l->m[l->n++] = (struct msg){kind, flags, len, epoch, offset};
	return true;
}

static struct msg take(struct lane *l)
{
	struct msg m = l->m[0];

	memmove(l->m, l->m + 1, --l->n * sizeof(m));
	return m;
}

static void deliver(uint8_t b)
{
	if (w.r.c >= w.acc || b != val(w.r.c))
		fail("wrong byte");
}

/* R tells end-of-file: never where bytes may be missing. */
static void end_of_file(void)
{
	w.eof = true;
	if (w.r.c != w.acc || (!w.closed && !w.killed))
		fail("early end of file");
}

/* R tells ECONNRESET: S was killed, or a link died before R had learnt the end from it. */
static void reset(void)
{
	w.eof = true;
	all.resets++;
	if (!w.killed && (!w.deaths || w.r.final_known || w.r.framed == w.r.epoch))
		fail("reset without a reason");
}

/* --- S ---------- */

static void twin_put(const uint8_t *b, unsigned n)
{
	memcpy(w.twin + w.in_twin, b, n);
	w.in_twin += n;
	w.kw += n;
}

static unsigned some(uint64_t most)
{
	return most ? 1 + rnd((unsigned)(most < 24 ? most : 24)) : 0;
}

static void plane_write(uint8_t flags, unsigned n)
{
	uint64_t room = WINDOW - (w.s.end - (w.s.acked < w.s.end ? w.s.acked : w.s.end));

	if (n > room)
		n = (unsigned)room;
	if (!n || !post(&w.s2r[rnd(2)], XS_K_DATA, w.s.epoch, w.s.end, flags, (uint8_t)n))
		return;
	xs_s_took(&w.s, n);
	w.acc += n;
}

static void s_write(void)
{
	unsigned n = some(TOTAL - w.acc);
	uint8_t b[32];

	if (!n || w.closed)
		return;
	if (w.s.state == XS_S_READY && rnd(2) && w.s2r[0].n < LANE && w.s2r[1].n < LANE) {
		xs_s_first(&w.s, (uint64_t)((int64_t)w.kw - w.s.base));
		if (w.s.x != w.acc)
			fail("wrong X");
		plane_write(XS_F_FIRST, n);
	} else if (xs_s_on_plane(&w.s)) {
		plane_write(w.s.state == XS_S_SWD ? XS_F_CONFIRMED : 0, n);
	} else if (xs_s_on_twin(&w.s) && w.in_twin + n <= TWIN) {
		for (unsigned i = 0; i < n; i++)
			b[i] = val(w.acc + i);
		twin_put(b, n);
		w.acc += n;
	}
}

static void s_flush(void)
{
	struct xs_return_frame f = {.sequence = w.s.frames,
				    .epoch = w.s.epoch,
				    .kept = (uint32_t)(w.s.end - w.s.a),
				    .a = w.s.a};
	unsigned n = some(TWIN - w.in_twin);
	uint8_t b[32];

	if (w.s.state != XS_S_RET || !n)
		return;
	memset(f.secret, 0xee, sizeof(f.secret));
	if (w.s.frame_left) {
		if (n > w.s.frame_left)
			n = w.s.frame_left;
		twin_put((uint8_t *)&f + sizeof(f) - w.s.frame_left, n);
	} else {
		if (n > w.s.end - w.s.flush)
			n = (unsigned)(w.s.end - w.s.flush);
		for (unsigned i = 0; i < n; i++)
			b[i] = val(w.s.flush + i);
		twin_put(b, n);
	}
	xs_s_flushed_bytes(&w.s, n);
}

static void s_fin(void)
{
	if (w.acc == TOTAL && !w.closed && !rnd(8))
		w.closed = w.s.closed = true;
	if (w.closed && xs_s_on_plane(&w.s) && !w.s.fin_sent &&
	    post(&w.s2r[rnd(2)], XS_K_FIN, w.s.epoch, w.s.end,
		 w.s.state == XS_S_SWD ? XS_F_CONFIRMED : 0, 0))
		w.s.fin_sent = true;
	if (w.closed && !w.twin_fin && xs_s_all_in(&w.s) && xs_s_told(&w.s)) {
		xs_s_fin_on_twin(&w.s);
		w.twin_fin = true;
	}
}

static void s_due(void)
{
	uint16_t e;

	if (w.s.reply && post(&w.s2r[0], XS_K_RETURNED, w.s.reply, 0, 0, 0))
		w.s.reply = 0;
	if (xs_s_flushed_due(&w.s) && w.s2r[0].n < LANE) {
		w.s.flushed = xs_s_over(&w.s);
		post(&w.s2r[0], XS_K_FLUSHED, w.s.flushed, 0, 0, 0);
	}
	if (!rnd(6) && w.s2r[0].n < LANE && (e = xs_s_prepare(&w.s)))
		post(&w.s2r[0], XS_K_PREPARE, e, 0, 0, 0);
}

static void s_message(void)
{
	struct lane *l = &w.r2s[rnd(2)];
	struct msg m;

	if (!l->n)
		return;
	m = take(l);
	if (m.kind == XS_K_READY)
		xs_s_ready(&w.s, m.epoch);
	else if (m.kind == XS_K_SWITCHED)
		xs_s_switched(&w.s, m.epoch);
	else if (m.kind == XS_K_ACK)
		xs_s_ack(&w.s, m.epoch, m.offset);
	else if (m.kind == XS_K_RETURN_ME)
		xs_s_return_me(&w.s, m.epoch, m.offset, m.flags & XS_F_SWITCHED);
}

/* --- R ---------- */

static uint64_t placed(void)
{
	uint64_t n = 0;

	while (w.r.c + n < TOTAL && w.have[w.r.c + n])
		n++;
	return n;
}

static void drop_placed(uint64_t keep)
{
	memset(w.have + w.r.c + keep, 0, sizeof(w.have) - w.r.c - keep);
}

static void twin_drop(unsigned n)
{
	memmove(w.twin, w.twin + n, w.in_twin -= n);
	w.kr += n;
}

static void r_look(void)
{
	uint8_t secret[16];
	struct xs_return_frame f;
	uint64_t n = placed();
	bool ours;

	memset(secret, 0xee, sizeof(secret));
	ours = !memcmp(w.twin, secret, w.in_twin < sizeof(secret) ? w.in_twin : sizeof(secret));
	if (w.r.state != XS_R_PLANE || (!w.in_twin && !w.twin_fin))
		return;
	if (!w.in_twin) {
		if (!n && xs_r_twin_fin(&w.r) == XS_FIN_RESET && !w.s2r[0].n && !w.s2r[1].n) {
			reset();
			if (!w.killed)
				fail("FIN at X, bytes missing");
		}
		return;
	}
	memcpy(&f, w.twin, w.in_twin < sizeof(f) ? w.in_twin : sizeof(f));
	if (w.in_twin >= sizeof(f) && ours) {
		if (!xs_r_frame_valid(&w.r, &f))
			return fail("frame not valid");
		twin_drop(sizeof(f));
		xs_r_decoded_frame(&w.r, &f, n);
		all.frames++;
	} else if (!w.r.confirmed && !ours) {
		xs_r_decoded_plain(&w.r, n);
		all.plains++;
	} else {
		if (w.twin_fin && ours && w.killed)
			reset(); /* half a frame, and no more to come */
		return;
	}
	drop_placed(n);
}

static void r_twin_end(void)
{
	enum xs_r_fin fin = xs_r_twin_fin(&w.r);

	all.finals += fin == XS_FIN_EOF && xs_r_in_doubt(&w.r);
	all.proved += fin == XS_FIN_EOF && !w.r.linked && w.r.framed == w.r.epoch &&
		      w.r.epoch > w.r.flushed;
	if (fin == XS_FIN_EOF)
		end_of_file();
	else if (fin == XS_FIN_RESET)
		reset();
}

static void r_read_twin(void)
{
	uint64_t n = xs_r_twin_drop(&w.r);

	if (n && !w.in_twin && w.twin_fin) {
		r_twin_end();
	} else if (n) {
		n = n < w.in_twin ? n : w.in_twin;
		twin_drop((unsigned)n);
		xs_r_twin_took(&w.r, n);
	}
	if (n)
		return;
	n = xs_r_twin_limit(&w.r);
	if (w.r.c < w.r.copies || w.r.t != w.r.c)
		return;
	n = n < w.in_twin ? n : w.in_twin;
	n = n ? some(n) : 0;
	for (unsigned i = 0; i < n; i++) {
		deliver(w.twin[i]);
		xs_r_consumed(&w.r, 1);
	}
	twin_drop((unsigned)n);
	xs_r_twin_took(&w.r, n);
	if (!w.in_twin && w.twin_fin && xs_r_on_twin(&w.r))
		r_twin_end();
}

static void r_read_plane(void)
{
	uint64_t n = some(placed());

	if (w.r.state != XS_R_PLANE && w.r.c >= w.r.copies)
		return;
	for (uint64_t i = 0; i < n && (w.r.state == XS_R_PLANE || w.r.c < w.r.copies); i++) {
		deliver(w.have[w.r.c] - 1 == 0 ? val(w.r.c) : 0);
		xs_r_consumed(&w.r, 1);
	}
	if (xs_r_at_fin(&w.r))
		end_of_file();
}

static void r_due(void)
{
	if (xs_r_may_ready(&w.r) && w.r2s[0].n < LANE) {
		xs_r_ready(&w.r);
		drop_placed(0);
		post(&w.r2s[0], XS_K_READY, w.r.epoch, 0, 0, 0);
	}
	if (xs_r_may_switch(&w.r) && w.r2s[0].n < LANE) {
		xs_r_switched(&w.r);
		all.switches++;
		post(&w.r2s[0], XS_K_SWITCHED, w.r.epoch, w.r.c, 0, 0);
	}
	if (w.r.state == XS_R_PLANE && rnd(2))
		post(&w.r2s[rnd(2)], XS_K_ACK, w.r.epoch, w.r.c + (w.eof ? 1 : 0), 0, 0);
	if (!rnd(60) && w.r.linked && !w.r.asked && w.r.epoch && w.r.state != XS_R_KERN) {
		bool sw = w.r.state == XS_R_PLANE;

		w.r.asked = post(&w.r2s[1], XS_K_RETURN_ME, w.r.epoch, w.r.c,
				 sw ? XS_F_SWITCHED : 0, 0);
	}
}

static void r_message(void)
{
	struct lane *l = &w.s2r[rnd(2)];
	struct msg m;

	if (!l->n)
		return;
	m = take(l);
	if (m.kind == XS_K_PREPARE) {
		xs_r_prepare(&w.r, m.epoch);
	} else if (m.kind == XS_K_RETURNED) {
		if (xs_r_returned(&w.r, m.epoch))
			drop_placed(0);
	} else if (m.kind == XS_K_FLUSHED) {
		xs_r_flushed(&w.r, m.epoch);
		if (w.s.linked && m.epoch == w.s.flushed)
			w.s.told = m.epoch; /* its completion */
	} else if (xs_r_segment(&w.r, m.epoch, m.flags, m.kind == XS_K_FIN, m.offset)) {
		for (unsigned i = 0; i < m.len; i++)
			if (m.offset + i >= w.r.c)
				w.have[m.offset + i] = 1;
	}
}

/* --- the world ---------- */

static void link_turn(void)
{
	if (w.up && !rnd(w.closed ? 40 : 400) && w.deaths < 3) {
		w.up = false;
		w.deaths++;
		all.deaths++;
	}
	if (!w.up && w.s.linked && !w.killed && rnd(2)) {
		w.r2s[0].n = w.r2s[1].n = 0;
		xs_s_link_dead(&w.s);
	}
	if (!w.up && w.r.linked && rnd(2)) {
		bool open = w.r.state == XS_R_OPEN;

		while (w.s2r[0].n || w.s2r[1].n)
			rnd(2) && w.s2r[0].n ? (void)take(&w.s2r[0]) : r_message();
		if (xs_r_link_dead(&w.r) && open && w.r.c >= w.r.copies)
			drop_placed(0);
	}
	if (!w.up && !w.s.linked && !w.r.linked && w.r.c >= w.r.copies && w.r.state == XS_R_KERN &&
	    w.s.state == XS_S_KERN && !w.closed && !w.killed && rnd(2)) {
		w.up = true;
		xs_s_link_up(&w.s);
		xs_r_link_up(&w.r);
	}
}

/* The kernel closes the twin behind what is in it; what was posted may still arrive. */
static void kill_s(void)
{
	w.killed = true;
	all.kills++;
	w.up = false;
	w.twin_fin = true;
}

static void step(void)
{
	switch (w.killed ? 6 + rnd(6) : rnd(12)) { /* the first six are S's */
	case 0:
	case 1:
		return s_write();
	case 2:
		return s_flush();
	case 3:
		s_due();
		return s_fin();
	case 4:
		return s_message();
	case 5:
		if (!rnd(40) && xs_s_on_plane(&w.s))
			xs_s_return(&w.s);
		return;
	case 6:
		return r_read_twin();
	case 7:
		return r_read_plane();
	case 8:
		return r_due();
	case 9:
		return r_message();
	case 10:
		return r_look();
	default:
		return link_turn();
	}
}

int main(void)
{
	for (unsigned round = 1; round <= 2000; round++) {
		unsigned n;

		memset(&w, 0, sizeof(w));
		seed = round;
		xs_s_init(&w.s);
		xs_r_init(&w.r);
		w.up = true;
		xs_s_link_up(&w.s);
		xs_r_link_up(&w.r);
		for (n = 0; n < 400000 && !w.eof && !w.failed; n++) {
			step();
			if (round % 4 == 0 && !w.killed && !w.twin_fin &&
			    !rnd(w.closed ? 40 : 8000))
				kill_s();
		}
		if (!w.eof && !w.failed)
			fail("stuck");
		if (w.failed)
			printf("# round %u after %u steps\n", round, n);
		CHECK(!w.failed);
	}
	printf("# %lu switches, %lu framed and %lu plain returns, %lu link deaths, %lu kills, %lu "
	       "resets, %lu ends known in band alone, %lu proved by a frame\n",
	       all.switches, all.frames, all.plains, all.deaths, all.kills, all.resets, all.finals,
	       all.proved);
	CHECK(all.switches > 1000 && all.frames > 1000 && all.plains > 100 && all.deaths > 1000);
	CHECK(all.kills > 100 && all.resets > 100 && all.finals > 10 && all.proved > 5);
	return check_done();
}

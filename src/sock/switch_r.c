/* SPDX-License-Identifier: MIT */
/* R, the receiver of a direction (switch.h). */
#include "sock/switch.h"

#include "base/log.h"
#include "link/wire.h"

enum r_event { READY, SWITCHED, LEAVE, EVENTS };

#define R(x) (XS_R_##x + 1) /* 0 in the table: unlisted */
static const uint8_t table[XS_R_STATES][EVENTS] = {
	[XS_R_KERN] = {[READY] = R(OPEN), [LEAVE] = R(KERN)},
	[XS_R_OPEN] = {[READY] = R(OPEN), [SWITCHED] = R(PLANE), [LEAVE] = R(KERN)},
	[XS_R_PLANE] = {[LEAVE] = R(KERN)},
};
#undef R

static const char *const names[XS_R_STATES] = {"kern", "open", "plane"};

const char *xs_r_name(enum xs_r_state r)
{
	return r < XS_R_STATES ? names[r] : "?";
}

/* The one place that writes the state. */
static void move(struct xs_r *r, enum r_event ev)
{
	uint8_t next = table[r->state][ev];

	if (next)
		r->state = (enum xs_r_state)(next - 1);
	else
		XS_LOG(ERROR, "bug: rx %s has no event %d", xs_r_name(r->state), (int)ev);
}

/* The epoch is over; what was announced is kept (copies). */
static void leave(struct xs_r *r)
{
	r->x_known = r->fin_known = r->confirmed = false;
	move(r, LEAVE);
}

void xs_r_init(struct xs_r *r)
{
	*r = (struct xs_r){.state = XS_R_KERN};
}

bool xs_r_prepare(struct xs_r *r, uint16_t epoch)
{
	if (epoch <= r->epoch || epoch <= r->prepared)
		return false;
	r->prepared = epoch;
	return true;
}

bool xs_r_may_ready(const struct xs_r *r)
{
	return r->prepared && xs_r_on_twin(r) && !r->frozen && !r->pinned && r->linked &&
	       r->c >= r->copies;
}

uint16_t xs_r_ready(struct xs_r *r)
{
	leave(r);
	move(r, READY);
	r->epoch = r->prepared;
	r->prepared = 0;
	r->asked = false;
	return r->epoch;
}

bool xs_r_segment(struct xs_r *r, uint16_t epoch, unsigned flags, bool fin, uint64_t offset)
{
	if (epoch != r->epoch || (r->state != XS_R_OPEN && r->state != XS_R_PLANE) || r->frozen)
		return false;
	if ((flags & XS_F_FIRST) && r->state == XS_R_OPEN) {
		if (offset < r->t) { /* [1] this epoch was returned before we knew of it */
			leave(r);
			return false;
		}
		r->x = offset;
		r->x_known = true;
	}
	if (flags & XS_F_CONFIRMED)
		r->confirmed = true;
	if (fin) {
		r->fin = r->final = offset;
		r->fin_known = r->final_known = true;
	}
	return true;
}

bool xs_r_may_switch(const struct xs_r *r)
{
	return r->state == XS_R_OPEN && r->x_known && r->c == r->x && r->t == r->x && r->linked &&
	       !r->frozen && !r->asked;
}

void xs_r_switched(struct xs_r *r)
{
	move(r, SWITCHED);
}

uint64_t xs_r_twin_drop(const struct xs_r *r)
{
	uint64_t n = xs_r_twin_limit(r);

	if (r->t >= r->c)
		return 0;
	return r->c - r->t < n ? r->c - r->t : n;
}

uint64_t xs_r_twin_limit(const struct xs_r *r)
{
	if (!xs_r_on_twin(r))
		return 0;
	if (r->x_known)
		return r->x > r->t ? r->x - r->t : 0;
	return UINT64_MAX - r->t;
}

void xs_r_twin_took(struct xs_r *r, uint64_t n)
{
	r->t += n;
}

void xs_r_consumed(struct xs_r *r, uint64_t n)
{
	r->c += n;
}

void xs_r_decoded_plain(struct xs_r *r, uint64_t placed)
{
	r->copies = r->c + placed;
	r->t = r->x;
	leave(r);
}

bool xs_r_frame_valid(const struct xs_r *r, const struct xs_return_frame *f)
{
	return r->state == XS_R_PLANE && f->sequence == r->frames && f->epoch == r->epoch &&
	       f->a >= r->x && f->a <= r->c && r->c - f->a <= f->kept;
}

void xs_r_decoded_frame(struct xs_r *r, const struct xs_return_frame *f, uint64_t placed)
{
	r->frames++;
	r->framed = r->epoch;
	r->whole = f->a + f->kept;
	r->base = (int64_t)r->x + r->base + XS_FRAME_SIZE - (int64_t)f->a;
	r->copies = r->c + placed;
	r->t = f->a;
	leave(r);
}

void xs_r_decoded_fin(struct xs_r *r)
{
	r->base += (int64_t)r->x - (int64_t)r->c; /* the twin's queue is empty: it stands at C */
	r->copies = r->c;
	r->t = r->c;
	leave(r);
}

bool xs_r_returned(struct xs_r *r, uint16_t epoch)
{
	if (!xs_r_on_twin(r) || !r->asked || epoch != r->epoch)
		return false;
	leave(r);
	return true;
}

void xs_r_flushed(struct xs_r *r, uint16_t epoch)
{
	if (epoch > r->flushed)
		r->flushed = epoch;
}

bool xs_r_link_dead(struct xs_r *r)
{
	if (!r->linked)
		return false;
	r->linked = false;
	r->prepared = 0;
	if (!xs_r_on_twin(r))
		return false;
	leave(r);
	return true;
}

void xs_r_link_up(struct xs_r *r)
{
	r->linked = true;
}

enum xs_r_fin xs_r_twin_fin(const struct xs_r *r)
{
	if (r->state == XS_R_PLANE)
		return r->fin_known && r->fin == r->c ? XS_FIN_EOF : XS_FIN_RESET;
	if (r->x_known)
		return XS_FIN_WAIT; /* segments from X are still being served or on their way */
	/* [16] A FIN exactly where S said in band that the stream ends is as good as FLUSHED. */
	if (!xs_r_in_doubt(r) || (r->final_known && r->c == r->final && r->t == r->c))
		return XS_FIN_EOF;
	return r->linked ? XS_FIN_WAIT : XS_FIN_RESET;
}

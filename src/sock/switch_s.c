/* SPDX-License-Identifier: MIT */
/* S, the sender of a direction (switch.h). */
#include "sock/switch.h"

#include "base/log.h"

enum s_event { PREPARE, READY, FIRST, SWITCHED, VOID, RETURN, ALL_IN, FIN, EVENTS };

#define S(x) (XS_S_##x + 1) /* 0 in the table: unlisted */
static const uint8_t table[XS_S_STATES][EVENTS] = {
	[XS_S_KERN] = {[PREPARE] = S(PREP), [VOID] = S(KERN), [FIN] = S(DONE)},
	[XS_S_PREP] = {[READY] = S(READY), [VOID] = S(KERN), [FIN] = S(DONE)},
	[XS_S_READY] = {[FIRST] = S(PLANE), [VOID] = S(KERN), [FIN] = S(DONE)},
	[XS_S_PLANE] = {[SWITCHED] = S(SWD), [RETURN] = S(RET)},
	[XS_S_SWD] = {[RETURN] = S(RET), [FIN] = S(DONE)},
	[XS_S_RET] = {[ALL_IN] = S(KERN)},
	[XS_S_DONE] = {0},
};
#undef S

static const char *const names[XS_S_STATES] = {"kern", "prep", "ready", "plane",
					       "swd",  "ret",  "done"};

const char *xs_s_name(enum xs_s_state s)
{
	return s < XS_S_STATES ? names[s] : "?";
}

/* The one place that writes the state. An unlisted pair is a bug of ours: the state stays. */
static bool move(struct xs_s *s, enum s_event ev)
{
	uint8_t next = table[s->state][ev];

	if (!next) {
		XS_LOG(ERROR, "bug: tx %s has no event %d", xs_s_name(s->state), (int)ev);
		return false;
	}
	s->state = (enum xs_s_state)(next - 1);
	return true;
}

void xs_s_init(struct xs_s *s)
{
	*s = (struct xs_s){.state = XS_S_KERN};
}

uint16_t xs_s_prepare(struct xs_s *s)
{
	if (s->state != XS_S_KERN || !s->linked || s->closed || s->giving ||
	    s->epoch == XS_EPOCH_MAX || !move(s, PREPARE))
		return 0;
	return ++s->epoch;
}

bool xs_s_ready(struct xs_s *s, uint16_t epoch)
{
	return epoch == s->epoch && s->state == XS_S_PREP && move(s, READY);
}

bool xs_s_switched(struct xs_s *s, uint16_t epoch)
{
	return epoch == s->epoch && s->state == XS_S_PLANE && move(s, SWITCHED);
}

bool xs_s_ack(struct xs_s *s, uint16_t epoch, uint64_t offset)
{
	bool news = false;

	if (epoch != s->epoch || !xs_s_on_plane(s) || offset < s->x ||
	    offset > s->end + (s->fin_sent ? 1 : 0))
		return false;
	if (offset > s->acked) {
		s->acked = offset;
		news = true;
	}
	return xs_s_switched(s, epoch) || news;
}

void xs_s_first(struct xs_s *s, uint64_t x)
{
	s->x = s->end = s->acked = x;
	s->fin_sent = false;
	move(s, FIRST);
}

void xs_s_took(struct xs_s *s, uint64_t n)
{
	s->end += n;
}

bool xs_s_return(struct xs_s *s)
{
	if (xs_s_on_twin(s)) {
		move(s, VOID); /* the epoch is spent, READY is void */
		return false;
	}
	if (!xs_s_on_plane(s) || xs_s_fin_acked(s))
		return false; /* only the twin's FIN is missing, or S has returned before */
	if (s->state == XS_S_PLANE) {
		s->flush = s->x; /* plain: R may not even know X; the base stays */
		s->frame_left = 0;
	} else {
		s->a = s->flush = s->acked;
		s->frame_left = XS_FRAME_SIZE;
		s->base = (int64_t)s->x + s->base + XS_FRAME_SIZE - (int64_t)s->a;
	}
	return move(s, RETURN) && !xs_s_flushed_bytes(s, 0);
}

bool xs_s_return_me(struct xs_s *s, uint16_t epoch, uint64_t c, bool switched)
{
	bool now = epoch == s->epoch;

	if (switched) {
		if (!now || !xs_s_on_plane(s))
			return false;
		xs_s_ack(s, epoch, c);
		if (s->state == XS_S_PLANE)
			move(s, SWITCHED);
		xs_s_return(s);
		return true;
	}
	s->reply = epoch;
	if (!now || s->state == XS_S_RET || s->state == XS_S_DONE)
		return false;
	xs_s_return(s);
	return true;
}

bool xs_s_link_dead(struct xs_s *s)
{
	if (!s->linked)
		return false;
	s->linked = false;
	s->reply = 0;
	s->flushed = s->told = 0;
	return xs_s_return(s);
}

void xs_s_link_up(struct xs_s *s)
{
	s->linked = true;
}

bool xs_s_flushed_bytes(struct xs_s *s, uint64_t n)
{
	uint64_t frame = n < s->frame_left ? n : s->frame_left;

	if (s->state != XS_S_RET)
		return true;
	s->frame_left = (uint8_t)(s->frame_left - frame);
	if (frame && !s->frame_left)
		s->frames++;
	s->flush += n - frame;
	if (s->frame_left || s->flush < s->end)
		return false;
	s->fin_sent = false;
	return move(s, ALL_IN);
}

bool xs_s_all_in(const struct xs_s *s)
{
	return xs_s_on_twin(s) || s->state == XS_S_DONE ||
	       (s->state == XS_S_SWD && xs_s_fin_acked(s));
}

uint16_t xs_s_over(const struct xs_s *s)
{
	bool over = s->state == XS_S_KERN || s->state == XS_S_DONE || (s->closed && xs_s_all_in(s));

	return over || !s->epoch ? s->epoch : (uint16_t)(s->epoch - 1);
}

bool xs_s_flushed_due(const struct xs_s *s)
{
	return s->linked && s->flushed < xs_s_over(s);
}

bool xs_s_told(const struct xs_s *s)
{
	return !s->linked || s->told == s->epoch;
}

void xs_s_fin_on_twin(struct xs_s *s)
{
	move(s, FIN);
}

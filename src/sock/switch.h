/* SPDX-License-Identifier: MIT */
/*
 * The switching protocol as two state machines without I/O: S, the sender of a direction, and R,
 * its receiver. Same states and rules as tests/model/switch.pml ([n] = rule n): change both
 * together. The streams feed them with what happened and ask what's due; tests/unit drives them
 * with a random scheduler. All of it under the connection's lock.
 *
 * Offsets count application bytes of the direction from the connection's start. A kernel count
 * minus `base` is an offset; base changes only when a framed return has put 32 foreign bytes into
 * the twin and repeated the kept ones.
 */
#ifndef XS_SOCK_SWITCH_H
#define XS_SOCK_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#define XS_FRAME_SIZE 32
#define XS_EPOCH_MAX 0xffffu

enum xs_s_state {
	XS_S_KERN,  /* writes and FIN go to the twin; may PREPARE the next epoch; handed over if
		       `giving` */
	XS_S_PREP,  /* as KERN; PREPARE is out */
	XS_S_READY, /* as KERN; a write may take X and go out as FIRST */
	XS_S_PLANE, /* segments; all from X is kept; a return is plain, from X */
	XS_S_SWD,   /* segments with CONFIRMED; ACK frees; a return is a frame, then from A */
	XS_S_RET, /* nothing is posted; frame, kept bytes, later writes go to the twin in this order
		   */
	XS_S_DONE, /* the twin has our FIN; only RETURN_ME is answered */
	XS_S_STATES
};

enum xs_r_state {
	XS_R_KERN,  /* reads the twin at T, drops what lies below C, serves copies it had announced
		     */
	XS_R_OPEN,  /* as KERN, up to X; READY is out */
	XS_R_PLANE, /* SWITCHED is out; reads the plane; the twin at X tells how S returned */
	XS_R_STATES
};

struct xs_s {
	enum xs_s_state state;
	uint16_t epoch;
	uint16_t flushed; /* the last epoch that FLUSHED was sent for on this link */
	uint16_t told;	  /* ... and that has completed */
	uint16_t reply;	  /* RETURNED is due for this epoch; 0: none */
	uint16_t frames;  /* RETURN frames written so far: the next one's sequence */
	int64_t base;
	uint64_t x, end;    /* X; the next offset to send */
	uint64_t acked;	    /* kept from here; end + 1: the FIN is consumed too */
	uint64_t flush;	    /* RET: the next offset for the twin */
	uint64_t a;	    /* RET with a frame: its A */
	uint8_t frame_left; /* RET: bytes of the frame that the twin hasn't taken */
	bool linked;	    /* there is a link that isn't known dead */
	bool closed;	    /* the writer is done: FIN */
	bool fin_sent;	    /* ... in band */
	bool giving;	    /* hand-over or pin: no new epoch */
};

struct xs_r {
	enum xs_r_state state;
	uint16_t epoch;	   /* READY was sent for it; 0: none so far */
	uint16_t prepared; /* a PREPARE that waits for its answer; 0: none */
	uint16_t flushed;  /* FLUSHED has come for it */
	uint16_t framed;   /* the last epoch that was returned by a frame */
	uint16_t frames;   /* frames seen so far */
	int64_t base;
	uint64_t c;	 /* consumed by the application */
	uint64_t t;	 /* the offset at which the twin is read */
	uint64_t x, fin; /* valid if x_known, fin_known */
	uint64_t copies; /* announced copies are served up to here after a return */
	uint64_t whole;	 /* all of the framed epoch is out of the twin once it's read up to here */
	uint64_t final;	 /* [16] the end as an in-band FIN told it, in whatever epoch */
	bool x_known, fin_known, final_known, confirmed;
	bool linked;
	bool frozen; /* for a hand-over: no read, no SWITCHED, no READY */
	bool asked;  /* RETURN_ME is out */
	bool pinned; /* no READY any more */
};

void xs_s_init(struct xs_s *s);
void xs_r_init(struct xs_r *r);
const char *xs_s_name(enum xs_s_state s);
const char *xs_r_name(enum xs_r_state r);

/* --- S ---------- */
static inline bool xs_s_on_twin(const struct xs_s *s)
{
	return s->state <= XS_S_READY;
}
static inline bool xs_s_on_plane(const struct xs_s *s)
{
	return s->state == XS_S_PLANE || s->state == XS_S_SWD;
}
static inline bool xs_s_fin_acked(const struct xs_s *s)
{
	return s->fin_sent && s->acked > s->end;
}
/* The next epoch begins: its number, to be said in PREPARE; 0: not now. */
uint16_t xs_s_prepare(struct xs_s *s);
/* Messages from R; true: the state moved (ack: something new was acknowledged). */
bool xs_s_ready(struct xs_s *s, uint16_t epoch);
bool xs_s_switched(struct xs_s *s, uint16_t epoch);
bool xs_s_ack(struct xs_s *s, uint16_t epoch, uint64_t offset); /* [2] */
/* [4], [5]. True: S has to return now, and is in RET or KERN. */
bool xs_s_return_me(struct xs_s *s, uint16_t epoch, uint64_t c, bool switched);
/* A write takes X in READY. */
void xs_s_first(struct xs_s *s, uint64_t x);
/* n more bytes are on the plane. */
void xs_s_took(struct xs_s *s, uint64_t n);
/* For a reason of S's own. True: it's in RET now (something has to be flushed). */
bool xs_s_return(struct xs_s *s);
bool xs_s_link_dead(struct xs_s *s);
void xs_s_link_up(struct xs_s *s);
/* RET: n bytes went into the twin: first the frame's, then kept ones. True: all in; KERN. */
bool xs_s_flushed_bytes(struct xs_s *s, uint64_t n);
/* All of this direction is in the twin; the epochs up to this one are over for S. */
bool xs_s_all_in(const struct xs_s *s);
uint16_t xs_s_over(const struct xs_s *s);
/* FLUSHED has to be sent, for xs_s_over(). */
bool xs_s_flushed_due(const struct xs_s *s);
/* [9] S may put its FIN on the twin or give the descriptor away. */
bool xs_s_told(const struct xs_s *s);
void xs_s_fin_on_twin(struct xs_s *s);

/* --- R ---------- */
static inline bool xs_r_on_twin(const struct xs_r *r)
{
	return r->state <= XS_R_OPEN;
}
/* [9], [15] Bytes of the last epoch may be missing in the twin: neither FLUSHED nor all that a
 * frame had promised has come. */
static inline bool xs_r_in_doubt(const struct xs_r *r)
{
	return r->epoch > r->flushed && (r->framed < r->epoch || r->t < r->whole);
}
bool xs_r_prepare(struct xs_r *r, uint16_t epoch); /* [14] true: READY is wanted */
/* [3] READY may be sent as far as the protocol goes. */
bool xs_r_may_ready(const struct xs_r *r);
/* READY is being sent; the epoch is open. */
uint16_t xs_r_ready(struct xs_r *r);
/* A segment. True: its bytes may be placed. [1] */
bool xs_r_segment(struct xs_r *r, uint16_t epoch, unsigned flags, bool fin, uint64_t offset);
/* [11] True: R stands at X and may send SWITCHED. */
bool xs_r_may_switch(const struct xs_r *r);
void xs_r_switched(struct xs_r *r);
/* How many bytes may be taken from the twin now, as repeats to drop or as data. */
uint64_t xs_r_twin_drop(const struct xs_r *r);
uint64_t xs_r_twin_limit(const struct xs_r *r);
void xs_r_twin_took(struct xs_r *r, uint64_t n);
void xs_r_consumed(struct xs_r *r, uint64_t n);
/* PLANE: the twin at X has told how S returned; `placed` = contiguous copies above C. */
void xs_r_decoded_plain(struct xs_r *r, uint64_t placed);
struct xs_return_frame;
bool xs_r_frame_valid(const struct xs_r *r, const struct xs_return_frame *f);
void xs_r_decoded_frame(struct xs_r *r, const struct xs_return_frame *f, uint64_t placed);
void xs_r_decoded_fin(struct xs_r *r); /* [8] */
/* Answer to RETURN_ME. True: the epoch is over, the plane's bytes are to be dropped. */
bool xs_r_returned(struct xs_r *r, uint16_t epoch);
void xs_r_flushed(struct xs_r *r, uint16_t epoch);
/* True: X and copies are to be dropped. */
bool xs_r_link_dead(struct xs_r *r);
void xs_r_link_up(struct xs_r *r);
/* A FIN on the twin at T (T = C, nothing of the plane left to serve). */
enum xs_r_fin { XS_FIN_EOF, XS_FIN_WAIT, XS_FIN_RESET };
enum xs_r_fin xs_r_twin_fin(const struct xs_r *r);
/* The in-band FIN stands at C. */
static inline bool xs_r_at_fin(const struct xs_r *r)
{
	return r->state == XS_R_PLANE && r->fin_known && r->c == r->fin;
}
/* `ahead` bytes from here the stream ends, as S said in band, whatever the twin still has to say:
 * what was told once isn't taken back by a return. */
static inline bool xs_r_at_final(const struct xs_r *r, uint64_t ahead)
{
	return r->final_known && r->c + ahead >= r->final;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Resets of an upgraded stream: one direction, sender S, receiver R, one epoch, from READY on. Names and
 * states are switch.pml's. Either end may reset at any moment (linger 0, or bytes unread at its close):
 * SO_LINGER{1,0} on the twin, then close, so that the kernel sends RST. What of the twin's bytes hadn't
 * arrived by then is lost; what had can still be read; then the kernel tells ECONNRESET, once, and after
 * that end-of-file. The id is closed: a segment for it is answered PEER_GONE, once, and the end may say so
 * unasked. PEER_GONE and RST come in either order, or only RST, as the link may die at any moment.
 *
 * Or R's program closes with nothing unread, as far as R knows: R stays behind as an orphan that answers
 * data by a reset and takes the FIN. S that has come to its clean end is closed too: it's silent.
 *
 * Checked: bytes come in order; end-of-file only when all accepted bytes were consumed; ECONNRESET only
 * after a reset, and only when all that can still be reached has been read; nobody waits for good.
 * -DMUTANT=n breaks a rule on purpose; check.sh requires those runs to fail.
 */
#ifndef N
#define N 2         /* bytes that the writer may write */
#endif
#ifndef K
#define K 5         /* units that fit into the twin */
#endif
#ifndef Q
#define Q 2         /* messages in flight per lane and direction */
#endif
#ifndef LANES
#define LANES 2     /* lanes from S: messages on different ones may overtake each other */
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef STALLS
#define STALLS 1    /* times that S may return for a reason of its own */
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define NONE 255
#define FIRST 1
#define CONFIRMED 2

mtype = { DATA, FRAME, FIN, SEG, FINSEG, SWITCHED, ACK, PEER_GONE,
          S_READY, S_PLANE, S_SWD, S_RET, S_KERN, S_DONE, S_BROKEN, S_GONE,
          R_OPEN, R_PLANE, R_KERN, R_ORPHAN, R_GONE };

chan twin = [K] of { mtype, byte };
chan s2r[2] = [Q] of { mtype, byte, byte, byte };  /* kind, offset, value, flags */
chan r2s = [Q] of { mtype, byte };                 /* kind, consumption */
bit up = 1, quiet;
byte deaths = DEATHS, stalls = STALLS;

/* the kernel */
bit s_rst, r_rst;            /* S, R has sent RST ... */
bit rst_at_r, rst_at_s;      /* ... and it's there */
byte left;                   /* units that still can be read after S's RST */
bit told;                    /* ECONNRESET was given to R: from now on recv says 0 */

/* S */
mtype sst = S_READY;
byte acc, sx, snext, sack, sflush;
bit sframe, sdead, sclosed, sfinsent, ssays;

/* R */
mtype rst = R_OPEN;
byte cons, rC, rT, rx = NONE, rfin = NONE, rack, rhi;
byte have[N];
bit rdead, rconf, reof, broken, rgone, rsays, routof;

hidden byte m, o, v, f, i;

#define CAN_S (!up || nfull(s2r[0]) || (LANES > 1 && nfull(s2r[1])))
#define CAN_R (!up || nfull(r2s))
#define S_ON_PLANE (sst == S_PLANE || sst == S_SWD)
#define S_ALIVE (sst != S_GONE && sst != S_BROKEN && sst != S_DONE)
#define FIN_ACKED (sfinsent && sack > snext)
#define R_TWIN (rst == R_OPEN || rst == R_KERN)
#define R_ALIVE ((R_TWIN || rst == R_PLANE) && !broken && !reof)
#define THERE (len(twin) > 0 && (!s_rst || left > 0)) /* recv would find a unit */
#define HEAD(k) (THERE && twin?[k, _])
#define UP_TO_X (R_TWIN && (rx == NONE || rT < rx))
/* what the reader can still get without a hole: from the copies, or from the twin */
#define ON_PLANE (rC < N && have[rC] && (rst == R_PLANE || (rst == R_KERN && rC < rhi) || \
	(rst == R_OPEN && rx == rC && rT == rC)))
#define IN_TWIN (UP_TO_X && (HEAD(DATA) || HEAD(FIN)))

inline s_tx(k, x, val, fl) {
	if
	:: !up
	:: up && nfull(s2r[0]) -> s2r[0]!k(x, val, fl)
	:: up && LANES > 1 && nfull(s2r[1]) -> s2r[1]!k(x, val, fl)
	fi
}
inline r_tx(k, x) { if :: up -> r2s!k(x) :: else fi }
inline pop() { twin?m(o); if :: s_rst -> left-- :: else fi }

inline s_forget() { sx = 0; snext = 0; sack = 0; sflush = 0; sframe = 0; sfinsent = 0 }
inline r_forget() {
	for (i : 0 .. N - 1) { have[i] = 0 };
	rx = NONE; rfin = NONE; rconf = 0; rgone = 0; rhi = 0; rack = 0; routof = 0; told = 0
}
inline s_return() {
	if
	:: sst == S_READY -> sst = S_KERN
	:: sst == S_PLANE -> sflush = sx; sst = S_RET
	:: sst == S_SWD && !FIN_ACKED -> sflush = sack; sframe = 1; sst = S_RET
	:: else
	fi
}
/* R has reset: what S keeps is dropped, its writes fail */
inline s_broken() { assert(r_rst); if :: S_ALIVE -> sst = S_BROKEN; s_forget() :: else fi }
inline s_take() {
	r2s?m(o);
	if
	:: sst == S_GONE -> ssays = (m != PEER_GONE && MUTANT != 7)
	:: sst == S_DONE -> ssays = (m == ACK && MUTANT == 8)
	:: m == SWITCHED && sst == S_PLANE -> sst = S_SWD
	:: m == ACK && S_ON_PLANE -> sst = S_SWD; if :: o > sack -> sack = o :: else fi
	:: m == PEER_GONE && sst != S_GONE -> s_broken()
	:: else
	fi
}

proctype S() {
endS:	do
	:: d_step { !quiet && (sst == S_READY || sst == S_KERN) && acc < N && !sclosed && nfull(twin) ->
		twin!DATA(acc); acc++ }
	:: atomic { !quiet && sst == S_READY && acc < N && !sclosed && CAN_S ->
		sx = acc; sack = acc; snext = acc + 1;
		s_tx(SEG, sx, acc, FIRST); acc++; sst = S_PLANE }
	:: atomic { !quiet && S_ON_PLANE && acc < N && !sclosed && CAN_S ->
		s_tx(SEG, snext, acc, (sst == S_SWD -> CONFIRMED : 0)); snext++; acc++ }
	:: d_step { !quiet && S_ALIVE && !sclosed -> sclosed = 1 }
	:: atomic { sclosed && S_ON_PLANE && !sfinsent && CAN_S ->
		s_tx(FINSEG, snext, 0, (sst == S_SWD -> CONFIRMED : 0)); sfinsent = 1 }
	:: d_step { sclosed && nfull(twin) && (sst == S_READY || sst == S_KERN || (sst == S_SWD && FIN_ACKED)) ->
		twin!FIN(0); sst = S_DONE; s_forget() }
	/* return */
	:: d_step { !quiet && stalls > 0 && S_ON_PLANE -> stalls--; s_return() }
	:: d_step { sst == S_RET && sframe && nfull(twin) -> twin!FRAME(sflush); sframe = 0 }
	:: d_step { sst == S_RET && !sframe && sflush < snext && nfull(twin) ->
		twin!DATA(sflush); sflush++ }
	:: d_step { sst == S_RET && !sframe && sflush >= snext -> sst = S_KERN }
	/* messages, the link, the twin's RST */
	:: d_step { !sdead && len(r2s) > 0 -> s_take() }
	:: d_step { !up && !sdead -> do :: len(r2s) > 0 -> r2s?m(_) :: else -> break od;
		sdead = 1; ssays = 0; s_return() }
	:: d_step { rst_at_s && S_ALIVE -> s_broken() }
	/* S resets, at any moment */
	:: d_step { !quiet && sst != S_GONE && sst != S_BROKEN && !s_rst -> s_rst = 1; sst = S_GONE;
		s_forget(); left = len(twin) }
	:: d_step { sst == S_GONE && !rst_at_r && left > 0 -> left-- } /* hadn't arrived */
	:: d_step { sst == S_GONE && !ssays && !quiet && MUTANT != 7 -> ssays = 1 } /* unasked */
	:: atomic { ssays && !sdead && CAN_S -> ssays = 0; s_tx(PEER_GONE, 0, 0, 0) }
	od
}

inline deliver(val) { assert(!broken && !reof && val == cons); cons++; rC++ }
inline eof() { assert(cons == acc && sclosed); reof = 1 }
inline r_leave() {
	i = rhi;
	do :: i < N -> have[i] = 0; i++ :: else -> break od;
	rst = R_KERN; rx = NONE; rfin = NONE; rconf = 0
}
inline r_decoded(a) {
	rhi = rC;
	do :: rhi < N && have[rhi] -> rhi++ :: else -> break od;
	rT = a;
	r_leave()
}
inline r_reset() { if :: !r_rst -> r_rst = 1; rsays = 1 :: else fi; rst = R_GONE; rC = 0; rT = 0; r_forget() }
inline r_take(ch) {
	ch?m(o, v, f);
	if
	:: rst == R_GONE -> rsays = (m != PEER_GONE && MUTANT != 6)
	:: rst == R_ORPHAN && m == SEG && o >= rC && MUTANT != 6 && MUTANT != 5 -> r_reset()
	:: rst == R_ORPHAN && m == FINSEG && o == rC -> rack = NONE; rsays = (MUTANT == 9)
	:: R_ALIVE && m == PEER_GONE -> rgone = 1
	:: R_ALIVE && (m == SEG || m == FINSEG) && rst != R_KERN ->
		if
		:: m == FINSEG -> rfin = o
		:: m == SEG && o >= rC -> have[o] = v + 1
		:: else
		fi;
		if
		:: f == CONFIRMED -> rconf = 1
		:: f == FIRST && rst == R_OPEN && o < rT -> r_leave()
		:: f == FIRST && rst == R_OPEN && o >= rT -> rx = o
		:: else
		fi
	:: else
	fi
}

proctype R() {
endR:	do
	/* the reader */
	:: d_step { R_ALIVE && UP_TO_X && HEAD(DATA) && rT == rC -> pop(); rT++; deliver(o) }
	:: d_step { R_ALIVE && UP_TO_X && HEAD(DATA) && rT < rC -> pop(); rT++ }
	:: d_step { R_ALIVE && UP_TO_X && HEAD(FRAME) -> assert(false) }
	:: d_step { R_ALIVE && R_TWIN && rx == NONE && HEAD(FIN) && rC >= rhi -> pop(); eof() }
	:: d_step { R_ALIVE && (rst == R_PLANE || (rst == R_KERN && rC < rhi)) && rC < N && have[rC] ->
		v = have[rC] - 1; have[rC] = 0; deliver(v) }
	:: d_step { R_ALIVE && rst == R_PLANE && rfin == rC -> eof(); rack = rC + 1; routof = 1 }
	:: d_step { R_ALIVE && MUTANT == 1 && rgone && rst == R_OPEN && rx != NONE && !THERE ->
		rC = rx; rT = rx; rst = R_PLANE }
	/* X is consumed; consumption */
	:: atomic { R_ALIVE && rst == R_OPEN && rx != NONE && rC == rx && rT == rx && CAN_R ->
		rst = R_PLANE; rack = rx; if :: !rdead -> r_tx(SWITCHED, 0) :: else fi }
	:: atomic { R_ALIVE && rst == R_PLANE && rC > rack && !rdead && CAN_R -> rack = rC; r_tx(ACK, rack) }
	:: atomic { routof && !rdead && CAN_R -> routof = 0; r_tx(ACK, rack) } /* the FIN's */
	:: atomic { rst == R_ORPHAN && rack == NONE && !rsays && !rdead && CAN_R -> rack = 0; r_tx(ACK, rC + 1) }
	/* the twin at X */
	:: d_step { R_ALIVE && rst == R_PLANE && HEAD(FRAME) -> pop(); assert(o <= rC); r_decoded(o) }
	:: d_step { R_ALIVE && rst == R_PLANE && HEAD(DATA) -> assert(!rconf); r_decoded(rx) }
	/* the twin's RST: the kernel tells it once, and R remembers it */
	:: d_step { R_ALIVE && !THERE && rst_at_r && !told && (MUTANT != 7 || rst != R_PLANE) ->
		told = 1; if :: MUTANT != 4 -> rgone = 1 :: else fi }
	:: d_step { R_ALIVE && MUTANT == 4 && !THERE && told && !rgone -> eof() }
	:: d_step { R_ALIVE && rgone && ((!ON_PLANE && !IN_TWIN) || MUTANT == 3) ->
		assert(s_rst); assert(!ON_PLANE && !IN_TWIN);
		if :: MUTANT == 2 -> eof() :: else fi; broken = 1; r_forget() }
	/* R's program closes: reset (linger 0, or unread bytes), or clean as far as it knows */
	:: d_step { !quiet && rst != R_GONE && rst != R_ORPHAN && !broken -> r_reset() }
	:: d_step { !quiet && R_ALIVE && ((!ON_PLANE && !THERE) || MUTANT == 5) &&
		(rst != R_PLANE || rC == rack) -> rack = (rst == R_PLANE && rfin == rC -> NONE : 0); rst = R_ORPHAN }
	:: d_step { rst == R_ORPHAN && HEAD(FRAME) -> pop(); rT = o }
	:: d_step { rst == R_ORPHAN && HEAD(DATA) && rT < rC -> pop(); rT++ }
	:: d_step { rst == R_ORPHAN && HEAD(DATA) && rT >= rC && MUTANT != 5 -> r_reset() }
	:: d_step { !up && !rdead ->
		do
		:: len(s2r[0]) > 0 -> s2r[0]?m(_, _, _)
		:: len(s2r[1]) > 0 -> s2r[1]?m(_, _, _)
		:: else -> break
		od;
		rdead = 1; rsays = 0; if :: R_TWIN -> r_leave() :: else fi }
	:: d_step { !rdead && len(s2r[0]) > 0 -> r_take(s2r[0]) }
	:: d_step { !rdead && len(s2r[1]) > 0 -> r_take(s2r[1]) }
	:: atomic { rsays && !rdead && CAN_R -> rsays = 0; r_tx(PEER_GONE, 0) }
	od
}

#define S_SETTLED (sst == S_DONE || sst == S_BROKEN || sst == S_GONE || (!sclosed && (sst == S_READY || \
	sst == S_KERN || (S_ON_PLANE && sack == snext))))
#define R_SETTLED (broken || reof || rst == R_GONE || rst == R_ORPHAN || (sst != S_GONE && !sclosed && cons == acc))

proctype World() {
end:	do
	:: d_step { !quiet -> quiet = 1 }
	:: d_step { !quiet && deaths > 0 && up -> up = 0; deaths-- }
	:: d_step { s_rst && !rst_at_r -> rst_at_r = 1 }
	:: d_step { r_rst && !rst_at_s -> rst_at_s = 1 }
	:: timeout -> assert(S_SETTLED); assert(R_SETTLED); break
	od
}

init { atomic { run S(); run R(); run World() } }

/* SPDX-License-Identifier: MIT */
/*
 * One direction of a stream that changes planes: sender S, receiver R, the kernel connection
 * between them (the twin) and the fast plane (the link): upgrade, return, hand-over and ends, in all
 * interleavings. README.md has the states and what's left out.
 *
 * Byte number i of the stream has the value i, so "the n-th consumed byte is n" says at once that
 * nothing is skipped, repeated, reordered or invented. S and R compute every offset from the
 * kernel's counts (kw, kr) and their own base; the true counts (acc, cons) serve assertions.
 *
 * Each option of a do-loop is one atomic step. There's no time: what may come late may come any
 * time later. What needn't happen (a write, a link's death, an upgrade, ...) may stop for good at
 * any moment (quiet). Nothing goes in circles, so an end state in which R isn't done is a byte, an
 * end of file or a hand-over that never comes.
 *
 * [n] marks a rule that the first text lacked (README.md); -DWITHOUT=n takes it out.
 * -DMUTANT=n breaks a rule on purpose. check.sh requires those runs to fail.
 */
#ifndef N
#define N 3         /* bytes that the writer may write */
#endif
#ifndef W
#define W 2         /* S's ring: bytes kept until they're consumed */
#endif
#ifndef K
#define K 4         /* units (bytes, frame halves, FIN) that fit into the twin */
#endif
#ifndef Q
#define Q 2         /* messages in flight per lane and direction */
#endif
#ifndef EPOCHS
#define EPOCHS 2    /* upgrades */
#endif
#ifndef DEATHS
#define DEATHS 1    /* times that the link may die */
#endif
#ifndef STALLS
#define STALLS 1    /* times that S may return for a reason of its own */
#endif
#ifndef HANDOVERS
#define HANDOVERS 0 /* times that R may try to give the descriptor to a reader without the shim */
#endif
#ifndef GIVES
#define GIVES 0     /* times that S may try to give the descriptor to a writer without the shim */
#endif
#ifndef EXITS
#define EXITS 0     /* 1: S's process may exit: return, then FIN */
#endif
#ifndef KILLS
#define KILLS 0     /* 1: S's process may be killed; FLUSHED is sent */
#endif
#ifndef LIMIT
#define LIMIT 0     /* 1: a dead link may end in a reset where R learned the end in no other way */
#endif
#ifndef FOREIGN
#define FOREIGN 0   /* somebody unseen writes: 1: once R has seen CONFIRMED; 2: once FIRST is out */
#endif
#ifndef RESENDS
#define RESENDS 0   /* times that S may send a kept segment again, over another path */
#endif
#ifndef LANDING
#define LANDING 0   /* 1: segments are written into memory of R's that is used again */
#endif
#ifndef EAGER
#define EAGER 0     /* 1: upgrades and the return of a stalled writer must come (no deaths, hand-overs) */
#endif
#ifndef FITS
#define FITS 0      /* 1: S keeps no more than the twin has room for, with a frame */
#endif
#ifndef R2S_LANES
#define R2S_LANES 1 /* 2: acknowledgements and control messages may overtake each other */
#endif
#ifndef WITHOUT
#define WITHOUT 0
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define F 2         /* length of a RETURN frame: its head has A, its tail the epoch and the kept end */
#define NONE 255
#define ALIEN 99    /* the byte of an unseen writer */
#define FIRST 1     /* flags of a segment */
#define CONFIRMED 2

mtype = { DATA, FHEAD, FTAIL, FIN,                         /* units of the twin */
          PREPARE, SEG, FINSEG, RETURNED, FLUSHED, END,    /* link, S to R */
          READY, SWITCHED, ACK, RETURN_ME,                 /* link, R to S */
          S_KERN, S_PREP, S_READY, S_PLANE, S_SWD, S_RET, S_DONE, S_OUT,
          R_KERN, R_OPEN, R_PLANE, R_OUT };

chan twin = [K] of { mtype, byte };
chan s2r[2] = [Q] of { mtype, byte, byte, byte, byte };    /* kind, epoch, offset, value, flags */
chan r2s[2] = [Q] of { mtype, byte, byte, bit };           /* kind, epoch, consumption, switched */
byte kw, kr;                 /* the kernel's counts: written by S, read by R (without FIN) */
bit up = 1;                  /* the link works */
byte deaths = DEATHS, stalls = STALLS, resends = RESENDS, handovers = HANDOVERS, gives = GIVES;
bit alien, killed;           /* an unseen writer wrote; S was killed */
bit quiet;                   /* from here on only what must happen happens */

/* S */
mtype sst = S_KERN;
byte acc, sown;              /* truth: bytes accepted; units that S knows it wrote to the twin */
byte sep;                    /* epoch */
short sbase, sx, snext;      /* base; X; next offset to send */
short sack, sflush;          /* kept from here; return: next offset for the twin */
byte sfr, sreply, sflushed;  /* frame units to write; epoch to answer RETURNED for; FLUSHED sent */
bit sdead, sclosed, sfinsent, sgone; /* link seen dead; writer done; FIN sent in band; exited */
bit send0, send1;            /* END is still to be sent on this lane */
bit used0, used1;            /* mutant 11: the lane was used */
bit giving;                  /* hand-over of this direction: no new epoch, waits for S_KERN */

/* R */
mtype rst = R_KERN;
byte cons;                   /* truth: bytes that the reader has got */
byte rep, rprep;             /* epoch that R is ready for; PREPARE that waits for its answer */
short rbase, rC;             /* base; consumption as R counts it */
byte rx = NONE, rfin = NONE; /* X; final offset, from the FIN in band */
byte rack, rhi;              /* acknowledged; end of the copies still served after a return */
byte have[N], mem[W];        /* copies by offset: value + 1; landing slot of offset o: o % W */
byte fly[N];                 /* requests not completed, by offset */
bit rdead, rconf, reof, kfin, broken;
byte rend0, rend1;           /* the last epoch whose END this lane brought (or that was drained) */
byte rflushed;               /* FLUSHED has come for this epoch; S sees that as its completion */
byte rframed, rwhole;        /* the last epoch that a frame returned; its bytes end here */
byte rfinal = NONE;          /* the stream's end, from a FIN in band of whatever epoch [16] */
bit froz, asked; byte rann;  /* hand-over: reading frozen; RETURN_ME sent; bytes announced */

hidden byte m, e, o, v, f, i, b; /* scratch, within a d_step only */

#define HEAD(k) (twin?[k, _])
#define ROOM(ch, lanes) (!up || nfull(ch[0]) || (lanes > 1 && nfull(ch[1])))
#define CAN_S ROOM(s2r, 2)
#define CAN_R ROOM(r2s, R2S_LANES)
#define NOW(ep) (e == ep || MUTANT == 2) /* 2.1: messages of another epoch are dropped */
#define S_ON_TWIN (sst == S_KERN || sst == S_PREP || sst == S_READY)
#define S_ALL_IN (sclosed && (S_ON_TWIN || (sst == S_SWD && FIN_ACKED))) /* the twin's FIN may go */
#define S_OVER (S_ALL_IN || sst == S_KERN || sst == S_OUT || sst == S_DONE -> sep : sep - 1)
#define S_TOLD (!KILLS || sep == rflushed || sdead || (MUTANT == 14 && sep == sflushed)) /* [9] */
#define S_LEAVES (giving && !sclosed && (sst == S_KERN || (MUTANT == 12 && sst == S_RET && !sfr)))
#define S_ON_PLANE (sst == S_PLANE || sst == S_SWD)
#define S_FLAGS (sst == S_SWD -> CONFIRMED : 0)
#define FIN_ACKED (sfinsent && sack > snext)
#define ROOMY (!FITS || len(twin) + F + snext - sack < K)
#define SLOT_FREE (!LANDING || WITHOUT == 10 || snext < W || fly[snext - W] == 0) /* [10] */
#define T (kr - rbase)       /* the stream offset at which R reads the twin */
#define R_TWIN (rst == R_KERN || rst == R_OPEN)
#define R_EPOCH (rst == R_OPEN || rst == R_PLANE) /* epoch rep isn't known to be over */
#define HANDED (froz && (rst == R_KERN || (MUTANT == 6 && R_TWIN)) && (T == rC || WITHOUT == 6) && \
	(!R_DOUBT || full(twin) || WITHOUT == 15) && /* [15] */ \
	(len(twin) >= rann || (full(twin) && WITHOUT != 7))) /* [6], [7] */
#define UP_TO_X (R_TWIN && (rx == NONE || T < rx))
#define R_WHOLE (rframed == rep && (T >= rwhole || MUTANT == 16)) /* all that the frame promised */
#define R_DOUBT (KILLS && WITHOUT != 9 && rep > rflushed && !R_WHOLE) /* [9] */
#define AT_FINAL (KILLS && WITHOUT != 16 && rfinal != NONE && \
	(MUTANT == 17 || (rC == rfinal && T == rC))) /* [16] */
#define R_SURE (!R_DOUBT || AT_FINAL) /* a FIN on the twin is the end */
/* nobody waits: S for READY or SWITCHED, a giver for his turn, a returned stream for its upgrade */
#define SETTLED (!giving && (sdead || rst == R_OUT || (sst != S_PREP && sst != S_PLANE)) && \
	(!EAGER || sst == S_READY || (sst == S_SWD && !stalls)))
#define R_ACK (rC + (rfin == rC -> 1 : 0))

inline s_tx(k, ep, x, val, fl) {
	if
	:: !up
	:: up && nfull(s2r[0]) -> s2r[0]!k(ep, x, val, fl); used0 = (MUTANT == 11)
	:: up && nfull(s2r[1]) -> s2r[1]!k(ep, x, val, fl); used1 = (MUTANT == 11)
	fi
}
inline s_seg(x, val, fl) {
	s_tx(SEG, sep, x, val, fl);
	if :: LANDING && up -> fly[x] = fly[x] + 1 :: else fi
}
inline s_end(ch, flag) { flag = 0; if :: up -> ch!END(sep, 0, 0, 0) :: else fi }
inline r_tx(k, ep, x, sw) {
	if
	:: !up
	:: up && nfull(r2s[0]) -> r2s[0]!k(ep, x, sw)
	:: up && R2S_LANES > 1 && nfull(r2s[1]) -> r2s[1]!k(ep, x, sw)
	fi
}

/* 2.3: S stops posting in this epoch and goes on over the twin */
inline s_return() {
	if /* END closes the epoch on each lane, used or not */
	:: LANDING && up && (sst == S_PREP || sst == S_READY || S_ON_PLANE) ->
		send0 = (MUTANT != 11 || used0); used0 = 0;
		send1 = (MUTANT != 11 || used1); used1 = 0
	:: else
	fi;
	if
	:: S_ON_TWIN -> sst = S_KERN /* the epoch is spent, READY is void */
	:: sst == S_PLANE -> assert(sack == sx); /* all from X is still kept */
		sflush = sx; sst = S_RET /* plain, the base stays */
	:: sst == S_SWD && !FIN_ACKED -> sflush = (MUTANT == 5 -> snext : sack); sfr = F;
		if :: MUTANT != 3 -> sbase = (sx + sbase) + F - sflush :: else fi;
		sst = S_RET
	:: else /* only the twin's FIN is missing, or S has returned before */
	fi
}
inline s_take(ch) { /* a message from R */
	ch?m(e, o, b);
	if
	:: m == READY && NOW(sep) && sst == S_PREP -> sst = S_READY
	:: m == SWITCHED && NOW(sep) && sst == S_PLANE -> sst = S_SWD
	:: m == ACK && NOW(sep) && S_ON_PLANE -> if :: o > sack -> sack = o :: else fi;
		if :: WITHOUT != 2 -> sst = S_SWD :: else fi /* [2] */
	:: m == RETURN_ME && NOW(sep) && b && S_ON_PLANE -> sst = S_SWD;
		if :: o > sack -> sack = o :: else fi;
		s_return()
	:: m == RETURN_ME && !b && (NOW(sep) || WITHOUT != 4) && (sst != S_OUT || MUTANT != 15) -> sreply = e; /* [4] */
		if
		:: NOW(sep) && sst != S_RET && !(sst == S_PREP && WITHOUT == 5) -> s_return() /* [5] */
		:: else
		fi
	:: else
	fi
}
inline s_gone() { sgone = 1; up = 0; sdead = 1; sreply = 0 }

proctype S() {
endS:	do /* the writer, over the kernel; in S_OUT it's the one without the shim */
	:: d_step { !quiet && (S_ON_TWIN || sst == S_OUT) && acc < N && !sclosed && nfull(twin) ->
		twin!DATA(acc); kw++; sown++; acc++ }
	/* ... the first write that finds READY; somebody else's units in the twin: no upgrade */
	:: atomic { !quiet && sst == S_READY && acc < N && !sclosed && CAN_S && ROOMY && kw == sown ->
		sx = kw - sbase; snext = sx + 1; sack = sx; s_seg(sx, acc, FIRST); acc++;
		sst = (MUTANT == 1 -> S_SWD : S_PLANE) }
	/* ... over the plane */
	:: atomic { !quiet && S_ON_PLANE && acc < N && !sclosed && snext - sack < W && CAN_S &&
		ROOMY && SLOT_FREE -> s_seg(snext, acc, S_FLAGS); snext++; acc++ }
	:: atomic { !quiet && S_ON_PLANE && resends > 0 && sack < snext && CAN_S -> resends--;
		s_seg(sack, sack + acc - snext, (sst == S_PLANE && sack == sx -> FIRST : S_FLAGS)) }
	/* ... behind the kept bytes; where S may be killed they wait, as they always do in the code */
	:: d_step { !KILLS && !quiet && sst == S_RET && acc < N && !sclosed && snext - sflush < W && ROOMY ->
		snext++; acc++ }
	/* the writer is done: FIN in band, or on the twin behind everything else and FLUSHED */
	:: d_step { !quiet && !sclosed -> sclosed = 1 }
	:: atomic { sclosed && S_ON_PLANE && !sfinsent && CAN_S ->
		s_tx(FINSEG, sep, snext, 0, S_FLAGS); sfinsent = 1 }
	:: atomic { KILLS && sflushed < S_OVER && !sdead && CAN_S ->
		sflushed = S_OVER; s_tx(FLUSHED, sflushed, 0, 0, 0) }
	:: d_step { nfull(twin) && ((S_ALL_IN && S_TOLD) || (sclosed && sst == S_OUT) ||
		(MUTANT == 7 && sclosed && sfinsent && S_ON_PLANE)) -> twin!FIN(0); sst = S_DONE }
	/* hand-over: ask nobody, return, tell, leave; the process may live on or not */
	:: d_step { !quiet && gives > 0 && !giving && !sclosed && !sgone && sst != S_OUT ->
		gives--; giving = 1; s_return() }
	:: d_step { S_LEAVES && (S_TOLD || MUTANT == 13) -> giving = 0; sst = S_OUT }
	:: d_step { S_LEAVES && S_TOLD -> giving = 0 } /* exec failed */
	:: d_step { !quiet && sst == S_OUT && !sgone -> s_gone() }
	/* return: frame, then kept bytes, as the twin takes them */
	:: d_step { sst == S_RET && sfr > 0 && nfull(twin) ->
		if :: sfr == 2 -> twin!FHEAD(sflush) :: else -> twin!FTAIL(sep * 16 + snext) fi;
		kw++; sown++; sfr-- }
	:: d_step { sst == S_RET && sfr == 0 && sflush < snext && nfull(twin) ->
		twin!DATA(sflush + acc - snext); kw++; sown++; sflush++ }
	:: d_step { sst == S_RET && sfr == 0 && sflush >= snext ->
		sst = S_KERN; sflush = 0; snext = 0; sack = 0; sx = 0 }
	:: d_step { (!quiet || EAGER) && stalls > 0 && S_ON_PLANE && !sdead -> stalls--; s_return() }
	/* progress thread */
	:: atomic { (!quiet || EAGER) && sst == S_KERN && !sdead && !sclosed && !giving && sep < EPOCHS &&
		!send0 && !send1 && CAN_S -> sep++; sst = S_PREP; s_tx(PREPARE, sep, 0, 0, 0) }
	:: d_step { !sdead && len(r2s[0]) > 0 -> s_take(r2s[0]) }
	:: d_step { !sdead && len(r2s[1]) > 0 -> s_take(r2s[1]) }
	:: atomic { sreply && CAN_S -> s_tx(RETURNED, sreply, 0, 0, 0); sreply = 0 }
	:: atomic { send0 && (!up || nfull(s2r[0])) -> s_end(s2r[0], send0) }
	:: atomic { send1 && (!up || nfull(s2r[1])) -> s_end(s2r[1], send1) }
	:: d_step { !up && !sdead -> /* what the dead link still held is lost */
		do
		:: len(r2s[0]) > 0 -> r2s[0]?m(_, _, _)
		:: len(r2s[1]) > 0 -> r2s[1]?m(_, _, _)
		:: else -> break
		od;
		sdead = 1; sreply = 0; sflushed = 0;
		if :: MUTANT == 9 && sst == S_READY :: else -> s_return() fi }
	/* the end of the process; the twin and what's queued for it live on */
	:: d_step { EXITS && !quiet && !sgone && sst != S_DONE && sst != S_OUT ->
		s_gone(); sclosed = 1; s_return() }
	:: d_step { KILLS && !quiet && !sgone && sst != S_OUT -> s_gone(); sclosed = 1;
		if :: sst != S_DONE -> sst = S_KERN; killed = 1 :: else fi }
	od
}

inline deliver(val) { assert(val == cons); cons++; rC++ }
inline eof() { assert(sclosed && cons == acc); reof = 1 }
/* LIMIT: the link died, or S exited, before R learned the end, by FLUSHED, a frame or in band. */
#define UNSURE (LIMIT && (deaths < DEATHS || sgone) && R_DOUBT && (froz || (rframed != rep && rfinal == NONE)))
inline r_reset() { assert(killed || alien || UNSURE); broken = 1 }
inline r_leave() { /* the epoch is over; what was announced is kept */
	i = rhi;
	do :: i < N -> have[i] = 0; i++ :: else -> break od;
	rst = R_KERN; rx = NONE; rfin = NONE; rconf = 0; rack = 0
}
inline r_decoded() { /* R has seen at twin offset X how S returned */
	rhi = rC;
	do :: rhi < N && have[rhi] -> rhi++ :: else -> break od;
	r_leave()
}
inline r_take(ch, end) { /* a message from S */
	ch?m(e, o, v, f);
	if /* the NIC writes, whoever looks */
	:: LANDING && m == SEG -> mem[o % W] = v; fly[o] = fly[o] - 1
	:: m == END && (e >= rep || MUTANT == 2) && (e == rep || WITHOUT != 13) -> end = e /* [13] */
	:: m == FLUSHED && e > rflushed -> rflushed = e
	:: else
	fi;
	if
	:: rst == R_OUT
	:: rst != R_OUT && m == PREPARE && e > rep && (e > rprep || WITHOUT == 14) -> rprep = e /* [14] */
	:: R_TWIN && m == RETURNED && NOW(rep) && asked -> r_leave()
	:: (m == SEG || m == FINSEG) && R_EPOCH && NOW(rep) && !froz ->
		if
		:: m == FINSEG -> rfin = o; if :: KILLS -> rfinal = o :: else fi
		:: m == SEG && o >= rC -> assert(o < N); have[o] = (LANDING -> 1 : v + 1)
		:: else
		fi;
		if
		:: f == CONFIRMED -> rconf = 1
		:: f == FIRST && rst == R_OPEN && o < T && WITHOUT != 1 -> r_leave() /* [1] */
		:: f == FIRST && rst == R_OPEN && (o >= T || WITHOUT == 1) -> rx = o
		:: else
		fi
	:: else
	fi
}

proctype R() {
	do /* the reader, over the kernel up to X */
	:: d_step { HEAD(DATA) && UP_TO_X && T == rC && !froz -> twin?DATA(v); kr++; deliver(v) }
	:: d_step { HEAD(DATA) && UP_TO_X && T < rC -> twin?DATA(v); kr++ } /* a repeat */
	:: d_step { (HEAD(FHEAD) || HEAD(FTAIL)) && UP_TO_X -> assert(false) } /* frame as data */
	:: d_step { HEAD(FIN) && R_TWIN && !froz && (R_SURE || rdead) ->
		twin?FIN(_);
		if :: rx == NONE && R_SURE -> eof(); kfin = 1
		:: else -> r_reset() fi }
	/* ... over the plane, and from the copies that are served after a return */
	:: d_step { (rst == R_PLANE || (R_TWIN && rC < rhi)) && rC < N && have[rC] && !froz ->
		v = (LANDING -> mem[rC % W] : have[rC] - 1); have[rC] = 0; deliver(v) }
	:: d_step { rst == R_PLANE && rfin == rC && !reof && !froz -> eof() }
	/* ... and the one that has got the descriptor and no shim */
	:: d_step { rst == R_OUT && len(twin) > 0 -> twin?m(v); assert(m == DATA || m == FIN);
		if :: m == DATA -> deliver(v) :: else -> eof(); kfin = 1 fi }
	:: kfin || broken || (quiet && !sclosed && cons == acc && (!froz || rst == R_OUT) && SETTLED) -> break
	/* X is consumed; consumption */
	:: atomic { rst == R_OPEN && rx != NONE && rC == rx && !rdead && !froz && CAN_R &&
		(T == rx || WITHOUT == 11) -> /* [11] */
		rst = R_PLANE; rack = rx; r_tx(SWITCHED, rep, 0, 0) }
	:: atomic { rst == R_PLANE && R_ACK > rack && !rdead && !froz && CAN_R ->
		rack = R_ACK; r_tx(ACK, rep, rack, 0) }
	/* the twin at offset X: how S returned */
	:: d_step { HEAD(FHEAD) && rst == R_PLANE && len(twin) > 1 -> twin?m(o); twin?m(e);
		if
		:: m == FTAIL -> v = e % 16; e = e / 16; assert(e == rep && o <= rC && rC <= v); kr = kr + F;
			if :: KILLS -> rframed = rep; rwhole = v :: else fi;
			if :: MUTANT != 10 -> rbase = (rx + rbase) + F - o :: else fi;
			r_decoded()
		:: else -> r_reset()
		fi }
	:: d_step { HEAD(DATA) && rst == R_PLANE ->
		if :: rconf && MUTANT != 4 -> r_reset() :: else -> r_decoded() fi }
	:: d_step { HEAD(FIN) && rst == R_PLANE && !froz -> twin?FIN(_);
		if :: rfin == rC -> eof(); kfin = 1 :: else -> r_reset() fi }
	/* progress thread: READY once the epoch before is over for R too */
	:: atomic { rprep && (R_TWIN || (WITHOUT == 3 && rst == R_PLANE)) && !froz && !rdead && CAN_R && /* [3] */
		(!LANDING || MUTANT == 8 || (rend0 >= rep && rend1 >= rep && rC >= rhi)) ->
		d_step { r_leave(); rst = R_OPEN; rep = rprep; rprep = 0 };
		r_tx(READY, rep, 0, 0) }
	:: d_step { !rdead && len(s2r[0]) > 0 -> r_take(s2r[0], rend0) }
	:: d_step { !rdead && len(s2r[1]) > 0 -> r_take(s2r[1], rend1) }
	:: d_step { !up && !rdead ->
		do
		:: len(s2r[0]) > 0 -> s2r[0]?m(_, _, _, _)
		:: len(s2r[1]) > 0 -> s2r[1]?m(_, _, _, _)
		:: else -> break
		od;
		rdead = 1; rend0 = rep; rend1 = rep; rprep = 0;
		for (i : 0 .. N - 1) { fly[i] = 0 };
		if :: R_TWIN -> r_leave() :: else fi }
	/* hand-over: freeze, ask, wait for the answer or for the twin, drop repeats */
	:: d_step { froz && rst != R_OUT && R_DOUBT && rdead && !broken && WITHOUT != 15 -> r_reset() }
	:: d_step { !quiet && handovers > 0 && !froz && !kfin && !broken -> handovers--; froz = 1; i = rC;
		do :: (rst == R_PLANE || i < rhi) && i < N && have[i] -> i++ :: else -> break od;
		rann = i - rC }
	:: atomic { froz && !asked && R_EPOCH && !rdead && CAN_R ->
		asked = 1; r_tx(RETURN_ME, rep, rC, (rst == R_PLANE)) }
	:: d_step { HEAD(FIN) && froz && rst == R_PLANE && rfin == rC && WITHOUT != 8 -> /* [8] */
		rbase = kr - rC; r_decoded() }
	:: d_step { HANDED -> rhi = 0; rann = 0; r_leave(); rst = R_OUT }
	:: d_step { HANDED -> rhi = 0; rann = 0; r_leave(); froz = 0; asked = 0 } /* exec failed */
	od
}

proctype World() {
endW:	do
	:: d_step { !quiet -> quiet = 1 }
	:: d_step { !quiet && deaths > 0 && up -> up = 0; deaths-- }
	/* a new link, once both ends know that the old one is dead */
	:: d_step { !quiet && !up && ((sdead && rdead) || (WITHOUT == 12 && (sdead || rdead))) &&
		!sgone && sst != S_OUT && sep < EPOCHS -> /* [12] */
		up = 1; sdead = 0; rdead = 0 }
	:: d_step { FOREIGN && !quiet && !alien && nfull(twin) && (FOREIGN == 1 -> sst == S_SWD && rconf :
		S_ON_PLANE) -> twin!DATA(ALIEN); kw++; alien = 1 }
	od
}

init { atomic { run S(); run R(); run World() } }

/* SPDX-License-Identifier: MIT */
/*
 * The request that returns both directions at once: `xshim return`, a forked child's touch, a descriptor
 * that goes elsewhere. Ends 0 and 1; direction d goes from end d to the other one. Names and states are
 * switch.pml's, which has one direction in all detail; here both run through the same link, each with
 * its own epochs, and each end may ask, once, at any moment, also both at the same time. The programs
 * go on reading and writing meanwhile.
 *
 * The end that asks: pins the connection (no PREPARE, no READY any more), returns its own sending
 * direction (frame or plain), and sends RETURN_ME{C, switched} for the other one if that has an epoch
 * which isn't over. From RETURN_ME on it sends no SWITCHED. It's done when its S is in S_KERN and its R
 * in R_KERN. The end that is asked pins that direction too: no PREPARE. A request outlives the link:
 * the death of the link returns all there is.
 *
 * Checked: order, nothing lost or doubled, no frame read as data; every request gets done; no PREPARE
 * from an end that has asked or was asked, and no direction is left on the plane.
 * -DMUTANT=n breaks a rule on purpose; check.sh requires those runs to fail.
 */
#ifndef N
#define N 1         /* bytes per direction */
#endif
#ifndef K
#define K 3         /* units that fit into a twin's queue */
#endif
#ifndef Q
#define Q 1         /* messages in flight per direction of the link */
#endif
#ifndef EPOCHS
#define EPOCHS 1    /* per direction */
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef NEWLINKS
#define NEWLINKS 0
#endif
#ifndef ASKERS
#define ASKERS 2    /* 1: only end 0 asks */
#endif
#ifndef LATE
#define LATE 0      /* 1: SWITCHED may still follow RETURN_ME (it does no harm) */
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define NONE 7
#define FIRST 1
#define CONFIRMED 2

mtype = { DATA, FRAME, PREPARE, SEG, RETURNED, READY, SWITCHED, ACK, RETURN_ME,
          S_KERN, S_PREP, S_READY, S_PLANE, S_SWD, S_RET, R_KERN, R_OPEN, R_PLANE };

chan twin[2] = [K] of { mtype, byte };
chan link[2] = [Q] of { mtype, byte, byte, byte }; /* from this end: kind, epoch, offset, flags */
bit up = 1, quiet;
byte deaths = DEATHS, newlinks = NEWLINKS;
bit dead[2];                 /* this end has seen the link's death */

/* by direction; S is at end d, R at end 1 - d */
mtype sst[2] = S_KERN, rst[2] = R_KERN;
byte acc[2], sep[2], sx[2], snext[2], sack[2], sflush[2], sreply[2];
bit sframe[2], spin[2], told[2]; /* spin: S is pinned; told: it was asked by RETURN_ME */
byte cons[2], rT[2], rep[2], rprep[2], rx[2] = NONE, rack[2], rhi[2];
bit have0[2], have1[2];      /* copies of bytes 0 and 1 */
bit rconf[2], rpin[2], asked[2];

byte want[2] = 1;            /* by end: 1 may ask, 2 has asked, 3 done */

hidden byte m, e, o, f;

#define CAN(end) (!up || nfull(link[end]))
#define S_ON_TWIN(d) (sst[d] == S_KERN || sst[d] == S_PREP || sst[d] == S_READY)
#define S_ON_PLANE(d) (sst[d] == S_PLANE || sst[d] == S_SWD)
#define R_EPOCH(d) (rst[d] == R_OPEN || rst[d] == R_PLANE)
#define R_TWIN(d) (rst[d] == R_KERN || rst[d] == R_OPEN)
#define HAVE(d, k) ((k) == 0 && have0[d] || (k) == 1 && have1[d])
#define HEAD(d, k) (twin[d]?[k, _])
#define UP_TO_X(d) (R_TWIN(d) && (rx[d] == NONE || rT[d] < rx[d]))

inline tx(end, k, ep, x, fl) { if :: up -> link[end]!k(ep, x, fl) :: else fi }

inline s_return(d) {
	if
	:: S_ON_TWIN(d) -> sst[d] = S_KERN
	:: sst[d] == S_PLANE -> sflush[d] = sx[d]; sst[d] = S_RET
	:: sst[d] == S_SWD -> sflush[d] = sack[d]; sframe[d] = 1; sst[d] = S_RET
	:: else
	fi
}
inline r_leave(d) {
	if :: rhi[d] < 1 -> have0[d] = 0 :: else fi;
	if :: rhi[d] < 2 -> have1[d] = 0 :: else fi;
	rst[d] = R_KERN; rx[d] = NONE; rconf[d] = 0; rack[d] = 0
}
inline r_decoded(d, a) {
	rhi[d] = cons[d];
	do :: rhi[d] < N && HAVE(d, rhi[d]) -> rhi[d]++ :: else -> break od;
	rT[d] = a;
	r_leave(d)
}
inline deliver(d, val) { assert(val == cons[d]); cons[d]++ }

/* a message for `end` about its own direction, as S */
inline s_take(d) {
	if
	:: m == READY && e == sep[d] && sst[d] == S_PREP -> sst[d] = S_READY
	:: m == SWITCHED && e == sep[d] && sst[d] == S_PLANE -> sst[d] = S_SWD
	:: m == ACK && e == sep[d] && S_ON_PLANE(d) ->
		sst[d] = S_SWD; if :: o > sack[d] -> sack[d] = o :: else fi
	:: m == RETURN_ME ->
		told[d] = 1;
		if :: MUTANT != 3 -> spin[d] = 1 :: else fi;
		if
		:: f && e == sep[d] && S_ON_PLANE(d) -> sst[d] = S_SWD;
			if :: o > sack[d] -> sack[d] = o :: else fi;
			s_return(d)
		:: !f && (e == sep[d] && S_ON_PLANE(d) || MUTANT != 1) -> sreply[d] = e;
			if :: e == sep[d] && sst[d] != S_RET -> s_return(d) :: else fi
		:: else
		fi
	:: else
	fi
}
/* ... and about the other direction, as R */
inline r_take(d) {
	if
	:: m == PREPARE && e > rep[d] && e > rprep[d] -> rprep[d] = e
	:: m == RETURNED && R_TWIN(d) && e == rep[d] && asked[d] -> r_leave(d)
	:: m == SEG && R_EPOCH(d) && e == rep[d] ->
		if :: o == 0 && cons[d] == 0 -> have0[d] = 1
		:: o == 1 && cons[d] <= 1 -> have1[d] = 1
		:: else fi;
		if
		:: f == CONFIRMED -> rconf[d] = 1
		:: f == FIRST && rst[d] == R_OPEN && o < rT[d] -> r_leave(d)
		:: f == FIRST && rst[d] == R_OPEN && o >= rT[d] -> rx[d] = o
		:: else
		fi
	:: else
	fi
}

proctype End(byte d; byte r) { /* sends on direction d, receives on direction r = the other end */
end:	do
	/* the program writes */
	:: d_step { !quiet && S_ON_TWIN(d) && acc[d] < N && nfull(twin[d]) -> twin[d]!DATA(acc[d]); acc[d]++ }
	:: atomic { !quiet && sst[d] == S_READY && acc[d] < N && CAN(d) ->
		sx[d] = acc[d]; sack[d] = acc[d]; snext[d] = acc[d] + 1; acc[d]++; sst[d] = S_PLANE;
		tx(d, SEG, sep[d], sx[d], FIRST) }
	:: atomic { !quiet && S_ON_PLANE(d) && acc[d] < N && CAN(d) ->
		tx(d, SEG, sep[d], snext[d], (sst[d] == S_SWD -> CONFIRMED : 0)); snext[d]++; acc[d]++ }
	:: d_step { !quiet && sst[d] == S_RET && acc[d] < N -> snext[d]++; acc[d]++ }
	/* S returns */
	:: d_step { sst[d] == S_RET && sframe[d] && nfull(twin[d]) -> twin[d]!FRAME(sflush[d]); sframe[d] = 0 }
	:: d_step { sst[d] == S_RET && !sframe[d] && sflush[d] < snext[d] && nfull(twin[d]) ->
		twin[d]!DATA(sflush[d]); sflush[d]++ }
	:: d_step { sst[d] == S_RET && !sframe[d] && sflush[d] == snext[d] ->
		sst[d] = S_KERN; sflush[d] = 0; snext[d] = 0; sack[d] = 0; sx[d] = 0 }
	:: atomic { sreply[d] && !dead[d] && CAN(d) -> tx(d, RETURNED, sreply[d], 0, 0); sreply[d] = 0 }
	/* upgrades */
	:: atomic { !quiet && sst[d] == S_KERN && !dead[d] && !spin[d] && sep[d] < EPOCHS && CAN(d) ->
		assert(!told[d] && want[d] < 2);
		sep[d]++; sst[d] = S_PREP; tx(d, PREPARE, sep[d], 0, 0) }
	:: atomic { rprep[r] && R_TWIN(r) && !dead[d] && CAN(d) && (!rpin[r] || MUTANT == 2) ->
		d_step { r_leave(r); rst[r] = R_OPEN; rep[r] = rprep[r]; rprep[r] = 0; asked[r] = 0 };
		tx(d, READY, rep[r], 0, 0) }
	:: atomic { rst[r] == R_OPEN && rx[r] != NONE && cons[r] == rx[r] && rT[r] == rx[r] && !dead[d] &&
		(!asked[r] || LATE) && CAN(d) ->
		rst[r] = R_PLANE; rack[r] = rx[r]; tx(d, SWITCHED, rep[r], 0, 0) }
	:: atomic { rst[r] == R_PLANE && cons[r] > rack[r] && !dead[d] && CAN(d) ->
		rack[r] = cons[r]; tx(d, ACK, rep[r], rack[r], 0) }
	/* the program reads */
	:: d_step { HEAD(r, DATA) && UP_TO_X(r) && rT[r] == cons[r] -> twin[r]?m(o); rT[r]++; deliver(r, o) }
	:: d_step { HEAD(r, DATA) && UP_TO_X(r) && rT[r] < cons[r] -> twin[r]?m(o); rT[r]++ }
	:: d_step { HEAD(r, FRAME) && UP_TO_X(r) -> assert(false) }
	:: d_step { (rst[r] == R_PLANE || cons[r] < rhi[r]) && HAVE(r, cons[r]) ->
		if :: cons[r] == 0 -> have0[r] = 0 :: else -> have1[r] = 0 fi; deliver(r, cons[r]) }
	:: d_step { HEAD(r, FRAME) && rst[r] == R_PLANE -> twin[r]?m(o); assert(o <= cons[r]); r_decoded(r, o) }
	:: d_step { HEAD(r, DATA) && rst[r] == R_PLANE -> assert(!rconf[r]); r_decoded(r, rx[r]) }
	/* the request */
	:: d_step { !quiet && want[d] == 1 && d < ASKERS -> want[d] = 2;
		spin[d] = 1; rpin[r] = 1; s_return(d) }
	:: atomic { want[d] == 2 && R_EPOCH(r) && !asked[r] && !dead[d] && CAN(d) && MUTANT != 4 ->
		asked[r] = 1; tx(d, RETURN_ME, rep[r], cons[r], (rst[r] == R_PLANE)) }
	:: d_step { want[d] == 2 && sst[d] == S_KERN && rst[r] == R_KERN -> want[d] = 3 }
	/* the link */
	:: d_step { !dead[d] && len(link[r]) > 0 -> link[r]?m(e, o, f);
		if
		:: m == PREPARE || m == SEG || m == RETURNED -> r_take(r)
		:: else -> s_take(d)
		fi;
		m = 0; e = 0; o = 0; f = 0 }
	:: d_step { !up && !dead[d] -> dead[d] = 1; sreply[d] = 0;
		do :: len(link[r]) > 0 -> link[r]?m(_, _, _) :: else -> break od;
		s_return(d); rprep[r] = 0;
		if :: R_TWIN(r) && MUTANT != 5 -> r_leave(r) :: else fi }
	od
}

#define OFF(d) ((sst[d] == S_KERN || sst[d] == S_PREP) && rst[d] != R_PLANE)

proctype World() {
end:	do
	:: d_step { !quiet -> quiet = 1 }
	:: d_step { !quiet && deaths > 0 && up -> up = 0; deaths-- }
	:: d_step { !quiet && newlinks > 0 && !up && dead[0] && dead[1] -> newlinks--; up = 1; dead[0] = 0; dead[1] = 0 }
	:: timeout ->
		assert(cons[0] == acc[0] && cons[1] == acc[1]);
		assert(want[0] != 2 && want[1] != 2);
		assert((want[0] != 3 && want[1] != 3) || (OFF(0) && OFF(1)));
		break
	od
}

init { atomic { run End(0, 1); run End(1, 0); run World() } }

/* SPDX-License-Identifier: MIT */
/*
 * READY's counter: threads of R enter calls that sleep in the kernel's recv, where nothing but a byte
 * on the twin can wake them, while the progress thread wants to answer READY, after which S may stop
 * sending over the twin. switch.pml takes it for granted.
 *
 * A thread: look at the state; enter (its counter = 1), fence, look again: sleep in the kernel, or
 * leave and sleep in ppoll{twin, wake}. To leave: counter = 0, fence, look: if READY is wanted, ring
 * the progress thread. Progress thread: state = wanted, fence, counters seen 0: READY; else sleep.
 *
 * Stores go through a buffer of one entry, as on x86: they reach memory at any later moment, at a fence
 * or when the next one comes. Each thread has a counter of its own, read one by one. (One counter for
 * all, changed by a locked instruction, is the same with fences that come for free.)
 * -DMUTANT=n breaks a rule; check.sh requires those runs to fail.
 */
#ifndef THREADS
#define THREADS 2
#endif
#ifndef CALLS
#define CALLS 2     /* calls per thread, one byte each */
#endif
#ifndef BYTES
#define BYTES 3     /* that S may send */
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

bit want, in[THREADS];             /* memory: READY is wanted; the thread is in a kernel-only call */
bit want_held, in_held[THREADS];   /* a store that is still in its writer's buffer ... */
bit in_val[THREADS];               /* ... and its value */
byte twin, plane;                  /* bytes there */
bit wake, bell;                    /* R's wake descriptor; the progress thread's */
bit ready, switched;               /* READY was sent; S has sent over the plane */
bit asleep[THREADS], polls[THREADS], waits; /* in recv; in ppoll; the progress thread sleeps */
byte sent;

#define DRAIN(t) in[t] = (in_held[t] -> in_val[t] : in[t]); in_held[t] = 0
#define STORE(t, v) d_step { DRAIN(t); in_held[t] = 1; in_val[t] = v }
#define FENCE(t) d_step { DRAIN(t) }

inline leave(t) {
	STORE(t, 0);
	if :: MUTANT != 5 -> FENCE(t) :: else fi;
	if :: want -> bell = 1 :: else fi
}

proctype Thread(byte t) {
	byte calls;
	do
	:: calls < CALLS -> calls++;
		if
		:: want -> goto both
		:: else
		fi;
		STORE(t, 1);
		if :: MUTANT != 3 -> FENCE(t) :: else fi;
		if
		:: want && MUTANT != 1 -> leave(t); goto both
		:: else
		fi;
		atomic { assert(!ready); asleep[t] = 1 } /* Invariant A: S may have switched */
endK:		d_step { twin > 0 -> twin--; asleep[t] = 0 }
		leave(t);
		goto next;
both:		polls[t] = 1;
endP:		d_step { (twin > 0 || wake) -> /* the twin's bytes come before the plane's */
			if :: twin > 0 -> twin-- :: else -> plane--; wake = (plane > 0) fi;
			polls[t] = 0 }
next:		skip
	:: calls == CALLS -> break
	od
}

proctype Progress() {
	byte t;
	bit busy;
	if :: true :: goto off fi; /* PREPARE may never come */
	if :: MUTANT == 2 -> goto look :: else fi;
set:	want_held = 1;
	if :: MUTANT != 4 -> d_step { want = 1; want_held = 0 } :: else fi;
	if :: MUTANT == 2 -> goto send :: else fi;
look:	t = 0; busy = 0;
	do
	:: t < THREADS -> busy = busy | in[t]; t++
	:: else -> break
	od;
	if
	:: busy -> waits = 1;
endB:		d_step { bell -> bell = 0; waits = 0 };
		goto look
	:: !busy && MUTANT == 2 -> goto set
	:: !busy && MUTANT != 2
	fi;
send:	atomic { ready = 1; for (t : 0 .. THREADS - 1) { assert(!asleep[t]) } };
off:	skip
}

proctype S() {
	do
	:: d_step { sent < BYTES && !switched -> twin++; sent++ }
	:: d_step { sent < BYTES && ready -> switched = 1; plane++; wake = 1; sent++ }
	:: break
	od
}

proctype Buffers() { /* what's held reaches memory; when nothing moves any more, nobody was forgotten */
	byte t;
end:	do
	:: d_step { want_held -> want = 1; want_held = 0 }
	:: d_step { in_held[0] -> DRAIN(0) }
	:: d_step { in_held[THREADS - 1] -> DRAIN(THREADS - 1) }
	:: timeout -> for (t : 0 .. THREADS - 1) {
			assert(!(asleep[t] || polls[t]) || twin + plane == 0);
			assert(!waits || asleep[0] || asleep[THREADS - 1]) }
		break
	od
}

init { atomic { run Thread(0); run Thread(THREADS - 1); run Progress(); run S(); run Buffers() } }

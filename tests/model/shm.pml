/* SPDX-License-Identifier: MIT */
/*
 * The shared word between who writes into a ring and who reads it (src/link/shm/ring.c, lane.c): a wake
 * goes out only when the reader sleeps, or is about to, and none is ever lost.
 *
 * Writer: makes a slot ready, fence, looks at `armed`; if it's set takes it back by an exchange, and who
 * got it sends one packet. Two threads may write: the ring's lock orders their slots, not their wakes.
 * Reader: polls; finds nothing: arms, fence, polls once more, and sleeps until a packet is there, or, by
 * a timeout, for no reason. Armed before and not woken since, it doesn't arm again; woken, it reads a
 * packet first if it's there already. After a sleep it reads one, and remembers what `armed` says.
 *
 * Stores go through a buffer of one entry, as on x86: they reach memory at any later moment, at a fence
 * or when the next one comes. -DMUTANT=n breaks a rule; check.sh requires those runs to fail.
 */
#ifndef SLOTS
#define SLOTS 2     /* that each of two threads writes */
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 2
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#define ALL (2 * SLOTS)

byte ready;                        /* memory: slots that are ready */
byte armed;
byte slot_held, slot_val;          /* stores that are still in their writer's buffer */
bit arm_held;
byte packets, sent;
byte taken;
bit lock, told;

#define DRAIN_SLOT ready = (slot_held -> slot_val : ready); slot_held = 0
#define DRAIN_ARM armed = (arm_held -> 1 : armed); arm_held = 0

proctype Writer() {
	byte n;
	bit got;
	do
	:: n < SLOTS -> n++;
		atomic { !lock -> lock = 1 };
		d_step { DRAIN_SLOT; slot_held = 1; slot_val = ready + 1 };
		if :: MUTANT != 1 -> d_step { DRAIN_SLOT } :: else fi;
		got = 0;
		if
		:: armed -> /* by an exchange, which is a fence too */
			d_step { DRAIN_SLOT; got = armed; armed = 0 }
		:: else
		fi;
		d_step { DRAIN_SLOT; lock = 0 }; /* the unlock is an exchange */
		if
		:: got && MUTANT != 4 -> packets++; sent++
		:: else
		fi
	:: else -> break
	od
}

/* polls: all that is ready */
#define POLL do :: ready > taken -> taken++ :: else -> break od
/* take_wake: one packet, if there's one */
#define TAKE if :: packets > 0 -> packets-- :: else fi

proctype Reader() {
	byte before, timeouts;
	do
	:: POLL;
		/* arm */
		if
		:: told && (armed || MUTANT == 5) -> skip
		:: else ->
			if :: told -> TAKE :: else fi;
			d_step { DRAIN_ARM; arm_held = 1 };
			if :: MUTANT != 3 -> d_step { DRAIN_ARM } :: else fi;
			told = 1
		fi;
		before = taken;
		if :: MUTANT != 2 -> POLL :: else fi;
		if
		:: taken > before -> skip /* it has something to do */
		:: else ->
			if
			:: packets > 0 -> TAKE; if :: MUTANT != 5 -> told = (armed != 0) :: else fi
			:: timeouts < TIMEOUTS -> timeouts++
			:: taken == ALL -> break /* nothing can come any more */
			fi
		fi
	od
}

/* Buffered stores reach memory by themselves at any moment. */
proctype Buffers() {
	do
	:: d_step { slot_held -> DRAIN_SLOT }
	:: d_step { arm_held -> DRAIN_ARM }
	:: taken == ALL -> break
	od
}

init {
	atomic { run Writer(); run Writer(); run Reader(); run Buffers() };
	end: (_nr_pr == 1);
	/* No more packets than arrivals, and one for each time that the reader has armed. */
	assert(sent <= ALL && packets <= sent)
}

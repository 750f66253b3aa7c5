/* SPDX-License-Identifier: MIT */
/*
 * The shared word between who writes into a ring and who reads it (src/link/shm/ring.c, lane.c): a wake
 * goes out only when the reader sleeps, or is about to, and none is ever lost.
 *
 * Writer: makes a slot ready, fence, looks at `armed`; if it's set takes it back by an exchange, and who
 * got it sends one packet. Two threads may write: the ring's lock orders their slots, not their wakes.
 * Reader: polls; finds nothing: arms, fence, polls once more, and sleeps until a packet is there, or, by
 * a timeout, for no reason. Armed before and not woken since, it doesn't arm again. Each time that it
 * finds itself woken it's owed a packet; it reads those owed, as far as they're there, before it arms
 * and after a sleep. So it may sleep until a packet *comes* (EDGE): what came before it read last is
 * gone, and a socket that's full, which takes no more packets (ROOM), has told it.
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
#ifndef EDGE
#define EDGE 0
#endif
#ifndef ROOM
#define ROOM 9
#endif
#define ALL (2 * SLOTS)

byte ready;                        /* memory: slots that are ready */
byte armed;
byte slot_held, slot_val;          /* stores that are still in their writer's buffer */
bit arm_held;
byte packets, sent;
byte taken, owed;
bit lock, told, edge;

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
		:: got && MUTANT != 4 ->
			atomic {
				sent++;
				if :: packets < ROOM -> packets++; edge = 1 :: else fi
			}
		:: else
		fi
	:: else -> break
	od
}

/* polls: all that is ready */
#define POLL do :: ready > taken -> taken++ :: else -> break od; skip
/* count_wake; its own store is seen, buffered or not */
#define COUNT if \
	:: told && !arm_held && !armed && MUTANT != 5 -> told = 0; owed++ \
	:: else \
	fi
/* what is owed and there */
#define READ do :: owed > 0 && packets > 0 && MUTANT != 6 -> packets--; owed-- :: else -> break od; skip

proctype Reader() {
	byte before, timeouts;
	do
	:: POLL;
		/* arm */
		COUNT;
		if
		:: told -> skip
		:: else ->
			READ;
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
			:: atomic { packets > 0 && (edge || !EDGE) -> edge = 0 };
				COUNT; READ
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

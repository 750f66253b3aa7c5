/* SPDX-License-Identifier: MIT */
/*
 * How threads sleep: leader and followers on one completion queue, as src/engine does it (lead.c, wait.c,
 * sleeper.c, progress.c; the steps here carry those names). Every access to a shared word is one step;
 * all of them are sequentially consistent in the code, so no store buffers.
 *
 * The completion queue holds arrivals, each for one thread. Armed, the next arrival makes the channel
 * readable, once. A thread calls, waits for one arrival of its own, and calls again or never more; it
 * may give up at any moment of its sleep (a timeout). It polls by itself before it sleeps, or doesn't.
 * Threads that don't call are away in the program, for good if they like.
 *
 * Time: the progress thread's tick may come at any moment. Without activity it ticks at most once more
 * before it looks or sleeps. A thread and the progress thread that always miss each other may go in
 * circles, but as long as every thread goes on each round polls the queue (the progress labels). So "lost" is a matter of end
 * states: nothing may be left in the completion queue, whoever sleeps must have nothing to take.
 *
 * -DMUTANT=n breaks a rule on purpose; check.sh requires those runs to fail.
 */
#ifndef THREADS
#define THREADS 2
#endif
#ifndef CALLS
#define CALLS 2     /* per thread */
#endif
#ifndef ARRIVALS
#define ARRIVALS 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1  /* sleeps that end without a wake, all threads together */
#endif
#ifndef SPINS
#define SPINS 1     /* polls before a sleep, all threads together */
#endif
#ifndef ONCE
#define ONCE 0      /* 1: a follower doesn't try the word again (slower, nothing is lost) */
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define NOBODY 0    /* the leader word */
#define PROGRAM 1
#define PROGRESS_AWAKE 2
#define PROGRESS_ASLEEP 3

#define ANNOUNCED 1 /* a sleeper's state, as bits */
#define ASLEEP 2
#define WOKEN 4
#define LEAD 8

#define LAST (THREADS - 1)
#define SOME_CQ (cq[0] + cq[LAST] > 0)
#define SOME_ON_CHAN (on_chan[0] || on_chan[1] || on_chan[LAST])

byte cq[THREADS];            /* the completion queue: arrivals for each thread */
bit asked, armed, chan_fd;   /* we have asked for an event and not taken it; the device knows; the channel is readable */
byte word;                   /* who leads */
bit ticking, activity;         /* the progress thread ticks; somebody polled or slept since its last turn */
byte st[THREADS];            /* sleeper states */
bit wake_fd[THREADS];        /* wake descriptors */
byte data[THREADS];          /* what was dispatched and not yet taken */
bit follows[THREADS];        /* the followers list */
byte followers;
bit on_chan[THREADS];        /* in ppoll, with the channel in the set */
bit in_ppoll[THREADS];
bit p_asleep, bell_fd;       /* the progress thread: `asleep`, its doorbell */
bit p_watches, p_rests;      /* the channel is in its set; it's in ppoll */
bit poll_lock;
byte arrivals = ARRIVALS, timeouts = TIMEOUTS, spins = SPINS;

#define IS(t, bits) ((st[t] & (bits)) != 0)

/* xs_sleeper_tell: rings whoever is in ppoll and hasn't been told yet; within an atomic step */
inline tell(t, bits) {
	if
	:: IS(t, ASLEEP) && !IS(t, WOKEN | LEAD) -> wake_fd[t] = 1
	:: else
	fi;
	st[t] = st[t] | bits
}
/* xs_progress_ring */
#define RING if :: p_asleep -> p_asleep = 0; bell_fd = 1 :: else fi
/* poll_all: one step, as the poll lock is held and each stream has its lock */
inline poll_all() {
	do
	:: cq[0] > 0 -> cq[0]--; data[0]++;
		if :: IS(0, ANNOUNCED) -> tell(0, WOKEN) :: else fi
	:: cq[0] == 0 && cq[LAST] > 0 -> cq[LAST]--; data[LAST]++;
		if :: IS(LAST, ANNOUNCED) -> tell(LAST, WOKEN) :: else fi
	:: else -> break
	od
}
#define LOCK !poll_lock -> poll_lock = 1
/* disarm_fired: takes the event off, if there is one; arm: asks for one, if none is asked for */
#define DISARM chan_fd = 0; asked = 0
#define ARM armed = (armed || !asked); asked = 1
/* arm_all: the poll lock is held, and let go at its end */
inline arm_all() {
	atomic { ARM };
	atomic { if :: MUTANT != 2 -> poll_all() :: else fi; poll_lock = 0 }
}
/* xs_lead_serve, serve_unarmed: nothing is armed behind it */
inline serve_lead() {
	atomic { LOCK; DISARM };
	atomic { poll_all(); poll_lock = 0 }
}
inline serve_unarmed(fired) {
	if
	:: atomic { LOCK; if :: fired -> DISARM :: else fi };
		atomic { poll_all(); poll_lock = 0 }
	:: atomic { poll_lock -> skip } /* a thread is at it */
	fi
}
inline serve_as_progress(fired) {
	atomic { LOCK; if :: fired -> DISARM :: else fi };
	atomic { poll_all() };
	arm_all()
}
/* promote: asks one follower to lead; any of them; one step, as the followers lock is held */
inline promote(done) {
	if
	:: atomic { follows[0] -> follows[0] = 0; followers--; tell(0, LEAD); done = 1 }
	:: atomic { follows[1] -> follows[1] = 0; followers--; tell(1, LEAD); done = 1 }
	:: atomic { THREADS > 2 && follows[LAST] ->
		follows[LAST] = 0; followers--; tell(LAST, LEAD); done = 1 }
	:: atomic { followers == 0 -> done = 0 }
	fi
}
/* xs_lead_pass: if nobody leads, somebody shall */
inline pass(done) {
	if
	:: atomic { word != NOBODY || MUTANT == 3 -> skip }
	:: atomic { else -> skip };
		promote(done);
		if
		:: atomic { !done && MUTANT != 11 -> skip };
			if :: atomic { !ticking -> done = 1 }; atomic { RING } :: else fi
		:: else
		fi
	fi
}
/* grab: the word, from nobody or from the sleeping progress thread */
inline grab(won) {
	if
	:: atomic { word == NOBODY -> word = PROGRAM; won = 1 }
	:: else ->
		if
		:: atomic { word == PROGRESS_ASLEEP -> word = PROGRAM };
			atomic { won = 1; if :: MUTANT != 4 -> p_watches = 0 :: else fi }
		:: else
		fi
	fi
}
#define UNFOLLOW if :: follows[t] -> follows[t] = 0; followers-- :: else fi

proctype Thread(byte t) {
	byte calls;
	bit leads, done, late;
call:	if
	:: atomic { calls < CALLS -> calls++ }
	:: goto gone                                       /* away for good */
	fi;
look:	if
	:: atomic { data[t] > 0 -> data[t]--; goto call }
	:: atomic { else -> skip }
	fi;
	if                                                 /* xs_poll_once */
	:: atomic { spins > 0 -> spins--; activity = 1 };
		if                                         /* relieve */
		:: atomic { word == PROGRESS_ASLEEP -> word = (MUTANT == 15 -> NOBODY : PROGRAM) };
			p_watches = 0;
			atomic { if :: MUTANT != 15 -> word = NOBODY :: else fi };
			if :: MUTANT != 13 -> pass(done) :: else fi;
			done = 0
		:: else
		fi;
		if
		:: atomic { LOCK; poll_all(); poll_lock = 0 }
		:: else
		fi;
		goto look
	:: st[t] = ANNOUNCED                               /* xs_sleeper_begin */
	fi;
	if
	:: atomic { MUTANT != 1 && data[t] > 0 -> st[t] = 0; goto look }
	:: atomic { else -> skip }
	fi;
settle:	if
	:: atomic { !leads -> st[t] = st[t] & ~LEAD; activity = 1 }; /* xs_lead_take */
		grab(leads);
		if
		:: atomic { !leads ->
			if :: !follows[t] -> follows[t] = 1; followers++ :: else fi };
			if :: !ONCE -> grab(leads) :: else fi
		:: else
		fi;
		if
		:: atomic { leads -> UNFOLLOW };
			atomic { LOCK };
			arm_all()
		:: else
		fi
	:: atomic { leads -> st[t] = st[t] & ~LEAD };      /* xs_lead_rearm */
		if
		:: atomic { MUTANT != 14 -> LOCK }; arm_all()
		:: else
		fi
	fi;
	if
	:: atomic { st[t] == ANNOUNCED || MUTANT == 8 -> st[t] = st[t] | ASLEEP }
	:: atomic { else -> goto awake }
	fi;
	atomic { assert(!leads || (!p_watches && word == PROGRAM));
		assert(!leads || !SOME_ON_CHAN);
		in_ppoll[t] = 1; on_chan[t] = leads };
endD:	if                                                 /* ppoll */
	:: atomic { wake_fd[t] || (leads && chan_fd) -> in_ppoll[t] = 0; on_chan[t] = 0 }
	:: atomic { timeouts > 0 -> timeouts--; late = 1; in_ppoll[t] = 0; on_chan[t] = 0 }
	fi;
	atomic { st[t] = st[t] & ~ASLEEP; wake_fd[t] = 0 };
	if :: atomic { leads && chan_fd -> skip }; serve_lead() :: else fi;
awake:	if
	:: atomic { !IS(t, WOKEN) && !late -> goto settle }
	:: atomic { else -> skip }
	fi;
	if                                                 /* xs_lead_drop */
	:: atomic { leads -> word = NOBODY; leads = 0 }; activity = 1; pass(done)
	:: atomic { !leads -> UNFOLLOW };
		if
		:: atomic { IS(t, LEAD) && MUTANT != 7 -> skip }; pass(done)
		:: else
		fi
	fi;
	atomic { st[t] = 0; done = 0;                      /* xs_sleeper_end */
		if :: late -> late = 0; goto call :: else -> goto look fi };
gone:	skip
}

#define UNBOUNDED 0
#define TICK 1

proctype Progress() {
	bit fired, bound, seen, recent, done;
turn:	atomic { fired = p_watches && chan_fd; bell_fd = 0 }; /* serve_events */
	atomic { if :: MUTANT != 9 -> p_asleep = 1 :: else fi }; /* from here on rings count */
	atomic { seen = activity; activity = 0 };          /* xs_lead_turn */
	if
	:: atomic { word == PROGRESS_ASLEEP -> word = PROGRESS_AWAKE };
		if
		:: atomic { !seen -> goto watch }
		:: atomic { seen -> skip };
progressA:		serve_unarmed(fired);
			atomic { p_watches = 0; ticking = 1 };
			word = NOBODY;
			promote(done);
			goto tick
		fi
	:: atomic { else -> skip };
		if                                         /* the quiet milliseconds may be over or not */
		:: atomic { word == NOBODY && !seen && MUTANT != 12 -> word = PROGRESS_AWAKE; goto watch }
		:: atomic { word == NOBODY && !seen -> skip };
progressU:		serve_unarmed((fired && MUTANT == 16))
		:: atomic { word != NOBODY || seen -> skip }
		fi
	fi;
tick:	atomic { bound = TICK; if :: seen -> recent = 1 :: !seen -> recent = 0 :: !seen fi };
	if                                                 /* tick */
	:: atomic { MUTANT != 12 && (word == NOBODY || recent) -> recent = seen }; ticking = 1
	:: atomic { else -> skip };
		ticking = 0;
		if
		:: atomic { word != NOBODY || MUTANT == 6 || MUTANT == 12 -> bound = UNBOUNDED }
		:: atomic { else -> ticking = 1 }
		fi
	fi;
	goto rest;
watch:	skip;                                              /* watch_channels: the word is PROGRESS_AWAKE */
progressW: serve_as_progress(fired);
	if
	:: atomic { followers == 0 -> p_watches = 1 };
		ticking = 0;
		word = PROGRESS_ASLEEP;
		if
		:: atomic { followers == 0 -> goto rest }
		:: atomic { else -> skip };
			if
			:: atomic { word == PROGRESS_ASLEEP -> word = PROGRESS_AWAKE; p_watches = 0 }
			:: atomic { else -> goto rest }
			fi
		fi
	:: atomic { else -> if :: MUTANT != 5 -> p_watches = 0 :: else fi }
	fi;
	ticking = 1;
	word = NOBODY;
	promote(done);
	bound = TICK;
rest:	atomic { if :: MUTANT == 9 -> p_asleep = 1 :: else fi; seen = 0; done = 0; fired = 0 };
	atomic { assert(!p_watches || !SOME_ON_CHAN); p_rests = 1 };
endP:	atomic { bell_fd || (p_watches && chan_fd) || bound == TICK -> p_rests = 0; bound = 0 };
	atomic { p_asleep = 0; goto turn }
}

proctype World() { /* arrivals; and when nothing moves any more, nothing is forgotten */
	byte t;
end:	do
	:: atomic { arrivals > 0 -> arrivals--; cq[0]++; if :: armed -> armed = 0; chan_fd = 1 :: else fi }
	:: atomic { arrivals > 0 -> arrivals--; cq[LAST]++;
		if :: armed -> armed = 0; chan_fd = 1 :: else fi }
	:: timeout -> assert(!SOME_CQ);
		for (t : 0 .. THREADS - 1) { assert(!in_ppoll[t] || data[t] == 0) };
		break
	od
}

init { atomic {
	run Thread(0); run Thread(1);
	if :: THREADS > 2 -> run Thread(THREADS - 1) :: else fi;
	run Progress(); run World()
} }

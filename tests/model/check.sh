#!/bin/sh
# SPDX-License-Identifier: MIT
# Searches the models in each configuration of the lists below (wanted result, name|options|file, if it
# isn't switch.pml), JOBS (2) at a time, one line each, and a line with their sum.
# "hold": every state is visited and nothing is wrong. "loop": nothing goes in circles (sleep.pml: not
# without a poll, where every thread goes on). "fail": the fault that the run contains is found. Anything
# else is a surprise: exit status 1.
#   check.sh         everything that's quick: minutes
#   check.sh short   the most valuable runs: about a minute
#   check.sh long    larger bounds: minutes each
# Needs spin and gcc; see README.md. Writes to a directory of its own under TMPDIR.
set -u
here=$(cd "$(dirname "$0")" && pwd)

runs() {
	both='-DQ=1 -DEPOCHS=1 -DDEATHS=0 -DSTALLS=0'
	nap='-DCALLS=1 -DSPINS=0 -DTIMEOUTS=0'
	cat <<LIST
hold both directions|$both -DN=1 -DW=1 -DK=3|both.sh
hold both directions, kept bytes fit|$both -DFITS=1 -DFILL=2 -DN=6 -DW=4 -DK=5|both.sh
hold one upgrade, longer stream|-DN=4 -DDEATHS=0 -DSTALLS=0 -DR2S_LANES=2
hold two epochs, link death, stall|
hold two epochs, ACKs overtake|-DR2S_LANES=2 -DSTALLS=0
hold two epochs, small twin|-DN=4 -DK=2 -DDEATHS=0
hold three epochs|-DEPOCHS=3 -DSTALLS=2 -DDEATHS=0
hold three epochs, two link deaths|-DEPOCHS=3 -DSTALLS=0 -DDEATHS=2
hold segments sent again|-DRESENDS=1 -DDEATHS=0
hold hand-over, link death, stall|-DHANDOVERS=1 -DN=2
hold hand-over, link death|-DHANDOVERS=1 -DSTALLS=0
hold hand-over, ACKs overtake|-DHANDOVERS=1 -DR2S_LANES=2 -DSTALLS=0 -DDEATHS=0
hold hand-over tried twice|-DHANDOVERS=2 -DSTALLS=0 -DDEATHS=0
hold hand-over, more announced than fits|-DHANDOVERS=1 -DN=4 -DW=3 -DK=2 -DEPOCHS=1 -DDEATHS=0
hold hand-over, sender exits|-DHANDOVERS=1 -DEXITS=1 -DSTALLS=0 -DDEATHS=0
hold sender exits|-DEXITS=1 -DSTALLS=0
hold landing memory|-DLANDING=1 -DDEATHS=0
hold landing memory, link death|-DLANDING=1 -DSTALLS=0
hold landing memory, segments sent again|-DLANDING=1 -DRESENDS=1 -DDEATHS=0 -DW=1
hold landing memory, hand-over tried|-DLANDING=1 -DHANDOVERS=1 -DN=2 -DW=1 -DSTALLS=0
hold writer handed over, link death, stall|-DGIVES=1
hold writer handed over, ACKs overtake|-DGIVES=1 -DSTALLS=0 -DR2S_LANES=2
hold writer handed over, tried twice|-DGIVES=2 -DSTALLS=0 -DDEATHS=0
hold writer handed over, landing memory|-DGIVES=1 -DLANDING=1 -DSTALLS=0 -DDEATHS=0
hold writer handed over, sender exits|-DGIVES=1 -DEXITS=1 -DSTALLS=0 -DDEATHS=0
hold writer and reader handed over|-DGIVES=1 -DHANDOVERS=1 -DSTALLS=0 -DDEATHS=0
hold sender killed|-DKILLS=1 -DDEATHS=0
hold sender killed, hand-over|-DKILLS=1 -DHANDOVERS=1 -DSTALLS=0 -DDEATHS=0 -DK=5
hold sender killed, writer handed over|-DKILLS=1 -DGIVES=1 -DSTALLS=0 -DDEATHS=0
hold sender killed, link death|-DKILLS=1 -DLIMIT=1 -DSTALLS=0
hold sender killed, exits, link death|-DKILLS=1 -DLIMIT=1 -DEXITS=1 -DSTALLS=0
hold sender killed, hand-over, link death|-DKILLS=1 -DLIMIT=1 -DHANDOVERS=1 -DSTALLS=0 -DN=2 -DK=5
hold upgrades come back|-DEAGER=1 -DDEATHS=0
hold upgrades come back, landing memory|-DEAGER=1 -DLANDING=1 -DDEATHS=0
hold unseen writer after CONFIRMED|-DFOREIGN=1 -DDEATHS=0
loop nothing goes in circles|-DN=2 -DHANDOVERS=1 -DEXITS=1 -DSTALLS=0
loop nothing goes in circles, writer handed over|-DN=2 -DGIVES=1 -DLANDING=1 -DSTALLS=0 -DDEATHS=0
hold READY's counter||ready.pml
hold resets|-DLANES=1|rst.pml
hold resets, segments overtake|-DDEATHS=0|rst.pml
hold resets, segments overtake, link death|-DSTALLS=0|rst.pml
hold both directions asked back|-DEPOCHS=2 -DNEWLINKS=1|return.pml
hold both directions asked back, longer streams|-DN=2 -DASKERS=1|return.pml
hold both directions asked back, SWITCHED after RETURN_ME|-DEPOCHS=2 -DLATE=1|return.pml
hold sleeping, one arrival|$nap -DARRIVALS=1|sleep.pml
hold sleeping|$nap|sleep.pml
hold sleeping, a timeout|-DCALLS=1 -DARRIVALS=1 -DSPINS=0|sleep.pml
hold sleeping, polls before the sleep|-DCALLS=1 -DARRIVALS=1 -DTIMEOUTS=0|sleep.pml
loop sleeping: every circle polls|-DCALLS=1 -DARRIVALS=1 -DSPINS=0 -DTIMEOUTS=0|sleep.pml
hold shared memory's wakes||shm.pml
hold shared memory's wakes, by edges|-DEDGE=1|shm.pml
hold shared memory's wakes, by edges, room for one|-DEDGE=1 -DROOM=1|shm.pml
fail without [1] FIRST below R's position|-DWITHOUT=1
fail without [2] an ACK implies SWITCHED|-DWITHOUT=2 -DR2S_LANES=2
fail without [3] READY only after decoding|-DWITHOUT=3
fail without [4] old RETURN_ME is answered|-DWITHOUT=4 -DHANDOVERS=1
fail without [5] RETURN_ME voids PREPARE|-DWITHOUT=5 -DHANDOVERS=1 -DR2S_LANES=2
fail without [6] repeats read before hand-over|-DWITHOUT=6 -DHANDOVERS=1
fail without [7] a full twin covers enough|-DWITHOUT=7 -DHANDOVERS=1 -DN=4 -DW=3 -DK=2
fail without [8] a bare FIN ends the wait|-DWITHOUT=8 -DHANDOVERS=1
fail without [9] a FIN in doubt is no end|-DWITHOUT=9 -DKILLS=1 -DDEATHS=0
fail without [10] slots wait for all requests|-DWITHOUT=10 -DLANDING=1 -DRESENDS=1 -DDEATHS=0 -DW=1
fail without [11] twin read up to X as well|-DWITHOUT=11
fail without [12] new link after both gave up|-DWITHOUT=12
fail without [13] END before its PREPARE counts|-DWITHOUT=13 -DGIVES=1 -DLANDING=1 -DSTALLS=0
fail without [14] the latest PREPARE stands|-DWITHOUT=14 -DGIVES=1 -DSTALLS=0
fail without [15] FLUSHED before a hand-over|-DWITHOUT=15 -DKILLS=1 -DHANDOVERS=1 -DDEATHS=0 -DK=5
fail without [16] the end told in band stays|-DWITHOUT=16 -DKILLS=1 -DLIMIT=1 -DSTALLS=0
fail mutant 1: S doesn't wait for SWITCHED|-DMUTANT=1
fail mutant 2: epochs aren't looked at|-DMUTANT=2
fail mutant 3: S keeps its old base|-DMUTANT=3
fail mutant 4: CONFIRMED isn't looked at|-DMUTANT=4 -DFOREIGN=1
fail mutant 5: sent bytes aren't kept|-DMUTANT=5
fail mutant 6: hand-over without RETURNED|-DMUTANT=6 -DHANDOVERS=1
fail mutant 7: twin's FIN isn't held back|-DMUTANT=7
fail mutant 8: slots used again without END|-DMUTANT=8 -DLANDING=1 -DDEATHS=0
fail mutant 9: READY outlives the link|-DMUTANT=9
fail mutant 10: R keeps its old base|-DMUTANT=10
fail mutant 11: END on used lanes only|-DMUTANT=11 -DEAGER=1 -DLANDING=1 -DDEATHS=0
fail mutant 12: kept bytes outside at hand-over|-DMUTANT=12 -DGIVES=1
fail mutant 13: writer leaves without FLUSHED|-DMUTANT=13 -DGIVES=1 -DKILLS=1 -DDEATHS=0
fail mutant 14: FIN before FLUSHED completes|-DMUTANT=14 -DKILLS=1 -DDEATHS=0
fail mutant 15: no RETURNED once S has given|-DMUTANT=15 -DGIVES=1 -DHANDOVERS=1 -DDEATHS=0
fail mutant 16: a frame is the end of all doubt|-DMUTANT=16 -DKILLS=1 -DDEATHS=0
fail mutant 17: a FIN before the end told in band|-DMUTANT=17 -DKILLS=1 -DDEATHS=0
fail READY mutant 1: no look after entering|-DMUTANT=1|ready.pml
fail READY mutant 2: counter before state|-DMUTANT=2|ready.pml
fail READY mutant 3: no fence after entering|-DMUTANT=3|ready.pml
fail READY mutant 4: no fence after the state|-DMUTANT=4|ready.pml
fail READY mutant 5: no fence after leaving|-DMUTANT=5|ready.pml
fail reset mutant 1: copies served across lost bytes|-DMUTANT=1 -DDEATHS=0|rst.pml
fail reset mutant 2: end-of-file for a reset|-DMUTANT=2 -DDEATHS=0|rst.pml
fail reset mutant 3: copies dropped at the reset|-DMUTANT=3 -DDEATHS=0|rst.pml
fail reset mutant 4: the twin's error is forgotten|-DMUTANT=4 -DDEATHS=0|rst.pml
fail reset mutant 5: close with unread copies, no RST|-DMUTANT=5 -DDEATHS=0|rst.pml
fail reset mutant 6: data for a closed id is dropped|-DMUTANT=6 -DDEATHS=0|rst.pml
fail reset mutant 7: the twin isn't watched|-DMUTANT=7 -DDEATHS=0|rst.pml
fail reset mutant 8: late ACK answered PEER_GONE|-DMUTANT=8 -DDEATHS=0|rst.pml
fail reset mutant 9: FIN for an orphan answered PEER_GONE|-DMUTANT=9 -DDEATHS=0|rst.pml
fail return mutant 1: RETURNED only while on the plane|-DMUTANT=1 -DEPOCHS=2|return.pml
fail return mutant 2: READY though pinned|-DMUTANT=2 -DEPOCHS=2|return.pml
fail return mutant 3: who was asked isn't pinned|-DMUTANT=3 -DEPOCHS=2|return.pml
fail return mutant 4: no RETURN_ME|-DMUTANT=4 -DEPOCHS=2|return.pml
fail return mutant 5: R keeps X when the link dies|-DMUTANT=5 -DEPOCHS=2|return.pml
fail sleep mutant 1: no look after announcing|$nap -DMUTANT=1|sleep.pml
fail sleep mutant 2: no poll after arming|$nap -DMUTANT=2|sleep.pml
fail sleep mutant 3: a leader leaves without a word|$nap -DMUTANT=3|sleep.pml
fail sleep mutant 4: two sleepers, lead taken|$nap -DMUTANT=4|sleep.pml
fail sleep mutant 5: two sleepers, lead given|$nap -DMUTANT=5|sleep.pml
fail sleep mutant 6: no look after the last tick|$nap -DMUTANT=6|sleep.pml
fail sleep mutant 7: a lead that's offered is ignored|-DCALLS=1 -DSPINS=0 -DTIMEOUTS=2 -DARRIVALS=1 -DMUTANT=7|sleep.pml
fail sleep mutant 8: asleep though woken|$nap -DMUTANT=8|sleep.pml
fail sleep mutant 9: doorbell heard too late|$nap -DMUTANT=9|sleep.pml
fail sleep mutant 11: the progress thread isn't rung|$nap -DMUTANT=11|sleep.pml
fail sleep mutant 12: it never takes the lead|$nap -DMUTANT=12|sleep.pml
fail sleep mutant 13: a poller takes the lead and leaves without a word|-DCALLS=1 -DTIMEOUTS=0 -DMUTANT=13|sleep.pml
fail sleep mutant 14: a leader sleeps on unarmed|$nap -DMUTANT=14|sleep.pml
fail sleep mutant 15: the word given before the channels|-DCALLS=1 -DARRIVALS=1 -DTIMEOUTS=0 -DMUTANT=15|sleep.pml
fail sleep mutant 16: an event taken off without the word|$nap -DMUTANT=16|sleep.pml
fail shared memory mutant 1: no fence after a slot|-DMUTANT=1|shm.pml
fail shared memory mutant 2: no poll after arming|-DMUTANT=2|shm.pml
fail shared memory mutant 3: no fence after arming|-DMUTANT=3|shm.pml
fail shared memory mutant 4: the word is taken, nobody woken|-DMUTANT=4|shm.pml
fail shared memory mutant 5: armed once for all|-DMUTANT=5 -DEDGE=1|shm.pml
fail shared memory mutant 6: packets stay unread|-DMUTANT=6 -DEDGE=1 -DROOM=1|shm.pml
fail limit: unseen writer before CONFIRMED|-DFOREIGN=2
fail limit: link dies, then a clean end|-DKILLS=1
fail limit: both hand over, both twins full|$both -DFILL=2 -DN=6 -DW=4 -DK=5|both.sh
fail limit: killed while a full twin is handed over|-DKILLS=1 -DHANDOVERS=1 -DDEATHS=0 -DK=2
LIST
}

short() { # by name, from the list above
	runs | grep -E '^(hold (one upgrade|two epochs, (link death|small)|hand-over tried|sender exits\||sender killed, link death\||'\
'writer handed over, tried|READY|resets, segments overtake, |both directions asked back\||'\
'shared memory|sleeping, one arrival)|fail (without \[([1-489]|1[46])\]|mutant [1-5]:|reset mutant [1-58]|return mutant [1-4]|'\
'shared memory mutant|READY mutant [15]|sleep mutant ([12458]|1[25]):))'
}

long() { # minutes each
	cat <<'LIST'
hold two epochs, link death, stall, ACKs overtake|-DR2S_LANES=2
hold two epochs, longer stream|-DN=4 -DK=3
hold three epochs, link death, stalls|-DEPOCHS=3 -DSTALLS=2 -DK=3
hold hand-over, link death, stall|-DHANDOVERS=1
hold hand-over, ACKs overtake, stall|-DHANDOVERS=1 -DR2S_LANES=2 -DDEATHS=0
hold hand-over, sender exits, link death|-DHANDOVERS=1 -DEXITS=1 -DSTALLS=0
hold sender exits, link death, stall|-DEXITS=1
hold landing memory, link death, stall|-DLANDING=1
hold writer handed over, landing memory, link death|-DGIVES=1 -DLANDING=1 -DSTALLS=0
hold sender killed, link death, stall|-DKILLS=1 -DLIMIT=1
hold sender killed, writer handed over, link death|-DKILLS=1 -DLIMIT=1 -DGIVES=1 -DSTALLS=0
hold resets, everything||rst.pml
hold both directions asked back, longer streams, both ask|-DN=2 -DDEATHS=0|return.pml
hold sleeping, three arrivals|-DCALLS=1 -DSPINS=0 -DTIMEOUTS=0 -DARRIVALS=3|sleep.pml
hold sleeping, two calls each|-DSPINS=0 -DTIMEOUTS=0|sleep.pml
hold sleeping, a timeout and a poll|-DCALLS=1 -DARRIVALS=1|sleep.pml
hold sleeping, two timeouts|-DCALLS=1 -DSPINS=0 -DTIMEOUTS=2 -DARRIVALS=1|sleep.pml
hold sleeping, the word is tried once|-DCALLS=1 -DSPINS=0 -DTIMEOUTS=0 -DONCE=1|sleep.pml
hold READY's counter, more calls|-DCALLS=3 -DBYTES=5|ready.pml
LIST
}

one() { # line of the list
	want=${1%% *}
	name=${1#* }
	flags=${name#*|}
	name=${name%%|*}
	file=${flags#*|}
	[ "$file" = "$flags" ] && file=switch.pml
	flags=${flags%|*}
	dir=$(mktemp -d) || exit 1
	cd "$dir" || exit 1
	mode=-DSAFETY
	store=-DCOLLAPSE
	bits=22
	optimise=-O2
	loop=
	[ "$want" = fail ] && optimise=-O1 # found in few states: the compiler is what takes time
	if [ "$want" = loop ]; then
		mode='-DNP -DNFAIR=3'
		loop=-l
		[ "$file" = sleep.pml ] && loop='-l -f'
	fi
	# shellcheck disable=SC2086
	{ case $file in
		*.sh) "$here/$file" $flags >model.pml && store=-DHC4 bits=26 ;; # else over 3 GB
		*) cp "$here/$file" model.pml ;;
		esac && spin -a $flags model.pml &&
		gcc $optimise -w $mode -DNOREDUCE $store -DVECTORSZ=512 -DMEMLIM=3000 -o pan pan.c &&
		./pan $loop -m100000 -w$bits; } >out 2>&1
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' out)
	errors=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' out)
	why=$(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' out)
	got=fail
	[ "${errors:-x}" = 0 ] && ! grep -Eq 'not completed|too small|limit' out && got=hold
	[ "$got" = fail ] && [ "${errors:-0}" = 0 ] && got=broken
	[ "$want" = loop ] && want=hold
	verdict=fine
	[ "$got" = "$want" ] || verdict=BAD
	printf '%-4s %-4s %-55s %8s states, %s errors %s\n' "$verdict" "$got" "$name" \
		"${states:-?}" "${errors:-?}" "$(printf %.60s "$why")"
	[ $verdict = BAD ] && tail -5 out
	cd "$here" && rm -rf "$dir"
	[ $verdict = fine ]
}

if [ "${1-}" = one ]; then
	one "$2"
	exit
fi
case "${1-}" in
'' | all) list=runs ;;
short | long) list=$1 ;;
*)
	echo "Usage: check.sh [short|long]" >&2
	exit 2
	;;
esac
for tool in spin gcc; do
	command -v $tool >/dev/null && continue
	echo "models: $tool isn't installed (scripts/setup does it)"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
done
lines=$(mktemp) || exit 1
trap 'rm -f "$lines"' EXIT
$list | tr '\n' '\0' | xargs -0 -n 1 -P "${JOBS:-2}" nice "$here/check.sh" one | tee "$lines"
failed=$(grep -c '^BAD' "$lines")
passed=$(grep -c '^fine' "$lines")
# A run that died without its line counts too.
lost=$(($($list | wc -l) - passed - failed))
echo "$passed passed, $((failed + lost)) failed, 0 skipped"
[ $((failed + lost)) = 0 ]

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What goes wrong on the way: links that die, and processes. On the tests' plane.

load lib

# The returns that a kept run has reported.
returned() {
	local got
	got=$(jq -s '[.[] | select(.tx) | .tx.returns, .rx.returns] | add // 0' "$1/report")
	[ "$got" -ge "$2" ] || { echo "only $got returns, expected $2" && return 1; }
}

@test "a link killed under 8 running streams loses nothing" {
	local rounds=1 i dir
	need_plane
	[ -z "${XS_FULL:-}" ] || rounds=50
	for ((i = 1; i <= rounds; i++)); do
		dir=$BATS_TEST_TMPDIR/$i
		mkdir "$dir"
		XSHIM_TESTPLANE="cut_file=$dir/cut,seed=$i" ORACLE_SECONDS=120 \
			"$TESTS/oracle/run" --plane test --bare 1 --keep "$dir" linkdeath
		# The first cut finds them on the plane: both ends of both directions come back.
		returned "$dir" 32
		! grep 'reset:' "$dir/log"
		rm -r "$dir"
	done
}

@test "a process may end at any moment: no false byte, no early end-of-file" {
	local faults rounds=10
	need_plane
	[ -z "${XS_FULL:-}" ] || rounds=100
	# With the long delay many an exit comes while a connection is being paired. exit_ms is for ends
	# that may be cut short: here none may, on a machine however slow.
	for faults in seed=1 delay_us=2000,reorder=10,seed=2 dup=10,delay_us=300,seed=3 \
		delay_us=20000,seed=4; do
		echo "faults: $faults"
		XSHIM_EXIT_MS=10000 XSHIM_TESTPLANE=$faults ORACLE_SECONDS=$((60 + 3 * rounds)) \
			"$TESTS/oracle/run" --plane test --bare 1 killrounds $rounds "${faults##*=}"
	done
}

@test "an end that nobody has acknowledged when the link dies costs no byte of the other direction" {
	local seed how
	need_plane
	for seed in 1 2 3; do
		for how in close exit; do
			XSHIM_EXIT_MS=10000 XSHIM_TESTPLANE=delay_us=40000,seed=$seed \
				"$TESTS/oracle/run" --plane test exitreply $how
		done
	done
}

@test "writers for whom there's no memory go back to TCP, and no program sees it" {
	local kept=$BATS_TEST_TMPDIR/kept
	need_plane
	XSHIM_POOL_MAX=2m ORACLE_SECONDS=60 "$TESTS/oracle/run" --plane test --bare 1 --keep "$kept" \
		manykept
	[ "$(jq -s '[.[] | select(.tx.reason == "no-memory")] | length' "$kept/report")" -gt 0 ]
}

@test "stalled directions upgrade again when their time has come, with nobody to remind them" {
	need_plane
	# Late messages set timers of their own before the one that matters.
	XSHIM_TESTPLANE=delay_us=3000 "$TESTS/oracle/run" --plane test --bare 1 again
}

# Streams of random sizes with SHA-256 at each end; the plane comes in the middle of each, and goes.
rounds_of_changes() {
	local batch=$1 rounds=$2 seed dir=$BATS_TEST_TMPDIR/$1 got
	local faults=('seed=1' 'delay_us=500,reorder=20' 'dup=10,delay_us=3000,reorder=10'
		'small=16,bulk=4,dup=30' 'freeze_after=300,freeze_ms=30,delay_us=200')
	seed=$((${XS_SEED:-1} + batch))
	mkdir "$dir"
	echo "batch $batch: seed $seed"
	XSHIM_TESTPLANE="${faults[batch % ${#faults[@]}]},seed=$seed" ORACLE_SECONDS=$((60 + 4 * rounds)) \
		"$TESTS/oracle/run" --plane test --bare 1 --keep "$dir" \
		stream 300000 "$seed" "$rounds" changes
	# At most four a round: each end tells of both directions.
	got=$(jq -s '[.[] | .tx.upgrades, .rx.upgrades] | add' "$dir/report")
	[ "$got" -ge "$rounds" ] || { echo "only $got upgrades in $rounds rounds" && return 1; }
	returned "$dir" $((rounds / 2))
	rm -r "$dir"
}

@test "random streams are whole while planes come and go in their middle" {
	local batch batches=5 rounds=8
	need_plane
	[ -z "${XS_FULL:-}" ] || batches=40 rounds=25
	[ -z "${XS_SOAK:-}" ] || batches=400
	for ((batch = 0; batch < batches; batch++)); do
		rounds_of_changes $batch $rounds
	done
}

# Holds for what all processes show of their connections.
rows() {
	XSHIM_STATS_DIR=$BATS_TEST_TMPDIR "$XSHIM" stat --json | jq -es "$1" >/dev/null
}

@test "workers that share a listener: one is found, the other's connection says prefork at both ends" {
	local port server client
	need_plane
	begin_report
	port=$(free_port)
	start "$BATS_TEST_TMPDIR/serve" shimmed python3 "$TESTS/apps/prefork.py" serve "$port"
	server=${STARTED[-1]}
	await_port "$port"
	mkfifo "$BATS_TEST_TMPDIR/hold"
	EXEC="exec" shimmed python3 "$TESTS/apps/prefork.py" ask "$port" 3>&- <"$BATS_TEST_TMPDIR/hold" &
	client=$!
	exec 4>"$BATS_TEST_TMPDIR/hold"
	await "one connection is on the plane, one is prefork" rows \
		'[.[] | .rx.reason] | sort == [null, null, "prefork", "prefork"]' || {
		XSHIM_STATS_DIR=$BATS_TEST_TMPDIR "$XSHIM" stat
		return 1
	}
	exec 4>&-
	await_end "$client"
	await_end "$server"
	proved 100
	jq -es '[.[] | select(.rx.reason == "prefork") | .local, .peer] |
		length == 4 and (unique | length) == 2' "$REPORT"
}

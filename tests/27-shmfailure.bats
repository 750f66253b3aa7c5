#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Shared memory when processes end, and next to other planes.

load lib

setup() {
	need_plane
	begin_report
}

teardown() {
	stop_all
}

@test "a process may end at any moment: no false byte, no early end-of-file" {
	local seed rounds=10
	[ -z "${XS_FULL:-}" ] || rounds=350
	for seed in 1 2 3; do
		ORACLE_SECONDS=$((60 + 3 * rounds)) \
			"$TESTS/oracle/run" --plane shm --bare 1 killrounds $rounds $seed
	done
}

@test "an end that nobody has acknowledged when the other process goes costs no byte" {
	"$TESTS/oracle/run" --plane shm exitreply close
	"$TESTS/oracle/run" --plane shm exitreply exit
}

@test "random streams are whole while planes come and go in their middle" {
	local seed rounds=8
	[ -z "${XS_FULL:-}" ] || rounds=200
	for seed in 1 2; do
		ORACLE_SECONDS=$((60 + 4 * rounds)) "$TESTS/oracle/run" --plane shm --bare 1 \
			stream 300000 $seed $rounds changes
	done
}

# talk PLANES: an echo server and its client, with that order of planes.
talk() {
	local port
	port=$(free_port)
	start "$BATS_TEST_TMPDIR/serve" shimmed env XSHIM_PLANES="$1" XSHIM_TRUST= \
		python3 "$TESTS/apps/echo.py" serve 127.0.0.1 "$port"
	await_port "$port"
	[ "$(shimmed env XSHIM_PLANES="$1" XSHIM_TRUST= python3 "$TESTS/apps/echo.py" talk \
		127.0.0.1 "$port")" = "20 of 20" ]
}

@test "two ends on one host choose shared memory, whatever else is allowed" {
	talk shm,rc
	proved 100000
	: >"$REPORT"
	talk rc,shm
	proved 100000
}

@test "a link goes with its process, and leaves no descriptor behind" {
	local port server before
	port=$(free_port)
	start "$BATS_TEST_TMPDIR/serve" shimmed python3 "$TESTS/apps/echo.py" serve 127.0.0.1 "$port"
	server=${STARTED[-1]}
	await_port "$port"
	shimmed python3 "$TESTS/apps/echo.py" talk 127.0.0.1 "$port"
	await_gone "$server"
	before=$(find "/proc/$server/fd" -type l | wc -l)
	for _ in 1 2 3 4 5; do
		shimmed python3 "$TESTS/apps/echo.py" talk 127.0.0.1 "$port"
	done
	await_gone "$server"
	[ "$(find "/proc/$server/fd" -type l | wc -l)" -le "$before" ]
}

# Waits until no shared memory is mapped by the process.
await_gone() {
	local i
	for ((i = 0; i < 500; i++)); do
		! grep -q 'memfd:xshim' "/proc/$1/maps" || { read -r -t 0.02 <> <(:) || true; continue; }
		return 0
	done
	grep 'memfd:xshim' "/proc/$1/maps"
	return 1
}

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Whom the shm plane believes: users, sandboxes, and a program (tests/shm/hostile.c) that wants what
# isn't its own. No rule of trust is set in any of these.

load lib

OTHER=12345
HOSTILE=$BUILD/tests/shm/hostile
SANDBOX=$BUILD/tests/shm/sandbox

setup() {
	[ "$(id -u)" = 0 ] || skip "only root can be several users"
	need_plane
	# Where every user may write.
	DIR=$(mktemp -d)
	chmod 1777 "$DIR"
	REPORT=$DIR/report
	: >"$REPORT"
	chmod 666 "$REPORT"
	PORT=$(free_port)
}

teardown() {
	exec 7>&- 2>/dev/null || true
	stop_all
	rm -rf "$DIR"
}


# as_user UID [SANDBOX...] -- PROGRAM: under the library, with no rule of trust.
as_user() {
	local uid=$1 by=()
	shift
	while [ "$1" != -- ]; do
		by+=("$1")
		shift
	done
	shift
	if [ ${#by[@]} -gt 0 ]; then
		by+=("$uid")
	else
		by=(setpriv --reuid "$uid" --regid "$uid" --clear-groups)
	fi
	WHO=("${by[@]}" env LD_PRELOAD="$(preload "$LIB")" XSHIM_PLANES=shm XSHIM_POLICY=eager
		XSHIM_REPORT="$REPORT" XSHIM_STATS_DIR="$DIR" XSHIM_LOG=warn
		XSHIM_LOG_FILE="$DIR/log.%p" "$@")
}

# serve UID [SANDBOX...]: an echo server.
serve() {
	as_user "$@" -- python3 "$TESTS/apps/echo.py" serve 127.0.0.1 "$PORT"
	start "$DIR/serve" "${WHO[@]}"
	await_port "$PORT"
}

# A client that talks when it's told to: say WORD.
steady() {
	mkfifo "$DIR/words"
	as_user "$1" -- python3 "$TESTS/shm/steady.py" 127.0.0.1 "$PORT"
	"${WHO[@]}" <"$DIR/words" >"$DIR/steady" 2>"$DIR/steady.err" 3>&- &
	STEADY=$!
	exec 7>"$DIR/words"
	await_line "$DIR/steady" '^port '
	PEER=$(sed -n 's/^port //p' "$DIR/steady")
}

say() {
	echo "$1" >&7
	await_line "$DIR/steady" "^talked $1\$" || { cat "$DIR/steady.err" "$DIR"/log.*; return 1; }
}

hang_up() {
	exec 7>&-
	await_end "$STEADY"
}

# At least so many bytes went over shared memory.
moved() {
	local got
	got=$(jq -s '[.[] | .rx.bytes.shm, .tx.bytes.shm] | add // 0' "$REPORT")
	[ "$got" -ge "$1" ] || { echo "only $got bytes of shm" && cat "$REPORT" "$DIR"/log.*; return 1; }
}

# Not one of its directions was on shared memory, for this reason at the client.
stayed() {
	jq -c '[.program, .tx.reason, .tx.bytes, .rx.bytes]' "$REPORT"
	[ "$(jq -s '[.[] | .rx.bytes.shm, .tx.bytes.shm] | add // 0' "$REPORT")" = 0 ]
	[ "$(jq -s --arg why "$1" '[.[] | select(.role == "connected" and .tx.reason == $why)] |
		length' "$REPORT")" -gt 0 ]
}

@test "two programs of different users need no rule" {
	serve $OTHER
	steady 0
	say one
	hang_up
	moved 100000
}

@test "another user can't ask for a connection, and its nonsense is its own" {
	serve 0
	steady 0
	say one
	run "$HOSTILE" $OTHER forge "$PORT" "$PEER"
	echo "$output"
	[ "$output" = "answered untrusted" ]
	say two
	# A tuple that there isn't.
	run "$HOSTILE" $OTHER forge "$PORT" 1
	echo "$output"
	[ "$output" = "answered tuple" ]
	run "$HOSTILE" $OTHER offers "$PORT"
	echo "$output"
	[ "$output" = "done" ]
	say three
	run "$HOSTILE" $OTHER nonsense "$PORT"
	echo "$output"
	[ "$output" = "done" ]
	say four
	hang_up
	moved 500000
}

@test "the connection's own user may ask for it, as it may for anything of its process" {
	serve $OTHER
	steady $OTHER
	run "$HOSTILE" $OTHER forge "$PORT" "$PEER"
	echo "$output"
	[ "$output" != "answered untrusted" ]
}

@test "who has taken the name first is told nothing and stops nothing" {
	start "$DIR/squat" "$HOSTILE" $OTHER squat "$PORT"
	await_line "$DIR/squat" squatting
	serve 0
	steady 0
	say one
	await_line "$DIR/squat" 'sent kind' # HELLO
	say two
	hang_up
	cat "$DIR/squat"
	[ "$(grep -c 'sent kind' "$DIR/squat")" = "$(grep -c 'sent kind 1[56]$' "$DIR/squat")" ]
	stayed untrusted
}

@test "where netlink is refused /proc tells whose a connection is" {
	serve $OTHER "$SANDBOX"
	steady 0
	say one
	run "$HOSTILE" 23456 forge "$PORT" "$PEER"
	[ "$output" = "answered untrusted" ]
	hang_up
	moved 100000
}

@test "in a user namespace the users that it knows are known, others stay on TCP" {
	serve $OTHER "$SANDBOX" --userns
	steady $OTHER
	say one
	hang_up
	rm "$DIR/words"
	moved 100000
	: >"$REPORT"
	steady 23456
	say one
	run "$HOSTILE" 34567 forge "$PORT" "$PEER"
	[ "$output" = "answered userns" ]
	hang_up
	stayed userns
}

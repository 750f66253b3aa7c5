#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# rc when something is taken away: the device, the right to pin memory, the user. The streams go on
# over TCP.

load lib

setup() {
	need_plane
	begin_report
	cd "$BATS_TEST_TMPDIR" || return 1
	ADDR=$(app_address)
	PORT=$(free_port)
	DEVICE=$(basename /sys/class/infiniband/*)
	NETDEV=$(cat "/sys/class/infiniband/$DEVICE/ports/1/gid_attrs/ndevs/0")
}

teardown() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] || tail -n 20 ./*.log log 2>/dev/null || true
	exec 9>&-
	stop_all
	[ -e "/sys/class/infiniband/$DEVICE" ] || add_device
}

# --- helpers -------------------------------------------------------------------------------------

add_device() {
	rdma link add "$DEVICE" type rxe netdev "$NETDEV"
}

# A connection to the echo server that's used until 9 is closed. CLIENT is what runs it.
begin_client() {
	[ -p hold ] || mkfifo hold
	# shellcheck disable=SC2086 # several words
	EXEC="exec" shimmed ${CLIENT:-} python3 "$TESTS/apps/talk.py" "$ADDR" "$PORT" 3>&- <hold \
		>client.log 2>&1 &
	CLIENT_PID=$!
	STARTED+=("$CLIENT_PID")
	exec 9>hold
}

# The server, run by SERVER, and a client.
begin_talk() {
	# shellcheck disable=SC2086 # several words
	start server.log shimmed ${SERVER:-} python3 "$TESTS/apps/echo.py" serve "$ADDR" "$PORT"
	SERVER_PID=${STARTED[-1]}
	await_port "$PORT"
	begin_client
}

end_talk() {
	exec 9>&-
	await_end "$CLIENT_PID"
	grep 'all came' client.log
}

# The connection at one end: a condition on both its directions' reasons.
says() {
	moved "$1" "any((.rx.reason == \"$2\") and (.tx.reason == \"$2\"))"
}

on_tcp() {
	moved "$1" 'length > 0 and all(.rx.plane == "kernel" and .tx.plane == "kernel")'
}

# --- tests ---------------------------------------------------------------------------------------

@test "a device that's removed under 8 running streams takes no byte with it" {
	local cut=$BATS_TEST_TMPDIR/cut run
	XSHIM_TESTPLANE=cut_file=$cut ORACLE_SECONDS=300 "$TESTS/oracle/run" --plane rc --bare 1 \
		linkdeath removed 3>&- &
	run=$!
	STARTED+=("$run")
	until [ -e "$cut" ]; do
		kill -0 "$run" || { wait "$run"; return 1; }
		read -r -t 0.1 <> <(:) || true
	done
	rdma link delete "$DEVICE"
	rm "$cut"
	wait "$run"
}

@test "what was on a removed device goes on over TCP, what comes later uses its successor" {
	begin_talk
	await_moved "$CLIENT_PID" 'any(moves)'
	rdma link delete "$DEVICE"
	await "both ends are back on TCP" on_tcp "$CLIENT_PID"
	await "both ends are back on TCP" on_tcp "$SERVER_PID"
	add_device
	end_talk
	begin_client
	await_moved "$CLIENT_PID" 'any(moves)'
	end_talk
	stop_all
	proved 1000
}

@test "who may not pin memory stays on TCP and says so" {
	local who may_not='prlimit --memlock=65536'
	[ "$(id -u)" -ne 0 ] || may_not="setpriv --bounding-set=-ipc_lock $may_not"
	for who in both server client; do
		echo "may not: $who"
		begin_report
		PORT=$(free_port)
		[ $who = client ] && SERVER='' || SERVER=$may_not
		[ $who = server ] && CLIENT='' || CLIENT=$may_not
		begin_talk
		await "the connecting end says why" says "$CLIENT_PID" memlock
		[ $who != server ] || await "so does the other" says "$SERVER_PID" memlock
		end_talk
		stop_all
		[ "$(plane_bytes)" = 0 ]
		[ "$(jq -s 'map(select(.rx.reason == "memlock")) | length' "$REPORT")" -gt 0 ]
	done
}

@test "a server that becomes another user is found again" {
	begin_talk
	await_moved "$SERVER_PID" 'any(moves)'
	kill -USR1 "$SERVER_PID"
	await "the server says why" says "$SERVER_PID" setid
	await "the client is back" on_tcp "$CLIENT_PID"
	end_talk
	begin_client
	await_moved "$CLIENT_PID" 'any(moves)'
	end_talk
}

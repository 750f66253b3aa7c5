# SPDX-License-Identifier: MIT
# Helpers of the bats files: one body for all planes, things that are started are stopped.
# shellcheck shell=bash

# shellcheck disable=SC2034 # the bats files use it
TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(dirname "$TESTS")
export BUILD=${BUILD:-$ROOT/build}
[[ $BUILD == /* ]] || BUILD=$ROOT/$BUILD
XSHIM=$BUILD/xshim
LIB=$BUILD/libxshim.so
TEST_LIB=$BUILD/test/libxshim.so

# The plane of a bats file: by its own name, or what the caller wants.
plane() {
	case ${BATS_TEST_FILENAME##*/} in
	1*) echo kernel ;;
	20* | 4*) echo test ;;
	2[5-9]*) echo shm ;;
	3*) echo rc ;;
	*) echo "${XSHIM_TEST_PLANE:-kernel}" ;;
	esac
}

library_of() {
	[ "$1" = test ] && echo "$TEST_LIB" || echo "$LIB"
}

has_rdma() {
	compgen -G '/sys/class/infiniband/*' >/dev/null
}

# Skips where the plane can't exist on this machine; a missing library is a failure.
need_plane() {
	local p
	p=$(plane)
	if [ "$p" = rc ] && ! has_rdma; then
		skip "no RDMA device on this machine"
	fi
	[ -e "$(library_of "$p")" ] || { echo "no library $(library_of "$p")" && return 1; }
}

need() {
	local program
	for program in "$@"; do
		PATH=$PATH:/usr/sbin command -v "$program" >/dev/null ||
			skip "$program isn't installed"
	done
}

# One behaviour: bare against shimmed on this file's plane.
same_as_kernel() {
	need_plane
	"$TESTS/oracle/run" --plane "$(plane)" "$@"
}

# --- processes -----------------------------------------------------------------------------------

# Starts a program in the background; stop_all ends exactly what was started here.
STARTED=()
start() {
	local out=$1
	shift
	[ "$1" = shimmed ] || set -- exec "$@"
	# The number must be the program's own, not that of a shell around it.
	EXEC="exec" "$@" >"$out" 2>&1 3>&- </dev/null &
	STARTED+=($!)
}

stop_all() {
	local pid left=0
	for pid in ${STARTED[@]+"${STARTED[@]}"}; do
		kill "$pid" 2>/dev/null || continue
		# A server that won't end in time is killed, or the test would hang.
		timeout 60 tail --pid="$pid" -f /dev/null || { kill -9 "$pid" && left=1; }
		wait "$pid" 2>/dev/null || true
	done
	STARTED=()
	[ $left -eq 0 ] || { echo "a program didn't end within 60 s of SIGTERM" && return 1; }
}

# Waits until one of them has ended by itself.
await_end() {
	timeout 60 tail --pid="$1" -f /dev/null || { echo "process $1 doesn't end" && return 1; }
	wait "$1"
}

free_port() {
	python3 -c 'import socket
s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
}

# await WHAT COMMAND...: until the command succeeds. The bound is for what never comes: no slow
# machine may reach it.
await() {
	local what=$1 until=$((SECONDS + 60))
	shift
	while ! "$@"; do
		[ $SECONDS -lt $until ] || { echo "in vain: $what" >&2 && return 1; }
		read -r -t 0.02 <> <(:) || true
	done
}

listening() {
	grep -q "$(printf ':%04X ' "$1")[0-9A-F]*:0000 0A " /proc/net/tcp /proc/net/tcp6
}

# Waits until somebody listens, without connecting.
await_port() {
	await "somebody listens on port $1" listening "$1"
}

# Waits until a file has a line that matches.
await_line() {
	await "a line '$2' in $1" grep -qs -- "$2" "$1" || { cat "$1" >&2 && return 1; }
}

# --- running under the library -------------------------------------------------------------------

# What is preloaded for a library: a sanitizer's run time belongs to it (scripts/san-env).
preload() {
	echo "${XS_PRELOAD_FIRST:+$XS_PRELOAD_FIRST:}$1${XS_PRELOAD_LAST:+:$XS_PRELOAD_LAST}"
}

# Where both ends of an application meet: rdma_cm has no route over lo.
app_address() {
	local dev
	if [ "$(plane)" = rc ]; then
		dev=$(cat /sys/class/infiniband/*/ports/1/gid_attrs/ndevs/0 | head -1)
		ip -4 -o addr show dev "$dev" | awk '{ sub("/.*", "", $4); print $4; exit }'
	else
		echo 127.0.0.1
	fi
}

# shimmed PROGRAM ARGS: on this file's plane, reporting to $REPORT. With BARE=1: without.
shimmed() {
	local p
	p=$(plane)
	if [ "${BARE:-0}" = 1 ]; then
		${EXEC:-} env "$@"
		return
	fi
	${EXEC:-} env LD_PRELOAD="$(preload "$(library_of "$p")")${LD_PRELOAD:+:$LD_PRELOAD}" \
		XSHIM_PLANES="$([ "$p" = kernel ] && echo rc || echo "$p")" \
		XSHIM_POLICY="$([ "$p" = kernel ] && echo off || echo eager)" \
		XSHIM_TRUST="${XSHIM_TRUST:-0.0.0.0/0,::/0}" XSHIM_REPORT="$REPORT" \
		XSHIM_STATS_DIR="${STATS_DIR:-$BATS_TEST_TMPDIR}" \
		XSHIM_LOG="${XSHIM_LOG:-warn}" XSHIM_LOG_FILE="$BATS_TEST_TMPDIR/log" "$@"
}

# Bytes of all reported connections on the file's plane; with a program's name: what it has sent.
plane_bytes() {
	jq -s --arg plane "$(plane)" --arg name "${1:-}" '[.[] |
		(if $name == "" then .rx, .tx else select(.program == $name) | .tx end) |
		.bytes | to_entries[] |
		select(if $plane == "test" then .key != "kernel" else .key == $plane end) |
		.value] | add // 0' "$REPORT"
}

# moved PID CONDITION: holds for the list of the process's connections. moves: it sends on the file's
# plane, will with its next byte, or did until it stalled; fast: the bytes that travelled there.
moved() {
	local names='def moves: .tx.upgrades > 0 or .tx.state == "ready";
		def fast: [.rx.bytes, .tx.bytes | del(.kernel) | add] | add;'
	XSHIM_STATS_DIR=${STATS_DIR:-$BATS_TEST_TMPDIR} "$XSHIM" stat --json "$1" 2>/dev/null |
		jq -es "$names $2" >/dev/null
}

# Waits for that. A test that needs a stream on the plane at some moment asks for it here, as how
# long that takes is the machine's affair. A bare run, or one on TCP, has nothing to wait for.
await_moved() {
	[ "${BARE:-0}" != 1 ] && [ "$(plane)" != kernel ] || return 0
	await "process $1 on plane $(plane): $2" moved "$@" || {
		XSHIM_STATS_DIR=${STATS_DIR:-$BATS_TEST_TMPDIR} "$XSHIM" stat --json "$1" >&2
		return 1
	}
}

# The proof that a run was where it says: at least so many bytes, in the report, or sent by one
# program.
proved() {
	local got
	[ "$(plane)" != kernel ] || return 0
	got=$(plane_bytes "${2:-}")
	if [ "$got" -lt "$1" ]; then
		echo "only $got bytes ${2:+that $2 sent }travelled on plane $(plane), expected $1"
		jq -c '[.program, .local, .peer, .rx, .tx]' "$REPORT" | head -5
		[ ! -s "$BATS_TEST_TMPDIR/log" ] || tail -5 "$BATS_TEST_TMPDIR/log"
		return 1
	fi
}

begin_report() {
	REPORT=$BATS_TEST_TMPDIR/report
	: >"$REPORT"
}

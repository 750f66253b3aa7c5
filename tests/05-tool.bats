#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The xshim command. A small process of the unit tests publishes connections that nobody has.

bats_require_minimum_version 1.5.0
load lib

setup() {
	export XSHIM_STATS_DIR=$BATS_TEST_TMPDIR/stats
	mkdir "$XSHIM_STATS_DIR"
}

teardown() {
	stop_all
	[ -z "${PUBLIC:-}" ] || rm -r "$PUBLIC"
}

# A process with two connections; what is written to descriptor 9 are its orders.
serve() {
	mkfifo "$BATS_TEST_TMPDIR/orders"
	exec 9<>"$BATS_TEST_TMPDIR/orders"
	"$BUILD/tests/unit/stats" serve "$XSHIM_STATS_DIR" <&9 >"$BATS_TEST_TMPDIR/out" 3>&- 9>&- &
	PID=$!
	STARTED+=("$PID")
	await_line "$BATS_TEST_TMPDIR/out" ready
}

state_file() {
	compgen -G "$XSHIM_STATS_DIR/xshim.*.$1.*"
}

# patch OFFSET BYTES: in the state file of the process.
patch() {
	printf '%b' "$2" | dd of="$(state_file "$PID")" bs=1 seek="$1" conv=notrunc status=none
}

compiled() {
	printf 'int main(void) { return 5; }\n' | gcc -xc - -o "$BATS_TEST_TMPDIR/program" "$@"
}

# --- run -----------------------------------------------------------------------------------------

@test "run gives the program its options as configuration" {
	run -0 "$XSHIM" run --planes rc --policy=eager --trust 10.0.0.0/8,subnet --log info -- env
	[[ $output == *XSHIM_PLANES=rc* ]]
	[[ $output == *XSHIM_POLICY=eager* ]]
	[[ $output == *XSHIM_TRUST=10.0.0.0/8,subnet* ]]
	[[ $output == *XSHIM_LOG=info* ]]
}

@test "run leaves the program's own options alone" {
	run -0 "$XSHIM" run echo --policy no -n
	[ "$output" = "--policy no -n" ]
	run -0 "$XSHIM" run --policy off echo -- --help
	[ "$output" = "-- --help" ]
}

@test "run preloads the library in front of others" {
	local other
	other=$BATS_TEST_TMPDIR/other.so
	printf 'int nothing;' | gcc -shared -fPIC -xc - -o "$other"
	LD_PRELOAD=$other run -0 "$XSHIM" run env
	[[ $output == *"LD_PRELOAD=$(realpath "$LIB"):$other"* ]]
	run -0 "$XSHIM" run sh -c 'grep -c libxshim.so /proc/$$/maps'
}

@test "run refuses values that the library wouldn't understand" {
	run -125 "$XSHIM" run --policy sometimes true
	[[ $output == *"bad value 'sometimes' for --policy"* ]]
	run -125 "$XSHIM" run --planes warp true
	run -125 "$XSHIM" run --trust everyone true
	run -125 "$XSHIM" run --log loud true
	run -125 "$XSHIM" run --log
	[[ ${lines[0]} == "xshim: option '--log' requires an argument" ]]
	run -125 "$XSHIM" run
}

@test "run gives the program's exit status, and 126 and 127 as env does" {
	run -7 "$XSHIM" run sh -c 'exit 7'
	run -127 "$XSHIM" run no-such-program
	[[ $output == *"no-such-program: No such file"* ]]
	run -127 "$XSHIM" run /no/such/program
	run -126 "$XSHIM" run /etc/passwd
	run -126 "$XSHIM" run /
}

@test "a static program is told of and runs without the library" {
	compiled -static
	run -5 --separate-stderr "$XSHIM" run "$BATS_TEST_TMPDIR/program"
	[[ ${stderr:-} == "xshim: $BATS_TEST_TMPDIR/program is statically linked: it runs without the shim" ]]
	PATH=$BATS_TEST_TMPDIR:$PATH run -5 --separate-stderr "$XSHIM" run program
	[[ ${stderr:-} == *"program is statically linked"* ]]
}

@test "a script is judged by its interpreter" {
	compiled -static
	printf '#! %s -x\n' "$BATS_TEST_TMPDIR/program" >"$BATS_TEST_TMPDIR/script"
	chmod +x "$BATS_TEST_TMPDIR/script"
	run -5 "$XSHIM" run "$BATS_TEST_TMPDIR/script"
	[[ $output == *"script is statically linked"* ]]
	printf '#!/bin/sh\necho "$LD_PRELOAD"\n' >"$BATS_TEST_TMPDIR/script"
	run -0 "$XSHIM" run "$BATS_TEST_TMPDIR/script"
	[ "$output" = "$(realpath "$LIB")" ]
}

@test "a program of musl is told of" {
	compiled -Wl,--dynamic-linker=/lib/ld-musl-none.so.1
	run -127 "$XSHIM" run "$BATS_TEST_TMPDIR/program"
	[[ ${lines[0]} == *"program uses musl"*"runs without the shim" ]]
}

@test "a set-user-id program is told of" {
	[ "$(id -u)" -eq 0 ] || skip "needs root to make one"
	compiled
	chown nobody "$BATS_TEST_TMPDIR/program"
	chmod 4755 "$BATS_TEST_TMPDIR/program"
	run -5 "$XSHIM" run "$BATS_TEST_TMPDIR/program"
	[[ $output == *"program gets rights of its own"* ]]
	chown root "$BATS_TEST_TMPDIR/program"
	chmod 4755 "$BATS_TEST_TMPDIR/program"
	run -5 "$XSHIM" run "$BATS_TEST_TMPDIR/program"
	[ -z "$output" ]
}

# --- stat ----------------------------------------------------------------------------------------

@test "stat shows each connection, where its bytes go, and why" {
	serve
	run -0 "$XSHIM" stat
	[ ${#lines[@]} -eq 3 ]
	[ "$(tr -s ' ' <<<"${lines[0]}")" = \
		"PID PROGRAM FD LOCAL PEER IN OUT WHY RX-KERN RX-FAST TX-KERN TX-FAST SWITCHES" ]
	[ "$(tr -s ' ' <<<"${lines[1]}")" = \
		"$PID stats 7 10.0.0.1:5001 10.0.0.2:6379 kernel rc policy/- 0 0 65536 4.7G 3" ]
	[ "$(tr -s ' ' <<<"${lines[2]}")" = \
		"$PID stats 8 [2001:db8::1]:5001 [2001:db8::2]:6379 kernel kernel no-shim 0 0 0 0 0" ]
}

@test "stat --json tells the same exactly" {
	serve
	"$XSHIM" stat --json >"$BATS_TEST_TMPDIR/json"
	[ "$(jq -s length "$BATS_TEST_TMPDIR/json")" -eq 2 ]
	jq -es --argjson pid "$PID" '.[0] | .v == 1 and .pid == $pid and .program == "stats" and .fd == 7
		and .id == 5 and .local == "10.0.0.1:5001" and .peer == "10.0.0.2:6379"
		and .role == "connected" and .link == 1 and .wire == 1
		and .tx == {plane: "rc", state: "swd", epoch: 0, reason: null,
			bytes: {kernel: 65536, rc: 5000000000, shm: 0}, upgrades: 2, returns: 1}
		and .rx.reason == "policy" and .rx.plane == "kernel" and .rx.state == "kern"
		and (has("end") | not)' "$BATS_TEST_TMPDIR/json"
}

@test "stat finds a process by number and by name" {
	serve
	run -0 "$XSHIM" stat "$PID"
	[ ${#lines[@]} -eq 3 ]
	run -0 "$XSHIM" stat stats
	[ ${#lines[@]} -eq 3 ]
	run -1 --separate-stderr "$XSHIM" stat "$$"
	[ -z "$output" ]
	[[ ${stderr:-} == *"in a process $$"* ]]
	run -1 "$XSHIM" stat stat
	run -2 "$XSHIM" stat "$PID" 7
	run -2 "$XSHIM" stat --wrong
}

@test "stat without any process shows the head alone" {
	run -0 "$XSHIM" stat
	[ ${#lines[@]} -eq 1 ]
	run -0 "$XSHIM" stat --json
	[ -z "$output" ]
}

@test "a killed process's file goes at the next stat" {
	serve
	kill -9 "$PID"
	wait "$PID" || true
	[ -e "$(state_file "$PID")" ]
	run -0 "$XSHIM" stat
	[ ${#lines[@]} -eq 1 ]
	run ! state_file "$PID"
}

@test "a process that ends leaves no file" {
	serve
	[ -e "$(state_file "$PID")" ]
	echo end >&9
	await_end "$PID"
	run ! state_file "$PID"
}

@test "a program that went on by exec isn't shown any more" {
	serve
	echo x >&9
	await "it has become cat" grep -qx cat "/proc/$PID/comm"
	run -1 "$XSHIM" stat "$PID"
	run ! state_file "$PID"
}

@test "a file of an earlier process with the same number isn't taken for this one's" {
	serve
	cp "$(state_file "$PID")" "$XSHIM_STATS_DIR/xshim.$(id -u).$PID.12"
	run -0 "$XSHIM" stat
	[ ${#lines[@]} -eq 3 ]
	[ "$(state_file "$PID" | wc -l)" -eq 1 ]
}

@test "stat believes nothing that a file says" {
	serve
	patch 32 '\033[31m"\\\n\0'
	patch 12 '\377\377\377\377'
	patch 320 '\143\143\377\377\377\377'
	run -0 "$XSHIM" stat
	[[ $output != *$'\033'* ]]
	[ ${#lines[@]} -eq 3 ]
	[[ ${lines[1]} == *unknown* ]]
	"$XSHIM" stat --json | jq -es '.[0] | .program == "\u001b[31m\"\\\n" and .rx.plane == "unknown"
		and .rx.state == "unknown" and .rx.reason == "unknown"'
}

@test "stat takes a stranger's file for what it is" {
	local base
	serve
	base=$XSHIM_STATS_DIR/xshim.$(id -u)
	printf short >"$base.1.1"
	head -c 4096 /dev/zero >"$base.1.2"
	ln -s /etc/passwd "$base.1.3"
	mkfifo "$base.1.4"
	mkdir "$base.1.5"
	: >"$base.1.6.extra"
	: >"$base.-1.6"
	patch 8 '\377'
	run -0 "$XSHIM" stat
	[ ${#lines[@]} -eq 1 ]
	[ -L "$base.1.3" ] && [ -p "$base.1.4" ] && [ -d "$base.1.5" ] && [ -e "$base.1.6.extra" ]
	[ -e "$(state_file "$PID")" ]
}

@test "stat copes with a file that was cut" {
	serve
	truncate -s 500 "$(state_file "$PID")"
	run -0 "$XSHIM" stat
	[ ${#lines[@]} -eq 2 ]
	# The process itself must not touch its rows any more.
	kill -9 "$PID"
}

@test "a user sees his own programs only" {
	[ "$(id -u)" -eq 0 ] || skip "needs root to become another"
	# Where another user can look at all.
	PUBLIC=$(mktemp -d)
	export XSHIM_STATS_DIR=$PUBLIC/stats
	mkdir -m 755 "$XSHIM_STATS_DIR"
	chmod 755 "$PUBLIC"
	cp "$XSHIM" "$PUBLIC"
	serve
	run -0 setpriv --reuid=nobody --clear-groups env XSHIM_STATS_DIR="$XSHIM_STATS_DIR" \
		"$PUBLIC/xshim" stat
	[ ${#lines[@]} -eq 1 ]
	run -1 setpriv --reuid=nobody --clear-groups env XSHIM_STATS_DIR="$XSHIM_STATS_DIR" \
		"$PUBLIC/xshim" return "$PID"
	[ -e "$(state_file "$PID")" ]
}

@test "stat says when it can't write" {
	serve
	run -1 sh -c '"$0" stat >/dev/full' "$XSHIM"
	[[ $output == *"can't write"* ]]
}

# --- return --------------------------------------------------------------------------------------

@test "return moves one connection, or all, back to TCP" {
	serve
	run -0 "$XSHIM" return "$PID" 7
	[ -z "$output" ]
	"$XSHIM" stat --json | jq -es '.[0].tx.plane == "kernel" and .[0].tx.reason == "off"
		and .[1].tx.reason == "no-shim"'
	run -0 "$XSHIM" return "$PID"
	"$XSHIM" stat --json | jq -es 'all(.[]; .tx.reason == "off")'
}

@test "return says what is wrong" {
	serve
	run -2 "$XSHIM" return
	run -2 "$XSHIM" return me
	run -2 "$XSHIM" return 1 2 3
	run -2 "$XSHIM" return "$PID" -1
	run -1 "$XSHIM" return "$PID" 9
	[[ $output == *"process $PID has no TCP connection at descriptor 9"* ]]
	run -1 "$XSHIM" return $$
	[[ $output == *"no TCP connections under the shim in a process $$"* ]]
	echo deaf >&9
	XSHIM_RETURN_MS=0 run -1 "$XSHIM" return "$PID"
	[[ $output == *"process $PID doesn't answer"* ]]
}

@test "two returns at once are both answered" {
	serve
	"$XSHIM" return "$PID" &
	run -0 "$XSHIM" return "$PID" 8
	wait $!
}

# --- the command itself --------------------------------------------------------------------------

@test "the command tells its version and its use" {
	run -0 "$XSHIM" --version
	[[ ${lines[0]} =~ ^xshim\ [0-9.]+,\ wire\ [0-9]+$ ]]
	[ "${lines[1]}" = "library: $(realpath "$LIB")" ]
	run -0 "$XSHIM" --help
	[[ ${lines[0]} == "Usage: xshim run"* ]]
	run -0 "$XSHIM" run --help
	run -2 "$XSHIM"
	run -2 "$XSHIM" jump
	[[ ${lines[0]} == "xshim: unknown command 'jump'" ]]
}

@test "every page of the manual is well formed" {
	need man
	local page
	for page in "$ROOT"/src/man/*.[1-8]; do
		run -0 env LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page"
		# Only warnings are text here.
		[[ $output != *warning* ]]
	done
}

@test "installing brings the library, the command and the manual" {
	local root=$BATS_TEST_TMPDIR/root file
	env -u MAKEFLAGS -u MAKELEVEL make -s -C "$ROOT" BUILD="$BUILD" DESTDIR="$root" install
	for file in lib/libxshim.so bin/xshim include/xshim.h share/doc/xshim/shim.conf \
		share/man/man1/xshim.1 share/man/man5/shim.conf.5 share/man/man7/libxshim.7; do
		[ -s "$root/usr/local/$file" ]
	done
	[ -z "$(find "$root" -name '*.new')" ]
	run -0 "$root/usr/local/bin/xshim" run sh -c 'echo "$LD_PRELOAD"'
	[ "$(realpath "$output")" = "$root/usr/local/lib/libxshim.so" ]
}

@test "the manual has every key of the configuration and every reason" {
	local word
	while read -r word; do
		grep -q "^\.B.* $word\b" "$ROOT/src/man/shim.conf.5" || {
			echo "shim.conf.5 lacks $word" && false
		}
	done < <(sed -n 's/^\tKEY(\([a-z_]*\),.*/\1/p' "$ROOT/src/base/config.c")
	while read -r word; do
		grep -q "^\.B.*\b${word//-/\\\\-}\b" "$ROOT/src/man/libxshim.7" || {
			echo "libxshim.7 lacks $word" && false
		}
	done < <(sed -n 's/^XS_REASON([A-Z_]*, "\([a-z-]*\)".*/\1/p' "$ROOT/src/base/reasons.def")
}

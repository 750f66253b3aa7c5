#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The library in programs that it has nothing to do for: it's there, silent, and harms nobody.

bats_require_minimum_version 1.5.0
load lib

setup() {
	[ -e "$LIB" ] || { echo "no library $LIB" && return 1; }
	begin_report
}

preloaded() {
	LD_PRELOAD="$LIB" "$@"
}

# A program's output and exit status, bare and preloaded, must be equal.
same_output() {
	local bare shim bare_status=0 shim_status=0
	bare=$("$@" 2>&1) || bare_status=$?
	shim=$(preloaded "$@" 2>&1) || shim_status=$?
	[ "$bare_status" -eq "$shim_status" ] || { echo "status $bare_status, $shim_status" && return 1; }
	diff <(echo "$bare") <(echo "$shim")
}

@test "the library exports exactly the names of symbols.def" {
	diff <(sed -n 's/^XS_SYM(\([A-Za-z0-9_]*\).*/\1/p' "$ROOT/src/base/symbols.def" | LC_ALL=C sort -u) \
		<(nm -D --defined-only "$LIB" | awk '{ print $3 }' | LC_ALL=C sort -u)
}

@test "the library needs the C library only (B81)" {
	local other
	other=$(readelf -d "$LIB" | grep NEEDED | grep -vE 'lib(c|dl|pthread)\.so|ld-linux' || true)
	[ -z "$other" ] || { echo "$other" && return 1; }
}

@test "the library asks for no executable stack and no text relocations (B41)" {
	run ! grep -q TEXTREL <(readelf -d "$LIB")
	run ! grep -q 'GNU_STACK.*RWE' <(readelf -lW "$LIB")
}

@test "programs start, and echo, where no RDMA library is (B81, B82)" {
	local lib hide=''
	[ "$(id -u)" -eq 0 ] || skip "hiding libraries needs root"
	for lib in librdmacm librdmacm.so.1 libibverbs.so.1 libcap.so.2; do
		lib=$(ldconfig -p | awk -v l="$lib" '$1 == l { print $NF; exit }')
		[ -z "$lib" ] || hide+="mount --bind /dev/null $(readlink -f "$lib");"
	done
	unshare -m sh -ec "$hide LD_PRELOAD=$LIB /bin/true"
	unshare -m sh -ec "$hide exec $TESTS/oracle/run echo"
}

@test "programs in secure execution run without the library (B11)" {
	[ "$(id -u)" -eq 0 ] || skip "making a set-uid file needs root"
	cp "$BUILD/oracle/echo" "$BATS_TEST_TMPDIR/echo"
	chown nobody "$BATS_TEST_TMPDIR/echo"
	chmod 4755 "$BATS_TEST_TMPDIR/echo"
	chmod 755 "$BATS_TEST_TMPDIR"
	same_output "$BATS_TEST_TMPDIR/echo"
}

@test "a program may define every name that the library has inside (B04)" {
	nm "$LIB" | awk '$2 ~ /^[tTdDbB]$/ && $3 ~ /^xs_[A-Za-z0-9_]*$/ { print $3 }' | sort -u \
		>"$BATS_TEST_TMPDIR/names"
	[ "$(wc -l <"$BATS_TEST_TMPDIR/names")" -gt 20 ]
	{
		echo '#include <stdlib.h>'
		awk '{ print "void " $1 "(void) { abort(); }" }' "$BATS_TEST_TMPDIR/names"
		cat "$TESTS/apps/pair.c"
	} >"$BATS_TEST_TMPDIR/names.c"
	gcc -rdynamic -w -o "$BATS_TEST_TMPDIR/prog" "$BATS_TEST_TMPDIR/names.c"
	same_output "$BATS_TEST_TMPDIR/prog"
}

@test "a descriptor limit of a billion costs no memory (B10)" {
	local limit bare shim
	limit=$(cat /proc/sys/fs/nr_open)
	[ "$limit" -lt 1073741816 ] || limit=1073741816
	prlimit --nofile="$limit:$limit" true || limit=$(ulimit -Hn)
	[ "$limit" -gt 100000 ] || skip "the limit can't be raised above $limit here"
	gcc -w -o "$BATS_TEST_TMPDIR/pair" "$TESTS/apps/pair.c"
	bare=$(prlimit --nofile="$limit:$limit" "$BATS_TEST_TMPDIR/pair" --memory)
	shim=$(LD_PRELOAD=$LIB prlimit --nofile="$limit:$limit" "$BATS_TEST_TMPDIR/pair" --memory)
	echo "bare $bare KiB, shimmed $shim KiB"
	[ $((shim - bare)) -lt 16384 ]
}

@test "500 connections fit 1100 descriptors (B19)" {
	same_output prlimit --nofile=1100:1100 python3 "$TESTS/apps/many.py" 500
}

@test "debuggers and tracers work with the library in the environment (B16)" {
	local found=0
	if command -v gdb; then
		found=1
		preloaded gdb -nx -batch -ex run -ex quit --args /bin/true 2>&1 | tee /dev/stderr |
			grep -q 'exited normally'
	fi
	if command -v strace; then
		found=1
		preloaded strace -f -o "$BATS_TEST_TMPDIR/trace" /bin/true
	fi
	if command -v valgrind; then
		found=1
		preloaded valgrind -q --error-exitcode=9 /bin/true
	fi
	[ $found -eq 1 ] || skip "no gdb, strace or valgrind"
}

@test "allocators and sanitizers may be preloaded before and after (B28, B43)" {
	local name path pair
	gcc -w -o "$BATS_TEST_TMPDIR/pair" "$TESTS/apps/pair.c"
	export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
	for name in libasan.so libtsan.so libjemalloc.so.2 libtcmalloc.so.4 libmimalloc.so.2; do
		path=$(gcc -print-file-name=$name)
		[[ $path == */* ]] || path=$(ldconfig -p | awk -v n=$name '$1 == n { print $NF; exit }')
		[ -n "$path" ] && [ -e "$path" ] || continue
		path=$(readlink -f "$path")
		# A linker script isn't a library.
		head -c 4 "$path" | grep -q ELF || continue
		for pair in "$path:$LIB" "$LIB:$path"; do
			echo "# $pair"
			LD_PRELOAD=$pair timeout 60 "$BATS_TEST_TMPDIR/pair"
		done
	done
}

@test "an allocator may use descriptors and sockets before main (B42, B44, B78)" {
	gcc -w -shared -fPIC -o "$BATS_TEST_TMPDIR/early.so" "$TESTS/apps/early.c"
	gcc -w -o "$BATS_TEST_TMPDIR/pair" "$TESTS/apps/pair.c"
	LD_PRELOAD="$LIB:$BATS_TEST_TMPDIR/early.so" timeout 60 "$BATS_TEST_TMPDIR/pair"
	LD_PRELOAD="$BATS_TEST_TMPDIR/early.so:$LIB" timeout 60 "$BATS_TEST_TMPDIR/pair"
}

@test "shells and interpreters start and end silently (B50, B82)" {
	local shell
	for shell in sh dash bash zsh ksh 'busybox sh' mksh; do
		command -v "${shell%% *}" >/dev/null || continue
		# shellcheck disable=SC2086 # busybox takes its applet as a word
		same_output $shell -c 'echo one; (echo two; exit 3); echo $?; ls / | head -1; true'
	done
	same_output python3 -c 'print(1)'
	same_output perl -e 'print 1'
	same_output awk 'BEGIN { print 1 }'
}

@test "the library says nothing unless it's asked" {
	run -0 --separate-stderr env LD_PRELOAD="$LIB" "$BUILD/oracle/echo"
	[ -z "$stderr" ]
}

@test "a broken configuration does no harm" {
	printf 'planes = nonsense\n= 3\nwindow_max = -1\n\0\xff\nno equals\n' >"$BATS_TEST_TMPDIR/conf"
	XSHIM_CONF=$BATS_TEST_TMPDIR/conf XSHIM_POLL_US=many same_output "$BUILD/oracle/echo"
	XSHIM_CONF=/nowhere same_output "$BUILD/oracle/echo"
	XSHIM_CONF=/ XSHIM_STATS_DIR=/nowhere XSHIM_REPORT=/nowhere/report same_output "$BUILD/oracle/echo"
}

@test "a configuration's mistake is named by file and line when the log is on" {
	printf '# comment\nwindow_max = nonsense\n' >"$BATS_TEST_TMPDIR/conf"
	XSHIM_CONF=$BATS_TEST_TMPDIR/conf XSHIM_LOG=warn XSHIM_LOG_FILE=$BATS_TEST_TMPDIR/log \
		preloaded "$BUILD/oracle/echo"
	grep -q "$BATS_TEST_TMPDIR/conf:2" "$BATS_TEST_TMPDIR/log"
}

@test "the log says at info why a connection stays, planes that aren't there included" {
	export XSHIM_LOG=info XSHIM_LOG_FILE=$BATS_TEST_TMPDIR/log XSHIM_REPORT=$BATS_TEST_TMPDIR/report
	XSHIM_PLANES=test XSHIM_POLICY=eager preloaded "$BUILD/oracle/echo"
	grep -q 'fd=[0-9]* stays on the kernel: rule$' "$XSHIM_LOG_FILE"
	run -0 jq -r .rx.reason "$XSHIM_REPORT"
	[[ $output == *rule* && $output != *no-device* ]]
}

@test "a state file or a report that can't be written is named once in the log" {
	export XSHIM_LOG=warn XSHIM_LOG_FILE=$BATS_TEST_TMPDIR/log
	XSHIM_STATS_DIR=/nowhere XSHIM_REPORT=/nowhere/report preloaded "$BUILD/oracle/echo"
	grep '/nowhere/xshim.*: No such file or directory: xshim stat' "$XSHIM_LOG_FILE"
	[ "$(grep -c 'report: nothing is written to /nowhere/report: No such' "$XSHIM_LOG_FILE")" \
		= "$(sed -n 's/^xshim.\([0-9]*\). .*report:.*/\1/p' "$XSHIM_LOG_FILE" | sort -u | wc -l)" ]
	grep -q 'report: nothing' "$XSHIM_LOG_FILE"
}

@test "a mistake in the environment of xshim run is told once" {
	XSHIM_LOG=warn XSHIM_MODE=maybe run -0 "$XSHIM" run true
	[[ $output == "xshim["*"] warn XSHIM_MODE: bad value 'maybe': ignored" ]]
}

@test "xshim run gives its program's exit status, or its own" {
	run -0 "$XSHIM" run -- true
	run -7 "$XSHIM" run sh -c 'exit 7'
	run -127 "$XSHIM" run /no/such/program
	run -126 "$XSHIM" run /etc/passwd
	run -125 "$XSHIM" run --no-such-option true
	run -0 "$XSHIM" run env
	[[ $output == *LD_PRELOAD*libxshim.so* ]]
}

@test "xshim stat says what it knows" {
	export XSHIM_STATS_DIR=$BATS_TEST_TMPDIR
	run -0 "$XSHIM" stat
	[[ ${lines[0]} == PID*PROGRAM*FD*LOCAL*PEER*IN*OUT*WHY*SWITCHES ]]
	[ ${#lines[@]} -eq 1 ]
	run -1 "$XSHIM" stat 999999999
	run -2 "$XSHIM" stat --no-such-option
	run -0 "$XSHIM" --version
}

@test "a report line tells of each connection's end" {
	XSHIM_REPORT=$REPORT XSHIM_POLICY=off preloaded "$BUILD/oracle/echo" >/dev/null
	[ "$(jq -s length "$REPORT")" -eq 2 ]
	jq -es 'all(.[]; .end and .pid and .program == "echo" and .rx.plane == "kernel"
		and .rx.bytes.kernel > 200000 and .rx.reason == "off")' "$REPORT"
}

@test "no state file is left by a program that ended" {
	XSHIM_STATS_DIR=$BATS_TEST_TMPDIR/stats
	mkdir "$XSHIM_STATS_DIR"
	XSHIM_STATS_DIR=$XSHIM_STATS_DIR preloaded "$BUILD/oracle/echo"
	[ -z "$(ls "$XSHIM_STATS_DIR")" ]
}

# The README's list of what the library calls on TCP, as numbers.
library_calls() {
	sed -n '/^- \*\*A sandbox/,/^$/p' "$ROOT/README.md" | tr '\n' ' ' |
		sed 's/.*needs besides: \([^.]*\)\..*/\1/' | grep -o '`[a-z0-9_]*`' |
		sed 's/`\(.*\)`/__NR_\1/' | gcc -E -P -include sys/syscall.h - | grep -E '^[0-9]+$'
}

@test "a sandbox that kills at any call but the program's and the README's lets TCP be (B86)" {
	local numbers way
	gcc -w -o "$BATS_TEST_TMPDIR/sandbox" "$TESTS/apps/sandbox.c"
	mapfile -t numbers < <(library_calls)
	[ "${#numbers[@]}" -eq 20 ]
	for way in short long; do
		# The program's own list is right: nothing but it is called, bare.
		"$BATS_TEST_TMPDIR/sandbox" $way
		shimmed "$BATS_TEST_TMPDIR/sandbox" $way "${numbers[@]}"
		XSHIM_MODE=off preloaded "$BATS_TEST_TMPDIR/sandbox" $way
	done
	[ "$(wc -l <"$REPORT")" -ge 2 ]
}

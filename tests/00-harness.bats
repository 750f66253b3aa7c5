#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The tests' own tools: a runner that can't fail would prove nothing.

bats_require_minimum_version 1.5.0
load lib

# A build directory of our own, with the real programs and a library that we choose.
fake_build() {
	FAKE=$BATS_TEST_TMPDIR/build
	mkdir -p "$FAKE/test"
	ln -s "$BUILD/oracle" "$FAKE/oracle"
	printf '%s\n' "$1" | gcc -shared -fPIC -D_GNU_SOURCE -o "$FAKE/libxshim.so" -xc -
	cp "$FAKE/libxshim.so" "$FAKE/test/libxshim.so"
	printf '#!/bin/sh\nexit 1\n' >"$FAKE/xshim"
	chmod +x "$FAKE/xshim"
}

@test "the runner accepts a library that does nothing, on the kernel plane" {
	fake_build 'int nothing;'
	BUILD=$FAKE "$TESTS/oracle/run" echo
}

@test "the runner sees a library that answers wrongly" {
	fake_build '#include <sys/socket.h>
		#include <errno.h>
		int shutdown(int fd, int how) { (void)fd; (void)how; errno = EIO; return -1; }'
	BUILD=$FAKE run "$TESTS/oracle/run" cork
	[ "$status" -eq 1 ]
	[[ $output == *EIO* ]]
}

@test "the runner sees a library that loses bytes" {
	fake_build '#include <sys/syscall.h>
		#include <sys/socket.h>
		#include <unistd.h>
		ssize_t recv(int fd, void *b, size_t n, int f)
		{ ssize_t r = syscall(SYS_recvfrom, fd, b, n, f, 0, 0);
		  if (r > 1000) ((char *)b)[500] ^= 1; return r; }'
	BUILD=$FAKE run "$TESTS/oracle/run" echo
	[ "$status" -eq 1 ]
}

@test "the runner wants a proof that the plane was used" {
	fake_build 'int nothing;'
	BUILD=$FAKE run "$TESTS/oracle/run" --plane test echo
	[ "$status" -eq 1 ]
	[[ $output == *"only 0 bytes travelled on plane test"* ]]
}

@test "the runner says when the library is missing" {
	fake_build 'int nothing;'
	rm "$FAKE/libxshim.so"
	BUILD=$FAKE run "$TESTS/oracle/run" echo
	[ "$status" -eq 2 ]
	[[ $output == *"no library"* ]]
}

@test "the runner ends a program that hangs, with a message" {
	fake_build '#include <unistd.h>
		#include <sys/socket.h>
		int shutdown(int fd, int how) { (void)fd; (void)how; for (;;) pause(); }'
	# The bare runs have to come to their end in this time.
	ORACLE_SECONDS=10 BUILD=$FAKE run "$TESTS/oracle/run" cork
	[ "$status" -eq 1 ]
	[[ $output == *"no end within 10 s"* ]]
	[[ $output == *TIMEOUT* ]]
	run ! pgrep -f "$FAKE/oracle/cork"
}

@test "what a test started is gone after stop_all" {
	local pid
	BARE=1 start "$BATS_TEST_TMPDIR/out" shimmed tail -f /dev/null
	pid=${STARTED[0]}
	await "it's tail that runs" grep -q tail "/proc/$pid/comm"
	stop_all
	[ ! -e "/proc/$pid" ]
}

@test "lines that differ between bare runs aren't compared" {
	fake_build 'int nothing;'
	printf '#!/bin/sh\necho "# proof none"\necho same\necho $$\n' >"$BATS_TEST_TMPDIR/program"
	chmod +x "$BATS_TEST_TMPDIR/program"
	BUILD=$FAKE "$TESTS/oracle/run" "$BATS_TEST_TMPDIR/program"
}

@test "the transcripts' SHA-256 is the standard's" {
	local want
	want=$(printf '\257' | sha256sum | cut -c1-16)
	"$BUILD/oracle/echo" | grep -q "request: 1 bytes $want"
}

@test "every oracle program is used by a behaviour test" {
	local program
	for program in "$BUILD"/oracle/*; do
		[ -f "$program" ] || continue
		grep -q "same_as_kernel.* ${program##*/}\b" "$TESTS/oracle/behaviour.bats" ||
			grep -q "[[:space:]]${program##*/}\b" "$TESTS/40-failure.bats" || {
			echo "${program##*/} isn't used"
			return 1
		}
	done
}

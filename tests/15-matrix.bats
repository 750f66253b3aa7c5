#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# One end under the library, the other one plain: the stream stays on TCP, and neither can tell.
# (Both ends under it are 20-testplane.bats and 30-rdma.bats.)

load lib

# On every plane that this machine has a library for; without a device rc has to say so and stay.
one_end() {
	local planes=(rc) p
	[ ! -e "$TEST_LIB" ] || planes+=(test)
	[ -e "$LIB" ] || { echo "no library $LIB" && return 1; }
	for p in "${planes[@]}"; do
		"$TESTS/oracle/run" --plane "$p" --only "$@"
	done
}

for_both_ends() {
	one_end server "$@"
	one_end client "$@"
}

@test "a plain peer's echo is the same" {
	for_both_ends echo
}

@test "a plain peer sees no byte too many, and none too few" {
	for_both_ends --bare 1 stream 300000 7 10
	for_both_ends bigsend
}

@test "a plain peer's ends are the same" {
	for_both_ends halfclose
	for_both_ends linger0
	for_both_ends unread
	for_both_ends exitunsent exit
	for_both_ends killed sent
}

@test "a plain peer's waits are the same" {
	for_both_ends nonblock
	for_both_ends pollmasks
	for_both_ends epollmodes level
	for_both_ends epolledge
	for_both_ends epollthreads
}

@test "a plain peer's address is the same in both families" {
	for_both_ends families dual
	for_both_ends families mapped
}

@test "a plain peer may take over, pass on and fork" {
	for_both_ends forks use
	for_both_ends rights
	for_both_ends execs self
}

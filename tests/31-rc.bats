#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The rc carrier alone, with the tests' upper side (tests/rc): what link/carrier.h promises.

load lib

@test "the rc carrier connects, refuses, fails, closes and forks as its contract says" {
	has_rdma || skip "no RDMA device on this machine"
	run "$BUILD/tests/rc/rctest" "$(app_address rc)"
	echo "$output"
	[ "$status" = 0 ]
	[[ $output == *"ok 1 the rendezvous is open"* ]]
}

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The fuzzers, each for XS_FUZZ_SECONDS (60), as TAP. An input that ends one badly stays in
# BUILD/fuzz/found; `BUILD/fuzz/hostile FILE` runs it again. XS_SEED: where the random numbers begin.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
build=${BUILD:-build-fuzz}
seconds=${XS_FUZZ_SECONDS:-60}
seed=${XS_SEED:-$RANDOM}
found=$build/fuzz/found
corpus=$build/fuzz/corpus
stats=$(mktemp -d)
trap 'rm -rf "$stats"' EXIT
mkdir -p "$found" "$corpus"
export XSHIM_STATS_DIR=$stats
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# Our tables are mapped: LeakSanitizer doesn't look for pointers there.
export ASAN_OPTIONS=detect_leaks=0
number=0 failed=0

# result NAME LOG COMMAND...
result()
{
	local name=$1 log=$2 verdict=ok
	shift 2
	number=$((number + 1))
	"$@" >"$log" 2>&1 || { verdict='not ok' failed=1; }
	echo "$verdict $number $name"
	[ "$verdict" = ok ] || tail -n 60 "$log" | sed 's/^/# /'
}

# The epoll code against the bare kernel: the same operations, the same events.
epoll()
{
	local end=$((SECONDS + seconds)) at=$seed
	while [ "$SECONDS" -lt "$end" ]; do
		timeout 120 "$build/fuzz/epoll" "$at" 2 || return 1
		at=$((at + 2))
	done
}

hostile()
{
	local i
	# Something to begin with, or libFuzzer takes long to come to whole conversations.
	for i in 1 2 3 4 5 6 7 8; do
		[ -e "$corpus/begin$i" ] || head -c $((i * 60)) /dev/urandom >"$corpus/begin$i"
	done
	timeout $((seconds + 300)) "$build/fuzz/hostile" -timeout=60 -rss_limit_mb=4096 \
		-max_len=600 -len_control=0 -seed="$seed" -max_total_time="$seconds" \
		-artifact_prefix="$found/" "$corpus"
}

for program in epoll hostile; do
	[ -x "$build/fuzz/$program" ] || { echo "not ok no $build/fuzz/$program"; exit 1; }
done
result "epoll answers as the kernel, seed $seed" "$build/fuzz/epoll.log" epoll
result "a hostile peer does no harm, seed $seed" "$build/fuzz/hostile.log" hostile
awk '/waits compared/ { waits += $1 } /^Done .* runs/ { inputs += $2 } /^[0-9]+ inputs/ { inputs += $1 }
	END { printf "# %d waits compared, %d hostile inputs\n", waits, inputs }' "$build"/fuzz/*.log
echo "1..$number"
exit $failed

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The oracle programs' own soundness, as TAP: each one's transcript is the same in many bare runs.
# A program that isn't stable bare can't judge the library. check.sh [RUNS]
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
build=${BUILD:-build}
runs=${1:-4}
[ -z "${XS_FULL:-}" ] || runs=20
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Programs whose arguments make different behaviours; the others have one.
variants() {
	case $1 in
	linger0) echo recv send error ;;
	killed) echo idle sent ;;
	exitreply) echo exit close ;;
	exitunsent) echo exit _exit quick_exit return close ;;
	sigpipe) echo shut closed reset ;;
	orphans) echo unread early killed late stolen raw ;;
	unread) echo none rd wr late ;;
	eintr) echo recv read recvmsg timed-recv send accept poll ppoll select epoll ;;
	jumps) echo recv poll epoll ;;
	masks) echo ppoll pselect epoll_pwait epoll_pwait2 ;;
	epollmodes) echo level edge oneshot edgeshot ;;
	epollconnect) echo level edge ;;
	forks) echo idle use heir exit ;;
	execs) echo self child foreign failed vfork passed threads ;;
	heirs) echo leave exec grandchild orphaned own pending reset full killed gone flood early ;;
	children) echo poll epoll closeall raw clone daemon half serial nonblock select \
		ownset sweep stdio asks ;;
	rights) echo other keep self flood ;;
	inherited) echo exec passed ;;
	files) echo sendfile splice stdio ;;
	oneloop) echo loop threads ;;
	families) echo six dual mapped ;;
	stream) echo 100000 ;;
	*) echo - ;;
	esac
}

stable() {
	local i args=("$2")
	[ "$2" != - ] || args=()
	for ((i = 0; i < runs; i++)); do
		env -u LD_PRELOAD timeout -k 2 60 "$1" "${args[@]}" >"$out/$i" 2>&1 || return 1
		diff "$out/0" "$out/$i" || return 1
	done
	! grep -E 'DIED|in vain|^TIMEOUT' "$out/0"
}

number=0 failed=0
for program in "$build"/oracle/*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	for variant in $(variants "${program##*/}"); do
		number=$((number + 1)) result=ok
		text=$(stable "$program" "$variant") || { result='not ok' && failed=1; }
		echo "$result $number bare: ${program##*/} ${variant#-}"
		[ "$result" = ok ] || printf '%s\n' "$text" | sed 's/^/# /'
	done
done
echo "1..$number"
exit $failed

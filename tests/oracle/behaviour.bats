#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The behaviours that must be the kernel's on every plane. The plane is the one of the link's name:
# 12-oracle.bats (kernel), 20-testplane.bats (test), 25-shm.bats (shm), 30-rdma.bats (rc).

load lib

setup() {
	need_plane
}

@test "an echo gives back messages of every size" {
	same_as_kernel echo
}

@test "calls that would block say so, and a full stream loses nothing" {
	same_as_kernel nonblock
}

@test "peeking takes nothing, truncation throws away" {
	same_as_kernel peek
}

@test "MSG_WAITALL waits for all, or for the end" {
	same_as_kernel waitall
}

@test "lengths of zero and bad pointers do no harm (B26)" {
	same_as_kernel zerolen
}

@test "1024 pieces are one write, and positions are refused" {
	same_as_kernel iov
}

@test "every output field of recvmsg is what the kernel sets (B57)" {
	same_as_kernel msghdr
}

@test "recvmmsg and sendmmsg work on a stream" {
	same_as_kernel mmsg
}

@test "fortified programs reach the same bytes" {
	same_as_kernel fortify
}

@test "each side may end its direction while the other goes on" {
	same_as_kernel halfclose
}

@test "a read side that's shut is at its end, a wrong shutdown is refused" {
	same_as_kernel shutrd
}

@test "a reset by linger 0 is seen in reads, writes and SO_ERROR" {
	same_as_kernel linger0 recv
	same_as_kernel linger0 send
	same_as_kernel linger0 error
}

@test "a close that lingers sleeps until the peer's kernel has all" {
	local how
	for how in little full signal; do
		same_as_kernel lingers $how
	done
}

@test "closing with unread bytes resets the peer" {
	local how
	for how in "" rd wr late; do
		# shellcheck disable=SC2086 # none is no argument
		same_as_kernel unread $how
	done
}

@test "a killed peer's stream ends" {
	same_as_kernel killed idle
	same_as_kernel killed sent
}

@test "a process that ends leaves no byte behind" {
	local how
	for how in exit _exit quick_exit return close; do
		same_as_kernel exitunsent $how
	done
}

@test "threads that write while the process exits don't change its end" {
	same_as_kernel exitwriting
}

@test "nothing of a closed connection is left once its peer is done with it" {
	local how
	for how in unread early killed late raw; do
		same_as_kernel orphans $how
	done
}

@test "a number that somebody else has taken isn't closed" {
	same_as_kernel orphans stolen
}

@test "a server that ends after a request leaves its whole reply behind" {
	same_as_kernel exitreply exit
	same_as_kernel exitreply close
}

@test "writing to an end gives EPIPE, and SIGPIPE unless it's unwanted" {
	same_as_kernel sigpipe shut
	same_as_kernel sigpipe closed
}

@test "a reset is told before EPIPE is" {
	same_as_kernel sigpipe reset
}

@test "timeouts of reads and writes end them with EAGAIN" {
	same_as_kernel timeo
}

@test "a signal interrupts a sleeping read or write, or restarts it (B35, B38)" {
	local call
	for call in recv read recvmsg timed-recv; do
		same_as_kernel eintr $call
	done
}

@test "a signal interrupts a write that sleeps, or restarts it (B35, B38)" {
	# A full window isn't full for long: a stalled writer goes to the kernel, which takes more. So
	# the program's "full" is the kernel plane's only.
	[ "$(plane)" = kernel ] || skip "a stalled stream moves to the kernel, by design"
	same_as_kernel eintr send
}

@test "a signal interrupts a wait, or restarts accept (B20, B38)" {
	local call
	for call in accept poll ppoll select epoll; do
		same_as_kernel eintr $call
	done
}

@test "threads that are cancelled in sleeping calls leave nothing behind" {
	same_as_kernel cancels
}

@test "a handler may jump out of a sleeping call (B31)" {
	local call
	for call in recv poll epoll; do
		same_as_kernel jumps $call
	done
}

@test "a wait's signal mask holds during the wait only" {
	local call
	for call in ppoll pselect epoll_pwait epoll_pwait2; do
		same_as_kernel masks $call
	done
}

@test "waits without an event last their time (B64)" {
	same_as_kernel waits
}

@test "poll answers as the kernel in every state" {
	same_as_kernel pollmasks
}

@test "poll that asks for nothing reports nothing (B34)" {
	same_as_kernel pollzero
}

@test "a full stream isn't writable until its peer reads" {
	same_as_kernel pollfull
}

@test "select and pselect answer as the kernel" {
	same_as_kernel selects
}

@test "epoll reports by level, by edge and once (B56, B69)" {
	local mode
	for mode in level edge oneshot edgeshot; do
		same_as_kernel epollmodes $mode
	done
}

@test "an edge-triggered writer gets exactly one edge" {
	same_as_kernel epolledge
}

@test "a return to TCP is no edge to a writer that was never full" {
	same_as_kernel epollback
}

@test "a descriptor may be in several sets, and sets in sets (B07, B67)" {
	same_as_kernel epollsets
}

@test "a set may mix all kinds of descriptors, with few slots a wait" {
	same_as_kernel epollmixed
}

@test "a descriptor may enter its set before it's connected (B08)" {
	same_as_kernel epollconnect level
	same_as_kernel epollconnect edge
}

@test "threads may share a set, and change it under a sleeper (B39)" {
	same_as_kernel epollthreads
}

@test "an event loop may take its socket out and put it back for each message" {
	same_as_kernel epchurn
}

@test "a set may be changed by dozens between two waits, by threads, and by handlers that jump" {
	local how
	for how in random forks threads jumps; do
		same_as_kernel epnotes $how
	done
}

@test "what came while a socket was out of its set is reported when it's put back" {
	same_as_kernel epaside
}

@test "FIONREAD, SIOCOUTQ and names are the kernel's" {
	same_as_kernel ioctls
}

@test "socket options are read back as they were set" {
	same_as_kernel sockopts
}

@test "options that no plane can serve hold when they were set beforehand" {
	same_as_kernel beforehand listener
	same_as_kernel beforehand dialler
}

@test "recvmsg tells how much more there is (TCP_INQ)" {
	same_as_kernel inq
}

@test "timeouts, keepalive and counts of bytes are the program's own while a stream has moved" {
	same_as_kernel lent
}

@test "descriptor and status flags are read back as they were set (B53, B62)" {
	same_as_kernel flags
	same_as_kernel largefile
}

@test "SO_RCVLOWAT holds back reads and events" {
	same_as_kernel lowat
}

@test "urgent data is urgent" {
	same_as_kernel oob
}

@test "held back bytes come when they're let go" {
	same_as_kernel cork
}

@test "a server that holds back bytes in every answer moves" {
	local how
	for how in sendfile more long; do
		same_as_kernel corks $how
	done
}

@test "any duplicate of a descriptor is the connection" {
	same_as_kernel dups
}

@test "close_range and closefrom close connections (B73)" {
	same_as_kernel closerange
}

@test "low numbers belong to the program, and nothing leaks over exec (B29, B47)" {
	same_as_kernel lowfds
}

@test "a forked child may leave a connection alone, use it, or inherit it" {
	local how
	for how in idle use heir exit; do
		same_as_kernel forks $how
	done
}

@test "whoever inherits a connection, and however its owner goes, it works" {
	local how
	for how in leave exec grandchild orphaned own pending reset full killed gone flood early; do
		ORACLE_SECONDS=60 same_as_kernel heirs $how
	done
}

@test "however a child is made and uses a connection, it works" {
	local how
	for how in poll epoll closeall raw clone daemon half serial nonblock select \
		ownset sweep stdio asks; do
		same_as_kernel children $how
	done
}

@test "threads may fork while others talk" {
	ORACLE_SECONDS=120 same_as_kernel --bare 2 forkstorm
}

@test "a process that has forked closes without waiting for its peer" {
	ORACLE_SECONDS=60 same_as_kernel forkclose
}

@test "starting other programs leaves a connection as it is" {
	same_as_kernel spawns
}

@test "what a vfork child does with descriptors is its own affair" {
	same_as_kernel vforks
}

@test "a connection outlives exec" {
	local how
	for how in self child foreign failed vfork passed threads; do
		same_as_kernel execs $how
	done
}

@test "connections of a listener that somebody else made move as any others" {
	same_as_kernel inherited exec
	same_as_kernel inherited passed
}

@test "a program may become another user" {
	same_as_kernel setids server
	same_as_kernel setids client
}

@test "a connection may be passed to another process" {
	local how
	for how in other keep self flood; do
		same_as_kernel rights $how
	done
}

@test "sendfile, splice and stdio reach the stream" {
	local how
	for how in sendfile splice stdio; do
		same_as_kernel files $how
	done
}

@test "listeners forget reset connections and wake their sleepers (B02, B03)" {
	same_as_kernel listeners
}

@test "connect fails and succeeds as the kernel's" {
	same_as_kernel connects
}

@test "a socket may be connected to itself" {
	same_as_kernel selfconnect
}

@test "a process may be connected to itself, in one thread or two" {
	same_as_kernel oneloop loop
	same_as_kernel oneloop threads
}

@test "IPv6 and mapped addresses work (B05)" {
	local how
	for how in six dual mapped; do
		same_as_kernel families $how
	done
}

@test "eight mebibytes in one call arrive at a slow reader" {
	same_as_kernel bigsend
}

@test "lengths above an int are counted right (B54)" {
	same_as_kernel hugelen
}

@test "numbers of closed connections serve new ones (B37)" {
	same_as_kernel churn
}

@test "two threads may read one non-blocking socket (B15)" {
	same_as_kernel hammer
}

@test "random streams both ways are whole while the plane changes" {
	local rounds=20
	[ -z "${XS_FULL:-}" ] || rounds=1000
	ORACLE_SECONDS=$((60 + rounds)) same_as_kernel --bare 1 stream 300000 "${XS_SEED:-1}" $rounds
	ORACLE_SECONDS=60 same_as_kernel --bare 1 stream 5000000 "${XS_SEED:-1}" 2
}

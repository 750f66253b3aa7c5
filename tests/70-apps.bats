#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Real programs, each bare and then under the library on the plane that XSHIM_TEST_PLANE names
# (kernel when unset), with the report as the proof of where the bytes went.

load lib

setup() {
	need_plane
	begin_report
	cd "$BATS_TEST_TMPDIR" || return 1
	ADDR=$(app_address)
	PORT=$(free_port)
}

# What the programs said is shown where a test has failed.
teardown() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] ||
		tail -n 5 answer.* ./*.log log load subscriber 2>/dev/null || true
	stop_all
}

# The same body twice: its output is the answer, and must be the same.
both() {
	local mode
	for mode in 1 0; do
		# shellcheck disable=SC2034 # shimmed() reads it
		BARE=$mode
		echo "# $* $([ $mode = 1 ] && echo bare || echo "shimmed on $(plane)")"
		PORT=$(free_port)
		"$@" >"answer.$mode"
		stop_all
	done
	diff -u --label bare --label shimmed answer.1 answer.0
}

# The reader of a download, which may be over before it's on the plane otherwise: holds it in its
# midst until the server's next byte will go there.
held() {
	head -c 100000
	await_moved "$SERVER" 'any(moves and .tx.bytes.kernel >= 100000)'
	cat
}

# A file with bytes that nobody can guess, the same in both runs.
random_file() {
	[ -e "$1" ] || head -c "$2" /dev/urandom >"$1"
}

# --- redis ---------------------------------------------------------------------------------------

start_redis() {
	start redis.log shimmed redis-server --bind "$ADDR" --port "$PORT" --save '' \
		--dir "$BATS_TEST_TMPDIR" --protected-mode no "$@"
	SERVER=${STARTED[-1]}
	await_port "$PORT"
}

cli() {
	shimmed redis-cli -h "$ADDR" -p "$PORT" "$@"
}

redis_benchmark() {
	start_redis
	# Names of the tests only: how fast they are is another question.
	shimmed redis-benchmark -h "$ADDR" -p "$PORT" -n 2000 -c 20 --csv | cut -d, -f1
	shimmed redis-benchmark -h "$ADDR" -p "$PORT" -n 5000 -c 8 -P 16 -t get,set --csv | cut -d, -f1
	cli dbsize
}

redis_large_value() {
	random_file value 67108864
	start_redis
	cli -x set large <value
	cli strlen large
	{
		echo ping
		await_moved "$SERVER" 'any(moves)'
		echo get large
	} | cli --raw | head -c 67108864 | sha256sum
	cli append large tail
	cli getrange large 67108860 -1 | tail -c 4
}

redis_publish() {
	local i
	start_redis
	start subscriber shimmed redis-cli -h "$ADDR" -p "$PORT" subscribe channel
	await_line subscriber subscribe
	# It frees the subscriber from the kernel's recv(), where it keeps the stream on TCP.
	cli publish channel 'message 0'
	await_moved "$SERVER" 'any(moves)'
	for i in {1..20}; do
		cli publish channel "message $i"
	done
	await_line subscriber 'message 20'
	grep message subscriber
}

saved() {
	cli info persistence | grep -q rdb_bgsave_in_progress:0
}

redis_background_save() {
	local i load='(map(select(moves)) | length) >= 8'
	start_redis --enable-debug-command yes
	cli debug populate 20000 key 200
	# It never gets done: the load is there at both forks, however long they take.
	start load shimmed redis-benchmark -h "$ADDR" -p "$PORT" -n 100000000 -c 8 -t set -r 1000
	for i in 1 2; do
		# What has no channel at a fork stays on TCP for good; what has one goes on behind it.
		await_moved "$SERVER" "$load and (map(fast) | add) >= $i * 200000"
		cli bgsave
		await "the end of redis's save" saved
		cli info persistence | tr -d '\r' | grep rdb_last_bgsave_status
	done
	await_moved "$SERVER" "$load and (map(fast) | add) >= 600000"
	kill "${STARTED[-1]}"
	shimmed redis-benchmark -h "$ADDR" -p "$PORT" -n 2000 -c 8 -t set -r 1000 --csv | cut -d, -f1
	[ "$(head -c 5 dump.rdb)" = REDIS ] && echo dumped
}

@test "redis serves all of redis-benchmark's tests" {
	need redis-server redis-benchmark
	both redis_benchmark
	proved 1000000
}

@test "redis stores and returns a value of 64 MiB" {
	need redis-server
	both redis_large_value
	# A reader that gets no turn for 20 ms sends the rest back to TCP: the first window must do.
	proved 32768
}

@test "redis publishes to subscribers" {
	need redis-server
	both redis_publish
	proved 1000
}

@test "redis saves in a forked child under load" {
	need redis-server
	both redis_background_save
	proved 600000
}

# --- memcached -----------------------------------------------------------------------------------

memcached_sets_and_gets() {
	local user=()
	[ "$(id -u)" -ne 0 ] || user=(-u nobody)
	start memcached.log shimmed memcached "${user[@]}" -l "$ADDR" -p "$PORT" -U 0 -t 4 -m 64
	await_port "$PORT"
	shimmed python3 "$TESTS/apps/memcached.py" "$ADDR" "$PORT"
}

@test "memcached answers from many threads to many connections" {
	need memcached
	both memcached_sets_and_gets
	# It drops its privileges, which may keep a part of it on the kernel's plane.
	[ "$(id -u)" -eq 0 ] || proved 500000
}

# --- iperf3 --------------------------------------------------------------------------------------

iperf() {
	start iperf.log shimmed iperf3 -s -B "$ADDR" -p "$PORT" --forceflush
	await_port "$PORT"
	local options
	# The last one is slow enough to be on the plane for most of its time.
	for options in '' -R --bidir '-P 8' '-P 2 -l 100' '--bidir -b 100M'; do
		# shellcheck disable=SC2086 # several words
		shimmed iperf3 -c "$ADDR" -p "$PORT" -n 8M -J $options |
			jq -c '[.error, (.end.streams | length), .end.sum_sent.bytes > 1000000]'
		await_line iperf.log 'Server listening'
	done
}

@test "iperf3 moves bytes each way, both ways, in eight streams" {
	need iperf3
	both iperf
	proved 10000000
}

# --- nginx, curl, wrk ----------------------------------------------------------------------------

start_nginx() {
	mkdir -p www
	random_file www/large 60000000
	echo hello >www/small
	cat >nginx.conf <<-END
		daemon off;
		master_process off;
		pid nginx.pid;
		error_log nginx.log;
		events { worker_connections 256; }
		http {
			access_log off;
			sendfile ${1:-off};
			tcp_nopush ${2:-off};
			client_body_temp_path body;
			proxy_temp_path proxy;
			fastcgi_temp_path fastcgi;
			uwsgi_temp_path uwsgi;
			scgi_temp_path scgi;
			server { listen $ADDR:$PORT; root www; }
		}
	END
	PATH=$PATH:/usr/sbin start nginx.out shimmed nginx -p "$BATS_TEST_TMPDIR" -c nginx.conf
	SERVER=${STARTED[-1]}
	await_port "$PORT"
}

nginx_curl() {
	start_nginx "$@"
	shimmed curl -sS "http://$ADDR:$PORT/small"
	shimmed curl -sS "http://$ADDR:$PORT/large" | held | sha256sum
	shimmed curl -sS "http://$ADDR:$PORT/{small,large,small,large}" | sha256sum
	shimmed curl -sS -r 1000000-1000099 "http://$ADDR:$PORT/large" | sha256sum
	shimmed curl -sS -o /dev/null -w '%{http_code}\n' "http://$ADDR:$PORT/missing"
	shimmed curl -sS -o /dev/null -w '%{http_code}\n' -X POST --data-binary @www/large \
		"http://$ADDR:$PORT/small"
}

nginx_wrk() {
	start_nginx "$@"
	shimmed wrk -t2 -c20 -d2s "http://$ADDR:$PORT/small" >wrk.out
	grep -c 'Requests/sec' wrk.out
	grep -E 'Socket errors|Non-2xx' wrk.out || echo 'no errors'
}

@test "nginx serves curl, with and without sendfile" {
	need nginx curl
	both nginx_curl off
	both nginx_curl on
	proved 10000
	# It corks each answer, as Debian's nginx.conf has it.
	begin_report
	both nginx_curl on on
	proved 10000 nginx
}

@test "nginx serves wrk without an error" {
	need nginx wrk
	local how
	for how in 'on off' 'on on'; do
		begin_report
		# shellcheck disable=SC2086 # two words
		both nginx_wrk $how
		proved 100000 nginx
	done
}

# nginx's workers wait for connections so.
@test "what an exclusive listener accepts moves like any connection" {
	need python3
	exclusive() {
		start exclusive.log shimmed python3 "$TESTS/apps/exclusive.py" "$ADDR"
		await_line exclusive.log talking
		await_moved "${STARTED[-1]}" 'all(moves) and (map(fast) | add) >= 100000'
		kill "${STARTED[-1]}"
		await_end "${STARTED[-1]}"
		cat exclusive.log
	}
	both exclusive
	proved 100000
}

# --- haproxy, socat ------------------------------------------------------------------------------

haproxy_in_front() {
	local back=$PORT front
	start_nginx off
	front=$(free_port)
	cat >haproxy.cfg <<-END
		global
			maxconn 100
			nbthread 2
		defaults
			mode ${1}
			timeout connect 5s
			timeout client 20s
			timeout server 20s
		frontend front
			bind $ADDR:$front
			default_backend back
		backend back
			server one $ADDR:$back
	END
	PATH=$PATH:/usr/sbin start haproxy.log shimmed haproxy -db -f haproxy.cfg
	SERVER=${STARTED[-1]}
	await_port "$front"
	shimmed curl -sS "http://$ADDR:$front/small"
	shimmed curl -sS "http://$ADDR:$front/{large,small,large}" | held | sha256sum
}

socat_forks() {
	random_file data 2000000
	# A child per connection: the accepted descriptor is used in the child only.
	start socat.log shimmed socat "TCP-LISTEN:$PORT,bind=$ADDR,fork,reuseaddr" EXEC:cat
	await_port "$PORT"
	shimmed socat -t 20 - "TCP:$ADDR:$PORT" <data | sha256sum
	echo short | shimmed socat -t 20 - "TCP:$ADDR:$PORT"
}

socat_plain() {
	random_file data 2000000
	start socat.log shimmed socat -u "TCP-LISTEN:$PORT,bind=$ADDR" OPEN:copy,creat,trunc
	await_port "$PORT"
	shimmed socat -u OPEN:data "TCP:$ADDR:$PORT"
	await_end "${STARTED[-1]}"
	sha256sum <copy
}

@test "haproxy stands between curl and nginx" {
	need haproxy nginx curl
	both haproxy_in_front tcp
	both haproxy_in_front http
	proved 10000
}

@test "socat copies, in one process and in one for each connection" {
	need socat
	both socat_forks
	both socat_plain
}

# --- python --------------------------------------------------------------------------------------

python_http() {
	mkdir -p www
	random_file www/large 60000000
	start http.log shimmed python3 -m http.server --bind "$ADDR" --directory www "$PORT"
	SERVER=${STARTED[-1]}
	await_port "$PORT"
	shimmed curl -sS "http://$ADDR:$PORT/large" | held | sha256sum
	shimmed python3 -c "import urllib.request as u, hashlib
print(hashlib.sha256(u.urlopen('http://$ADDR:$PORT/large').read()).hexdigest())"
}

python_asyncio() {
	start echo.log shimmed python3 "$TESTS/apps/echo.py" serve "$ADDR" "$PORT"
	await_port "$PORT"
	shimmed python3 "$TESTS/apps/echo.py" talk "$ADDR" "$PORT"
}

@test "python serves files over HTTP" {
	need python3 curl
	both python_http
	proved 10000
}

@test "python's asyncio echoes over many connections" {
	need python3
	both python_asyncio
	proved 500000
}

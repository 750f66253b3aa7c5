/* SPDX-License-Identifier: MIT */
/*
 * Drives the rc carrier alone: two processes and an RDMA device. Prints one "ok" or "not ok" line
 * per claim and figures as "# " lines.
 *
 *   rctest ADDRESS [check | bench | lat]
 */
#include "base/clock.h"
#include "base/crit.h"
#include "base/log.h"
#include "link/link.h"
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures, number;

static void claim(bool ok, const char *what)
{
	printf("%sok %d %s\n", ok ? "" : "not ", ++number, what);
	fflush(stdout);
	if (!ok)
		failures++;
}

/* --- the server ------------------------------------------------------------------------------- */
static void do_listen(void *arg)
{
	struct sockaddr_storage bound = {.ss_family = AF_INET}, local = at_port(PORT);
	struct xs_rdv *r;

	((struct sockaddr_in *)&bound)->sin_port = htons(PORT);
	*(enum xs_reason *)arg = xs_rc_ops.listen(&bound, &local, &r);
}

static void report(void)
{
	uint64_t bytes = 0, wrong = 0, downs = 0, early = 0;

	for (unsigned i = 0; i < atomic_load(&peer_links_n); i++) {
		struct xs_link *l = &peer_links[i];

		bytes += atomic_load(&l->bytes);
		wrong += atomic_load(&l->wrong);
		downs += atomic_load(&l->down);
		early += atomic_load(&l->early);
	}
	atomic_store(&shared->bytes, bytes);
	atomic_store(&shared->wrong, wrong);
	atomic_store(&shared->downs, downs);
	atomic_store(&shared->early, early);
	atomic_store(&shared->links, atomic_load(&peer_links_n));
}

static void serve(void)
{
	static char copy[1 << 20];
	enum xs_reason why;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	peer_in_progress(do_listen, &why);
	if (why)
		printf("# listen: %s\n", xs_reason_name(why));
	atomic_store(&shared->listening, why ? -1 : 1);
	while (!atomic_load(&shared->quit)) {
		for (unsigned i = 0; i < atomic_load(&peer_links_n); i++)
			peer_links[i].copy_to = atomic_load(&shared->copy) ? copy : NULL;
		if (atomic_load(&shared->spin)) {
			struct xs_crit cs;

			xs_crit_enter(&cs);
			for (int i = 0; i < 200; i++) {
				xs_poll_once();
				sched_yield();
			}
			xs_crit_leave(&cs);
		} else {
			usleep(2000); /* the progress thread works */
		}
		report();
	}
	_exit(0);
}

/* --- claims ----------------------------------------------------------------------------------- */
static void check_attributes(struct xs_link *l)
{
	for (int i = 0; i < XS_LANES; i++) {
		struct ibv_qp_attr a;

		memset(&a, 0, sizeof(a));
		xs_verbs_qp_query(&l->c->lane[i], &a,
				  IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT |
					  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_PATH_MTU);
		printf("# lane %d: state %d rnr timer %d timeout %d retry %d rnr retry %d mtu %d\n",
		       i, a.qp_state, a.min_rnr_timer, a.timeout, a.retry_cnt, a.rnr_retry,
		       128 << a.path_mtu);
		claim(a.qp_state == IBV_QPS_RTS && a.min_rnr_timer == 12 && a.timeout == 14 &&
			      a.retry_cnt == 6 && a.rnr_retry == 6,
		      "the queue pair's times and counts are ours");
	}
}

static uint64_t hw_counter(const char *name)
{
	char path[256];
	unsigned long long v = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/rxe0/ports/1/hw_counters/%s", name);
	f = fopen(path, "r");
	if (f && fscanf(f, "%llu", &v) != 1)
		v = 0;
	if (f)
		fclose(f);
	return v;
}

static void check_counters(struct xs_link *l)
{
	struct xs_link_info a, b;

	xs_rc_ops.info(l->c, &a);
	for (int i = 0; i < 20000; i++)
		peer_send(l, XS_LANE_SMALL, DATA, 0, 0, "0123456789abcdef", 16,
			  i % 8 == 7 ? XS_POST_NOW : 0, true);
	xs_rc_ops.info(l->c, &b);
	printf("# posts %llu signalled %llu doorbells %llu rnr %llu hw rnr %llu regs %llu\n",
	       (unsigned long long)b.wire_posts, (unsigned long long)b.wire_signalled,
	       (unsigned long long)atomic_load(&l->c->lane[0].doorbells),
	       (unsigned long long)b.wire_rnr, (unsigned long long)hw_counter("rcvd_rnr_err"),
	       (unsigned long long)b.registrations);
	claim(b.wire_rnr == 0 && hw_counter("rcvd_rnr_err") == 0, "no receiver was ever not ready");
	claim(b.wire_signalled * 16 <= b.wire_posts, "at most one request in 16 is signalled");
	claim(a.registrations == b.registrations, "nothing is registered after warm-up");
}

static void break_qp(void *arg)
{
	xs_verbs_qp_error(&((struct xs_link *)arg)->c->lane[XS_LANE_BULK]);
}

static void *breaker(void *arg)
{
	usleep(30000);
	peer_in_progress(break_qp, arg);
	return NULL;
}

static void check_death(void)
{
	uint64_t downs = atomic_load(&shared->downs);
	enum xs_reason why;
	struct xs_link *l = dial(at_port(PORT), &why);
	pthread_t t;

	claim(l != NULL, "a second link comes up");
	if (!l)
		return;
	pthread_create(&t, NULL, breaker, l);
	stream(l, XS_LANE_BULK, 65504, 1 << 30, false, false, false);
	pthread_join(t, NULL);
	peer_wait(&l->down, false);
	claim(atomic_load(&l->why) == XS_R_LINK_LOST,
	      "a queue pair in error ends the link: link-lost");
	claim(atomic_load(&l->c->failed) && l->c->lane[0].last_wqe && l->c->lane[1].last_wqe,
	      "both queue pairs were drained before they were destroyed");
	for (int i = 0; i < 2000 && atomic_load(&shared->downs) == downs; i++)
		usleep(1000);
	claim(atomic_load(&shared->downs) == downs + 1, "the peer's end goes down as well");
	peer_in_progress(do_destroy, l);
}

static void check_refusals(void)
{
	static const enum xs_reason refusals[] = {XS_R_UNTRUSTED, XS_R_KEY, XS_R_NO_MEMORY};
	struct sockaddr_storage nowhere = at_port(PORT);
	enum xs_reason why;

	claim(!dial(at_port(PORT + 1), &why) && why == XS_R_NO_SHIM,
	      "nobody listens there: no-shim");
	((struct sockaddr_in *)&nowhere)->sin_addr.s_addr = htonl(0xc6336401); /* 198.51.100.1 */
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		shared->refuse = (int)refusals[i];
		claim(!dial(at_port(PORT), &why) && why == refusals[i],
		      "a refusal brings its reason");
	}
	shared->refuse = XS_R_NONE;
	claim(!dial(nowhere, &why) && why == XS_R_NO_ROUTE, "no way to get there: no-route");
}

/* The child of a fork makes no verbs calls and takes nothing from its parent. */
static void check_fork(struct xs_link *l)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		struct xs_link mine = {0};
		struct sockaddr_storage a = at_port(PORT);

		xs_rc_ops.fork_child();
		xs_pool_fork_child();
		xs_progress_fork_child();
		_exit(xs_rc_ops.connect(&mine, &a, &a, &mine.c) ||
				      atomic_load(&mine.c->failed) == XS_R_FORKED
			      ? 0
			      : 1);
	}
	waitpid(pid, &status, 0);
	claim(status == 0, "a forked child is refused: forked");
	claim(pingpong(l, XS_LANE_SMALL, 64, 100, false) > 0, "the parent's link survives it");
}

static void do_listen_own(void *arg)
{
	struct sockaddr_storage bound = at_port(PORT + 2);
	struct xs_rdv *r;

	*(enum xs_reason *)arg = xs_rc_ops.listen(&bound, &bound, &r);
}

static void check_self(void)
{
	enum xs_reason why;
	struct xs_link *l;

	peer_in_progress(do_listen_own, &why);
	claim(why == XS_R_NONE, "a rendezvous on the device's own address");
	l = dial(at_port(PORT + 2), &why);
	if (!l) { /* the accepting conduit is ours too, and holds its device's memory */
		printf("# %s\n", xs_reason_name(why));
		claim(false, "a link to oneself");
		if (!atomic_load(&peer_links_n))
			return;
		peer_wait(&peer_links[0].down, false);
		printf("# accepting: %s\n", xs_reason_name(atomic_load(&peer_links[0].why)));
		peer_in_progress(do_destroy, &peer_links[0]);
		return;
	}
	claim(pingpong(l, XS_LANE_SMALL, 64, 100, false) > 0, "a link to oneself");
	peer_in_progress(break_qp, l);
	peer_wait(&l->down, false);
	peer_wait(&peer_links[0].down, false);
	peer_in_progress(do_destroy, l);
	peer_in_progress(do_destroy, &peer_links[0]);
}

static void do_close(void *arg)
{
	(void)arg;
	xs_rc_ops.close_devices();
}

static void do_disconnect(void *arg)
{
	xs_rc_ops.disconnect(((struct xs_link *)arg)->c);
}

/* set*id: everything is closed, and opened again by the next link. */
static void check_reopen(struct xs_link *l, struct xs_link *m)
{
	enum xs_reason why;
	struct xs_pool_info i;
	uint32_t size = l->size[XS_LANE_BULK];

	peer_in_progress(do_disconnect, l);
	peer_wait(&l->down, false);
	peer_in_progress(do_disconnect, m);
	peer_wait(&m->down, false);
	peer_in_progress(do_close, NULL);
	peer_in_progress(do_destroy, l);
	peer_in_progress(do_destroy, m);
	xs_pool_info(&i);
	/* 32 chunks and 512 small pieces are stream()'s. */
	claim(i.used == 32 * (size_t)size + 512 * 4096u, "closing gives all memory back");
	l = dial(at_port(PORT), &why);
	claim(l && pingpong(l, XS_LANE_SMALL, 64, 100, false) > 0,
	      "the device is opened again after it was closed");
}

static void check(void)
{
	enum xs_reason why;
	struct xs_link *l = dial(at_port(PORT), &why), *m;
	double us;

	if (!l)
		printf("# %s\n", xs_reason_name(why));
	claim(l != NULL, "the link comes up");
	if (!l)
		return;
	printf("# entries %u of %u, %u of %u\n", l->entries[0], l->size[0], l->entries[1],
	       l->size[1]);
	check_attributes(l);
	us = pingpong(l, XS_LANE_SMALL, 64, 500, false);
	printf("# ping-pong 64 B by the progress threads: %.0f us\n", us);
	claim(us > 0, "ping-pong, served by the progress threads");
	claim(pingpong(l, XS_LANE_BULK, 3000, 200, false) > 0, "ping-pong on the bulk lane");
	claim(stream(l, XS_LANE_BULK, l->size[1] - 32, 24 << 20, true, false, false) > 0 &&
		      atomic_load(&shared->wrong) == 0,
	      "chunks arrive in order and whole");
	claim(stream(l, XS_LANE_SMALL, 1000, 2 << 20, true, false, false) > 0 &&
		      atomic_load(&shared->wrong) == 0,
	      "small segments arrive in order and whole");
	peer_hold = true;
	claim(pingpong(l, XS_LANE_SMALL, 200, 500, false) > 0,
	      "held memory comes back from other threads");
	peer_hold = false;
	check_counters(l);
	check_death();
	check_refusals();
	m = dial(at_port(PORT), &why);
	claim(m && stream(m, XS_LANE_BULK, 65504, 8 << 20, true, false, false) > 0,
	      "a new link works after one died");
	claim(atomic_load(&shared->early) == 0, "no segment was delivered before its link was up");
	claim(pingpong(l, XS_LANE_SMALL, 64, 200, false) > 0, "the first link still works");
	check_self();
	check_fork(l);
	if (m)
		check_reopen(l, m);
}

int main(int argc, char **argv)
{
	struct sockaddr_in *a = (struct sockaddr_in *)&address;
	const char *what = argc > 2 ? argv[2] : "check";
	pid_t server;
	int status;

	if (argc < 2 || inet_pton(AF_INET, argv[1], &a->sin_addr) != 1)
		return 2;
	a->sin_family = AF_INET;
	if (getenv("XSHIM_LOG"))
		xs_log_init(atoi(getenv("XSHIM_LOG")), "stderr");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	server = fork();
	if (server == 0)
		serve();
	while (!atomic_load(&shared->listening))
		usleep(1000);
	claim(atomic_load(&shared->listening) > 0, "the rendezvous is open");
	if (strcmp(what, "bench") == 0)
		failures += bench();
	else if (strcmp(what, "lat") == 0)
		latency();
	else
		check();
	if (strcmp(what, "check") == 0) {
		enum xs_reason why;
		struct xs_link *l = dial(at_port(PORT), &why);

		kill(server, SIGKILL);
		if (l)
			peer_wait(&l->down, false);
		claim(l && atomic_load(&l->why) == XS_R_LINK_LOST, "a killed peer ends the link");
	}
	atomic_store(&shared->quit, 1);
	waitpid(server, &status, 0);
	printf("1..%d\n", number);
	return failures ? 1 : 0;
}

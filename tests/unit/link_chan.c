/* SPDX-License-Identifier: MIT */
/*
 * Pairing and channels over the tests' carrier, both ends in this process: many connections at
 * once, both directions, with delays, reordering between lanes, duplicates, few entries, and links
 * that are cut. Each set of faults runs in a process of its own.
 */
#include "link_user.h"

#include "base/real.h"
#include "engine/pool.h"
#include "engine/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t total; /* bytes of each stream */

/* --- a connection's end at work -------------------------------------------------------------- */
static void wait_news(struct user *u)
{
	xs_cond_wait(&u->news, &u->lock, 0);
}

static uint32_t rnd(uint32_t *state, uint32_t n)
{
	*state = *state * 1664525u + 1013904223u;
	return (*state >> 8) % n;
}

static void *writer(void *arg)
{
	struct user *u = arg;
	uint32_t state = (uint32_t)(u->number * 2 + u->side);
	static __thread uint8_t buf[200000];
	uint64_t at = 0;
	struct xs_crit cs;

	xs_crit_enter(&cs);
	while (at < total) {
		size_t n = rnd(&state, 3) ? rnd(&state, 300) + 1 : rnd(&state, sizeof(buf)) + 1;
		struct iovec iov[2] = {{buf, n / 3}, {buf + n / 3, 0}};
		ssize_t r;

		n = n < total - at ? n : total - at;
		iov[0].iov_len = n / 3;
		iov[1] = (struct iovec){buf + n / 3, n - n / 3};
		for (size_t i = 0; i < n; i++)
			buf[i] = byte_at(u, u->side, at + i);
		lock(u);
		while ((r = xs_chan_ops(u->chan)->tx_put(u->chan, iov, 2, 0,
							 at ? 0 : XS_F_FIRST)) == -EAGAIN &&
		       !u->dead)
			wait_news(u);
		unlock(u);
		if (r < 0)
			break;
		at += (uint64_t)r;
	}
	lock(u);
	u->total = at;
	if (!u->dead)
		xs_chan_ops(u->chan)->tx_fin(u->chan, 0);
	unlock(u);
	xs_crit_leave(&cs);
	return NULL;
}

static bool take_some(struct user *u, uint32_t *state)
{
	const struct xs_chan_ops *ops = xs_chan_ops(u->chan);
	struct xs_msg ack = {.kind = XS_K_ACK, .epoch = 1};
	struct iovec iov[8];
	size_t len, used = 0, want;
	int n = ops->rx_peek(u->chan, iov, 8, &len);

	if (!len)
		return false;
	want = rnd(state, 4) ? len : 1 + rnd(state, (uint32_t)len);
	for (int i = 0; i < n && used < want; i++)
		for (size_t k = 0; k < iov[i].iov_len && used < want; k++, used++)
			if (((uint8_t *)iov[i].iov_base)[k] !=
			    byte_at(u, !u->side, u->consumed + used))
				abort();
	ops->rx_advance(u->chan, used);
	u->consumed += used;
	ops->rx_ack(u->chan, 1, u->consumed);
	ack.offset = u->consumed;
	if (u->want_ack)
		ops->send(u->chan, &ack);
	u->want_ack = false;
	return true;
}

static void *reader(void *arg)
{
	struct user *u = arg;
	uint32_t state = (uint32_t)(77 + u->number * 2 + u->side);
	struct xs_crit cs;

	xs_crit_enter(&cs);
	lock(u);
	while (!(u->fin && u->consumed == u->fin_at)) {
		if (take_some(u, &state)) {
			unlock(u);
			lock(u);
		} else if (u->dead) {
			break;
		} else {
			wait_news(u);
		}
	}
	unlock(u);
	xs_crit_leave(&cs);
	return NULL;
}

/* --- scenes ---------------------------------------------------------------------------------- */
static void init_users(void)
{
	for (int i = 0; i < CONNS; i++) {
		for (int s = 0; s < 2; s++) {
			struct user *u = &users[i][s];

			xs_lock_init(&u->lock, XS_RANK_CONN);
			u->news = (struct xs_cond){0};
			u->number = i;
			u->side = s;
			set_addr(s ? &u->peer : &u->local, (unsigned)(1000 + i));
			set_addr(s ? &u->local : &u->peer, PORT);
		}
	}
}

static void wait_paired(struct user *u)
{
	lock(u);
	while (!u->chan && !u->refused)
		wait_news(u);
	unlock(u);
}

static void ask_all(void)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	for (int i = 0; i < CONNS; i++)
		xs_pair_ask(&users[i][0], &users[i][0].local, &users[i][0].peer);
	for (int i = 0; i < CONNS; i++)
		wait_paired(&users[i][0]);
	xs_crit_leave(&cs);
}

static void run_streams(void)
{
	pthread_t t[CONNS][2][2];

	for (int i = 0; i < CONNS; i++) {
		for (int s = 0; s < 2; s++) {
			pthread_create(&t[i][s][0], NULL, writer, &users[i][s]);
			pthread_create(&t[i][s][1], NULL, reader, &users[i][s]);
		}
	}
	for (int i = 0; i < CONNS; i++)
		for (int k = 0; k < 4; k++)
			pthread_join(t[i][k / 2][k % 2], NULL);
}

/* What's kept is what was written and not acknowledged. */
static void check_kept(struct user *u)
{
	struct iovec iov[2];
	size_t n = xs_chan_ops(u->chan)->tx_kept(u->chan, u->acked, iov), len = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < iov[i].iov_len; k++, len++)
			if (((uint8_t *)iov[i].iov_base)[k] != byte_at(u, u->side, u->acked + len))
				abort();
	CHECK_EQ(u->acked + len, u->total);
}

static void end_one(struct user *u, bool cut)
{
	lock(u);
	if (u->dead) {
		check_kept(u);
		CHECK_EQ(u->deaths, 1);
	} else {
		CHECK(!cut);
		CHECK_EQ(u->consumed, total);
	}
	xs_chan_ops(u->chan)->close(u->chan, false);
	u->chan = NULL;
	unlock(u);
}

static void wait_until_idle(void)
{
	struct xs_pool_info pool;
	uint64_t until = xs_now_ns() + 60 * XS_NS_PER_S;
	bool idle = false;

	while (!idle && xs_now_ns() < until) {
		struct timespec ts = {0, 2000000};

		xs_pool_info(&pool);
		idle = pool.used == 0;
		for (int i = 0; i < CONNS; i++)
			idle = idle && !users[i][0].refs && !users[i][1].refs;
		nanosleep(&ts, NULL);
	}
	CHECK_EQ(pool.used, 0);
	for (int i = 0; i < CONNS; i++) {
		CHECK_EQ(users[i][0].refs, 0);
		CHECK_EQ(users[i][1].refs, 0);
	}
}

static void check_links(bool cut)
{
	struct xs_link_info info[8], sum;
	int n = xs_link_info(info, 8);

	CHECK(cut || n == 2); /* both ends are here */
	xs_link_totals(&sum);
	CHECK(cut || sum.id == (uint64_t)n);
	CHECK(sum.wire_posts > 0); /* cut links' too */
	for (int i = 0; i < n; i++) {
		CHECK_EQ(info[i].wire_rnr, 0);
		CHECK_EQ(info[i].plane, XS_PLANE_TEST);
	}
}

static int scene(bool cut)
{
	struct xs_crit cs;

	xs_real_init();
	xs_config_load();
	init_users();
	xs_pair_init(&pairing);
	xs_crit_enter(&cs);
	xs_pair_listen(&users[0][1].local, &users[0][1].local);
	ask_all();
	for (int i = 0; i < CONNS; i++) {
		CHECK_EQ(users[i][0].refused, 0);
		CHECK(!memcmp(users[i][0].secret, users[i][1].secret, 16));
	}
	xs_crit_leave(&cs);
	run_streams();
	xs_crit_enter(&cs);
	check_links(cut);
	for (int i = 0; i < CONNS; i++) {
		end_one(&users[i][0], cut);
		end_one(&users[i][1], cut);
	}
	wait_until_idle();
	xs_crit_leave(&cs);
	return check_done();
}

static bool has_channel(struct user *u)
{
	bool has;

	lock(u);
	has = u->chan != NULL;
	unlock(u);
	return has;
}

static void wait_closed(struct user *u)
{
	for (int i = 0; i < 60000 && has_channel(u); i++)
		xs_real.poll(NULL, 0, 1);
	CHECK(!has_channel(u));
}

/* Refusals: nobody listens; counts that don't fit. */
static int scene_refused(void)
{
	struct sockaddr_storage other;
	struct xs_crit cs;

	xs_real_init();
	xs_config_load();
	init_users();
	xs_pair_init(&pairing);
	xs_crit_enter(&cs);
	xs_pair_listen(&users[0][1].local, &users[0][1].local);
	memset(&other, 0, sizeof(other));
	set_addr(&other, PORT + 20000);
	xs_pair_ask(&users[0][0], &users[0][0].local, &other);
	users[1][1].skewed = true;
	xs_pair_ask(&users[1][0], &users[1][0].local, &users[1][0].peer);
	users[2][0].skewed = true;
	xs_pair_ask(&users[2][0], &users[2][0].local, &users[2][0].peer);
	for (int i = 0; i < 3; i++)
		wait_paired(&users[i][0]);
	CHECK_EQ(users[0][0].refused, XS_R_NO_SHIM);
	CHECK_EQ(users[1][0].refused, XS_R_PROOF);
	CHECK_EQ(users[2][0].refused, XS_R_PROOF);
	CHECK_EQ(xs_pair_possible((struct sockaddr *)&users[0][0].local, (struct sockaddr *)&other),
		 XS_R_NO_SHIM);
	wait_closed(&users[2][1]); /* it had made one before the asker's word came */
	xs_pair_close_all(XS_R_SETID);
	CHECK_EQ(xs_link_info(NULL, 0), 0);
	wait_until_idle();
	xs_crit_leave(&cs);
	return check_done();
}

/* --- main ------------------------------------------------------------------------------------ */
static const struct {
	const char *faults;
	const char *scene;
	unsigned kib;
} runs[] = {
	{"", "whole", 2000},
	{"small=3,bulk=1", "whole", 500},
	{"delay_us=300,reorder=20,dup=20,seed=1", "whole", 500},
	{"delay_us=100,dup=50,small=5,bulk=2,seed=2", "whole", 300},
	{"freeze_after=200,freeze_ms=50", "whole", 500},
	{"cut_after=400,delay_us=200,seed=3", "cut", 2000},
	{"cut_after=60,seed=4", "cut", 2000},
	{"", "refused", 0},
};

static bool run(unsigned i, char *self)
{
	char kib[16];
	int status = 0;
	pid_t pid;

	snprintf(kib, sizeof(kib), "%u", runs[i].kib);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		char *argv[] = {self, (char *)(uintptr_t)runs[i].scene, kib, NULL};

		setenv("XSHIM_TESTPLANE", runs[i].faults, 1);
		setenv("XSHIM_PLANES", "test", 1);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
	if (argc > 2) {
		total = strtoull(argv[2], NULL, 10) << 10;
		if (!strcmp(argv[1], "refused"))
			return scene_refused();
		return scene(!strcmp(argv[1], "cut"));
	}
	for (unsigned i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		printf("# %s: %s\n", runs[i].scene, runs[i].faults);
		CHECK(run(i, argv[0]));
	}
	return check_done();
}

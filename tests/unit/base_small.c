/* SPDX-License-Identifier: MIT */
/* The small parts of base: real calls, critical sections, locks, descriptors, reasons, random. */
#include "base/clock.h"
#include "base/crit.h"
#include "base/highfd.h"
#include "base/lock.h"
#include "base/rand.h"
#include "base/rawsys.h"
#include "base/real.h"
#include "base/reason.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include "check.h"

/* Twice: by the early functions, then by libc's. */
static void test_real(void)
{
	int fds[2];
	char buf[8];

	CHECK_EQ(pipe(fds), 0);
	CHECK_EQ(xs_real.write(fds[1], "abc", 3), 3);
	CHECK_EQ(xs_real.read(fds[0], buf, sizeof(buf)), 3);
	errno = 0;
	CHECK_EQ(xs_real.read(-1, buf, 1), -1);
	CHECK_EQ(errno, EBADF);
	CHECK_EQ(xs_real.recv(fds[0], buf, 1, 0), -1);
	CHECK_EQ(errno, ENOTSOCK);
	CHECK_EQ(xs_real.fcntl(fds[0], F_GETFL, 0), O_RDONLY);
	CHECK_EQ(xs_real.syscall(__NR_getpid), getpid());
	CHECK_EQ(xs_real.dprintf(fds[1], "%d", 42), 2);
	CHECK_EQ(xs_real.close_range((unsigned)fds[0], (unsigned)fds[0], 0), 0);
	CHECK_EQ(xs_real.close(fds[0]), -1);
	CHECK_EQ(xs_real.close(fds[1]), 0);
	CHECK_EQ(xs_sys(__NR_close, fds[1]), -EBADF);
}

static uint64_t mask_now(void)
{
	uint64_t mask = 0;

	xs_sys(__NR_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
	return mask;
}

static void test_crit(void)
{
	struct xs_crit outer, inner;
	uint64_t before = mask_now(), inside;

	CHECK(!xs_crit_inside());
	errno = EXDEV;
	xs_crit_enter(&outer);
	inside = mask_now();
	CHECK(xs_crit_inside());
	CHECK(inside & 1ULL << (SIGUSR1 - 1));
	CHECK(inside & 1ULL << (SIGTERM - 1));
	CHECK(!(inside & 1ULL << (SIGSEGV - 1)));
	CHECK_EQ(xs_crit_mask(), before);
	xs_crit_enter(&inner);
	xs_crit_leave(&inner);
	CHECK_EQ(mask_now(), inside);
	xs_crit_leave(&outer);
	CHECK_EQ(mask_now(), before);
	CHECK(!xs_crit_inside());
	CHECK_EQ(errno, EXDEV);
}

static void test_lock(void)
{
	struct xs_lock a = XS_LOCK_INIT(XS_RANK_CONN), b;
	struct xs_crit cs;

	xs_lock_init(&b, XS_RANK_POOL);
	xs_crit_enter(&cs);
	xs_lock_take(&a);
	xs_lock_take(&b);
	xs_lock_held(&a);
	xs_lock_held(&b);
	xs_lock_drop(&a);
	xs_lock_drop(&b);
	CHECK(xs_lock_try(&a));
	xs_lock_drop(&a);
	xs_crit_leave(&cs);
}

#define ROUNDS 20000
static struct xs_lock contended = XS_LOCK_INIT(XS_RANK_LEAF);
static unsigned long guarded; /* not atomic: the lock makes it right */

static void *count_up(void *arg)
{
	struct xs_crit cs;

	for (int i = 0; i < ROUNDS; i++) {
		xs_crit_enter(&cs);
		xs_lock_take(&contended);
		guarded++;
		if (i % 64 == 0)
			sched_yield(); /* let others run into it and sleep */
		xs_lock_drop(&contended);
		xs_crit_leave(&cs);
	}
	return arg;
}

static void test_contended_lock(void)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, count_up, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK(guarded == 4UL * ROUNDS);
}

static void test_highfd(void)
{
	struct rlimit lim, low;
	int fd = xs_highfd(open("/dev/null", O_RDONLY));

	CHECK(fd > 63);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	CHECK_EQ(xs_highfd(-ENOENT), -ENOENT);
	getrlimit(RLIMIT_NOFILE, &lim);
	low = lim;
	low.rlim_cur = 20;
	setrlimit(RLIMIT_NOFILE, &low);
	fd = xs_highfd(open("/dev/null", O_RDONLY));
	CHECK(fd > 2 && fd < 20);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	setrlimit(RLIMIT_NOFILE, &lim);
}

static void test_reasons(void)
{
	CHECK_STR(xs_reason_name(XS_R_NONE), "-");
	CHECK_STR(xs_reason_name(XS_R_LINK_LOST), "link-lost");
	CHECK_STR(xs_reason_name((enum xs_reason)9999), "unknown");
	CHECK_STR(xs_reason_name((enum xs_reason) - 1), "unknown");
	CHECK_EQ(xs_reason_class(XS_R_STALLED), XS_CLASS_TRANSIENT);
	CHECK_EQ(xs_reason_class(XS_R_NO_SHIM), XS_CLASS_FINAL);
	CHECK_EQ(xs_reason_class(XS_R_TWIN_DEAD), XS_CLASS_END);
	for (int r = 0; r < XS_R_COUNT; r++)
		CHECK(xs_reason_name((enum xs_reason)r) != NULL);
}

static void test_random(void)
{
	unsigned char a[600] = {0}, b[600] = {0};
	uint64_t t = xs_now_ns();

	CHECK_EQ(xs_random(a, sizeof(a)), 0);
	CHECK_EQ(xs_random(b, sizeof(b)), 0);
	CHECK(memcmp(a, b, sizeof(a)) != 0);
	CHECK(xs_now_ns() >= t);
}

int main(void)
{
	test_real();
	xs_real_init();
	test_real();
	test_crit();
	test_lock();
	test_contended_lock();
	test_highfd();
	test_reasons();
	test_random();
	return check_done();
}

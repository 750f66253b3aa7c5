/* SPDX-License-Identifier: MIT */
/* Calls that never come back: a cancelled thread, and a jump out of a signal handler. */
#include "base/unwind.h"

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "check.h"

static _Atomic int undone;
static int pipe_fds[2];
static sigjmp_buf out;

static void undo(void *arg)
{
	undone += *(int *)arg;
}

/*
 * A frame of its own, as a door is: what lies in the frame jumped to is not undone. ASan would
 * leave the frame poisoned when the thread is cancelled in it.
 */
__attribute__((noinline, no_sanitize("address"))) static void blocked(int amount, bool alarmed)
{
	struct xs_unwind u;
	char c;

	xs_unwind_push(&u, undo, &amount);
	if (alarmed)
		ualarm(1000, 0);
	if (read(pipe_fds[0], &c, 1) < 0)
		c = 0;
	xs_unwind_pop(&u);
}

static void jump(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

static void *thread(void *arg)
{
	blocked(*(int *)arg, false);
	return NULL;
}

static void test_cancelled(void)
{
	int amount = 1;
	pthread_t t;

	undone = 0;
	CHECK_EQ(pthread_create(&t, NULL, thread, &amount), 0);
	pthread_cancel(t);
	pthread_join(t, NULL);
	/* The thread may have been cancelled before it got there, never half-way. */
	CHECK(undone == 1 || undone == 0);
}

static void test_jump(void)
{
	struct sigaction sa = {.sa_handler = jump};

	undone = 0;
	sigaction(SIGALRM, &sa, NULL);
	if (!sigsetjmp(out, 1))
		blocked(10, true);
	CHECK_EQ(undone, 10);
}

static void test_normal(void)
{
	undone = 0;
	CHECK_EQ(write(pipe_fds[1], "x", 1), 1);
	blocked(100, false);
	CHECK_EQ(undone, 0);
}

int main(void)
{
	if (pipe(pipe_fds))
		return 2;
	test_normal();
	test_jump();
	test_cancelled();
	return check_done();
}

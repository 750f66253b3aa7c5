/* SPDX-License-Identifier: MIT */
/*
 * xshim return: asks a process, through its state file (include/xshim.h), to move its connections
 * back to TCP, and waits until they stand there. Whoever holds the file's flock asks; the process
 * never takes it.
 */
#include "tool/tool.h"

#include "base/clock.h"
#include "base/config.h"
#include "tool/states.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LOOK_NS (5 * XS_NS_PER_MS)

struct request {
	int file, pid, fd;
	uint32_t number;
	uint64_t until;
};

static bool wait_a_little(const struct request *r)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};

	if (xs_now_ns() >= r->until)
		return false;
	nanosleep(&pause, NULL);
	return true;
}

static bool take_turn(const struct request *r)
{
	while (flock(r->file, LOCK_EX | LOCK_NB) < 0)
		if (errno != EWOULDBLOCK || !wait_a_little(r))
			return false;
	return true;
}

static bool ask(struct request *r, const struct xshim_state *head)
{
	struct {
		int32_t fd;
		uint32_t number;
	} both = {.fd = r->fd, .number = head->request + 1};

	r->number = both.number;
	return pwrite(r->file, &both, sizeof(both), offsetof(struct xshim_state, request_fd)) ==
	       sizeof(both);
}

static bool concerns(const struct request *r, const struct xshim_conn *row)
{
	return r->fd < 0 || row->fd == r->fd;
}

/* Nothing of the direction is anywhere but on TCP, and nothing is on its way there. */
static bool on_tcp(const struct xshim_conn *row)
{
	return row->rx.plane == XSHIM_KERNEL && row->tx.plane == XSHIM_KERNEL &&
	       row->tx.state != XSHIM_TX_RET;
}

struct look {
	size_t rows, left; /* concerned; not on TCP */
	bool answered, watching;
};

static bool take_look(const struct request *r, struct look *look)
{
	struct state state;

	if (!state_load(r->file, &state))
		return false;
	memset(look, 0, sizeof(*look));
	look->answered = state.head.answered == r->number;
	look->watching = state.head.watching;
	for (size_t i = 0; i < state.n; i++) {
		if (!concerns(r, &state.rows[i]))
			continue;
		look->rows++;
		look->left += !on_tcp(&state.rows[i]);
	}
	free(state.rows);
	return true;
}

/* One that doesn't watch has nothing that could return; it gets the request when that changes. */
static bool is_done(const struct look *look)
{
	return !look->left && (look->answered || !look->watching);
}

static int await(const struct request *r)
{
	struct look look;

	do
		if (!take_look(r, &look))
			return TOOL_NONE;
	while (!is_done(&look) && wait_a_little(r));
	if (is_done(&look))
		return TOOL_OK;
	if (!look.answered)
		tool_say("process %d doesn't answer", r->pid);
	else
		tool_say("%zu of %zu connections of process %d aren't back on TCP yet", look.left,
			 look.rows, r->pid);
	return TOOL_NONE;
}

static int carry_out(struct request *r, const struct xshim_state *head)
{
	struct look look;

	if (!take_look(r, &look)) {
		tool_say("the state file of process %d can't be read", r->pid);
		return TOOL_NONE;
	}
	if (r->fd >= 0 && !look.rows) {
		tool_say("process %d has no TCP connection at descriptor %d", r->pid, r->fd);
		return TOOL_NONE;
	}
	if (!ask(r, head)) {
		tool_say("process %d can't be asked: %s", r->pid, strerror(errno));
		return TOOL_NONE;
	}
	return await(r);
}

static bool is_number(const char *text, int *number, const char *what)
{
	if (tool_number(text, number))
		return true;
	tool_say("return: '%s' is no %s", text, what);
	return false;
}

int tool_return(int argc, char **argv)
{
	struct request r = {.fd = XSHIM_REQUEST_ALL};
	struct xshim_state head;
	int status = TOOL_NONE;

	if (argc == 2 && !strcmp(argv[1], "--help")) {
		tool_usage(true);
		return TOOL_OK;
	}
	if (argc < 2 || argc > 3 || !is_number(argv[1], &r.pid, "process number") ||
	    (argc == 3 && !is_number(argv[2], &r.fd, "descriptor"))) {
		tool_usage(false);
		return TOOL_USAGE;
	}
	r.file = state_open(r.pid, &head);
	if (r.file < 0) {
		if (r.file == -ESRCH)
			tool_say("no TCP connections under the shim in a process %d", r.pid);
		return TOOL_NONE;
	}
	r.until = xs_now_ns() + (xs_config()->return_ms + 1000) * XS_NS_PER_MS;
	/* The number may have changed while we waited for our turn. */
	if (!take_turn(&r) || pread(r.file, &head, sizeof(head), 0) != sizeof(head))
		tool_say("process %d is being asked by somebody else", r.pid);
	else
		status = carry_out(&r, &head);
	close(r.file);
	return status;
}

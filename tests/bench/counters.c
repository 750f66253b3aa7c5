// SPDX-License-Identifier: MIT
/*
 * Prints the process-wide counters of a running process under the shim, from its state file:
 *
 *   counters STATS_DIR PID
 *
 * as "links posts signalled rnr registrations dropped", one "name value" a line. `xshim stat`
 * shows connections; these are of the whole process and only interest a benchmark. The process
 * brings them up to date on request, and has answered when they're read.
 */
#include "../../include/xshim.h"

#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 2000 };

static const struct xshim_state *map_state(const char *dir, const char *pid, int *file)
{
	char pattern[4096];
	glob_t found;
	void *at = MAP_FAILED;
	int fd;

	snprintf(pattern, sizeof(pattern), "%s/xshim.*.%s.*", dir, pid);
	if (glob(pattern, 0, NULL, &found) != 0)
		return NULL;
	fd = open(found.gl_pathv[found.gl_pathc - 1], O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		at = mmap(NULL, sizeof(struct xshim_state), PROT_READ, MAP_SHARED, fd, 0);
	globfree(&found);
	*file = fd;
	return at == MAP_FAILED ? NULL : at;
}

static bool fresh(const struct xshim_state *state, int file)
{
	struct {
		int32_t fd;
		uint32_t number;
	} ask = {.fd = XSHIM_REQUEST_COUNTERS};
	const struct timespec ms = {.tv_nsec = 1000000};

	flock(file, LOCK_EX);
	ask.number = state->request + 1;
	if (pwrite(file, &ask, sizeof(ask), offsetof(struct xshim_state, request_fd)) !=
	    sizeof(ask))
		return false;
	for (int i = 0; i < PATIENCE_MS && state->answered != ask.number; i++)
		nanosleep(&ms, NULL);
	flock(file, LOCK_UN);
	return state->answered == ask.number;
}

int main(int argc, char **argv)
{
	const struct xshim_state *state;
	int file = -1;

	if (argc != 3) {
		fprintf(stderr, "usage: counters STATS_DIR PID\n");
		return 2;
	}
	state = map_state(argv[1], argv[2], &file);
	if (!state || state->magic != XSHIM_STATE_MAGIC || state->version != XSHIM_STATE_VERSION) {
		fprintf(stderr, "counters: no state file of process %s\n", argv[2]);
		return 1;
	}
	if (!fresh(state, file)) {
		fprintf(stderr, "counters: process %s doesn't answer\n", argv[2]);
		return 1;
	}
	printf("links %llu\nposts %llu\nsignalled %llu\nrnr %llu\n"
	       "registrations %llu\ndropped %llu\n",
	       (unsigned long long)state->links, (unsigned long long)state->wire_posts,
	       (unsigned long long)state->wire_signalled, (unsigned long long)state->wire_rnr,
	       (unsigned long long)state->registrations, (unsigned long long)state->dropped);
	return 0;
}

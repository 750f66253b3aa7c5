// SPDX-License-Identifier: MIT
/*
 * Prints the process-wide counters of a running process under the shim, from its state file:
 *
 *   counters STATS_DIR PID
 *
 * as "links posts signalled rnr registrations dropped", one "name value" a line. `xshim stat`
 * shows connections; these are of the whole process and only interest a benchmark.
 */
#include "../../include/xshim.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct xshim_state *map_state(const char *dir, const char *pid)
{
	char pattern[4096];
	glob_t found;
	void *at = MAP_FAILED;
	int fd;

	snprintf(pattern, sizeof(pattern), "%s/xshim.*.%s.*", dir, pid);
	if (glob(pattern, 0, NULL, &found) != 0)
		return NULL;
	fd = open(found.gl_pathv[found.gl_pathc - 1], O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		at = mmap(NULL, sizeof(struct xshim_state), PROT_READ, MAP_SHARED, fd, 0);
	globfree(&found);
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}

int main(int argc, char **argv)
{
	const struct xshim_state *state;

	if (argc != 3) {
		fprintf(stderr, "usage: counters STATS_DIR PID\n");
		return 2;
	}
	state = map_state(argv[1], argv[2]);
	if (!state || state->magic != XSHIM_STATE_MAGIC || state->version != XSHIM_STATE_VERSION) {
		fprintf(stderr, "counters: no state file of process %s\n", argv[2]);
		return 1;
	}
	printf("links %llu\nposts %llu\nsignalled %llu\nrnr %llu\n"
	       "registrations %llu\ndropped %llu\n",
	       (unsigned long long)state->links, (unsigned long long)state->wire_posts,
	       (unsigned long long)state->wire_signalled, (unsigned long long)state->wire_rnr,
	       (unsigned long long)state->registrations, (unsigned long long)state->dropped);
	return 0;
}

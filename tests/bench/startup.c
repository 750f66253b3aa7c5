// SPDX-License-Identifier: MIT
/*
 * What starting a program costs: runs PROGRAM bare and with LIBRARY preloaded, in turn.
 *
 *   startup LIBRARY RUNS [PROGRAM]
 *
 * Prints one line for each pair: "plain_us shim_us plain_kib shim_kib". Time is from vfork to the
 * end of wait4, memory is the child's ru_maxrss. This program is linked statically: the kernel
 * counts what a child had in memory before its exec too, and ours must stay below /bin/true's.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct cost {
	double us;
	long kib;
};

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static bool run(const char *program, char *const env[], struct cost *cost)
{
	char *const argv[] = {(char *)program, NULL};
	double before = now_us();
	struct rusage usage;
	int status;
	pid_t child = vfork();

	if (child == 0) {
		execve(program, argv, env);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) < 0)
		return false;
	cost->us = now_us() - before;
	cost->kib = usage.ru_maxrss;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
	char preload[4096];
	char *const plain_env[] = {"PATH=/usr/bin:/bin", NULL};
	char *const shim_env[] = {"PATH=/usr/bin:/bin", preload, NULL};
	const char *program = argc > 3 ? argv[3] : "/bin/true";
	int runs = argc > 2 ? atoi(argv[2]) : 0;
	struct cost plain, shim;

	if (runs <= 0 || access(argv[1], R_OK) != 0) {
		fprintf(stderr, "usage: startup LIBRARY RUNS [PROGRAM]\n");
		return 2;
	}
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", argv[1]);
	/* The first pair fills the caches and isn't printed. */
	for (int i = 0; i <= runs; i++) {
		if (!run(program, plain_env, &plain) || !run(program, shim_env, &shim)) {
			fprintf(stderr, "startup: %s failed\n", program);
			return 1;
		}
		if (i > 0)
			printf("%.1f %.1f %ld %ld\n", plain.us, shim.us, plain.kib, shim.kib);
	}
	return 0;
}

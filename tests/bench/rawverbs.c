// SPDX-License-Identifier: MIT
/*
 * The raw verbs reference program; see raw.h and raw_modes.c.
 *
 *   rawverbs server ADDRESS PORT              serves one client; prints "listening PORT"
 *   rawverbs client ADDRESS PORT MODE [options]
 *
 * MODE is pingpong, stream or requests. Options: --size, --reply (bytes), --count (messages that
 * are measured), --warm (messages before), --depth (stream: send slots; requests: in flight),
 * --wait yield|event. The client prints one JSON line.
 */
#include "raw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum raw_mode mode_from(const char *name)
{
	static const char *const names[] = {
		[RAW_PINGPONG] = "pingpong",
		[RAW_STREAM] = "stream",
		[RAW_REQUESTS] = "requests",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], name) == 0)
			return (enum raw_mode)i;
	}
	errno = 0;
	bench_die("MODE is pingpong, stream or requests, not '%s'", name);
}

static struct raw_params params_from(int argc, char **argv)
{
	struct raw_params params = {.mode = mode_from(argv[4])};
	uint64_t count = bench_number(argc, argv, "count", 1000);

	params.size = (uint32_t)bench_number(argc, argv, "size", 64);
	params.reply = (uint32_t)bench_number(argc, argv, "reply", params.size);
	params.depth = (uint32_t)bench_number(argc, argv, "depth", 8);
	params.wait = bench_wait_from(bench_option(argc, argv, "wait", "yield"));
	if (params.wait == BENCH_EPOLL)
		bench_die("--wait is yield or event here");
	params.warm = bench_number(argc, argv, "warm", count / 8 + 1);
	params.rounds = count + params.warm;
	return params;
}

int main(int argc, char **argv)
{
	struct raw_end end = {0};

	if (argc >= 4 && strcmp(argv[1], "server") == 0) {
		raw_serve(&end, argv[2], argv[3]);
	} else if (argc >= 5 && strcmp(argv[1], "client") == 0) {
		end.params = params_from(argc, argv);
		raw_connect(&end, argv[2], argv[3]);
	} else {
		fprintf(stderr, "usage: rawverbs server ADDRESS PORT\n"
				"       rawverbs client ADDRESS PORT pingpong|stream|requests "
				"[--size N] [--reply N] [--count N] [--warm N] [--depth N] "
				"[--wait yield|event]\n");
		return 2;
	}
	raw_run(&end);
	raw_finish(&end);
	return 0;
}

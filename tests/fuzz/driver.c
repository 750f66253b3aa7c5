/* SPDX-License-Identifier: MIT */
/*
 * In libFuzzer's place where there's no clang: random inputs of growing lengths, without guidance.
 *   PROGRAM -max_total_time=SECONDS [-seed=N] [-artifact_prefix=PREFIX]      or      PROGRAM
 * FILE... PREFIXlast is the input that was running when it ended.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t input[2048];

static void one_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f)
		return;
	n = fread(input, 1, sizeof(input), f);
	fclose(f);
	LLVMFuzzerTestOneInput(input, n);
	printf("ran %s\n", path);
}

static void keep(int fd, size_t n)
{
	if (fd >= 0 && (pwrite(fd, input, n, 0) < 0 || ftruncate(fd, (off_t)n) < 0))
		perror("keeping the input");
}

static unsigned long random_inputs(unsigned long seconds, uint64_t state, int kept)
{
	unsigned long runs = 0;
	time_t begin = time(NULL);

	for (; (unsigned long)(time(NULL) - begin) < seconds; runs++) {
		size_t n = 1 + runs % sizeof(input);

		for (size_t i = 0; i < n; i++) {
			state = state * 6364136223846793005ull + 1442695040888963407ull;
			input[i] = (uint8_t)(state >> 56);
		}
		keep(kept, n);
		LLVMFuzzerTestOneInput(input, n);
	}
	return runs;
}

int main(int argc, char **argv)
{
	unsigned long seconds = 0;
	uint64_t state = 1;
	char path[4096] = "last";

	LLVMFuzzerInitialize(&argc, &argv);
	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "-max_total_time=", 16))
			seconds = strtoul(argv[i] + 16, NULL, 10);
		else if (!strncmp(argv[i], "-seed=", 6))
			state = strtoull(argv[i] + 6, NULL, 10);
		else if (!strncmp(argv[i], "-artifact_prefix=", 17))
			snprintf(path, sizeof(path), "%slast", argv[i] + 17);
		else if (argv[i][0] != '-')
			one_file(argv[i]);
	}
	if (seconds)
		printf("%lu inputs\n",
		       random_inputs(seconds, state, open(path, O_RDWR | O_CREAT | O_TRUNC, 0600)));
	return 0;
}

# SPDX-License-Identifier: MIT
# Benchmark programs; the Makefile includes this. Uses CC, CFLAGS and BUILD.
#
# They are ordinary programs, built without the library's flags, and never need the library.

BENCH_FLAGS := -O2 -g -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror
BENCH_PROGRAMS := $(addprefix $(BUILD)/bench/,pingpong stream crowd barehost rawverbs startup \
	counters)
BENCH_COMMON := tests/bench/bench.c tests/bench/bench.h tests/bench/rules.mk

.PHONY: bench-programs

bench-programs: $(BENCH_PROGRAMS)

$(BUILD)/bench/pingpong: tests/bench/pingpong.c $(BENCH_COMMON)
	@mkdir -p $(@D)
	$(CC) $(BENCH_FLAGS) -o $@ $(filter %.c,$^)

$(BUILD)/bench/stream: tests/bench/stream.c $(BENCH_COMMON)
	@mkdir -p $(@D)
	$(CC) $(BENCH_FLAGS) -pthread -o $@ $(filter %.c,$^)

$(BUILD)/bench/crowd: tests/bench/crowd.c $(BENCH_COMMON)
	@mkdir -p $(@D)
	$(CC) $(BENCH_FLAGS) -o $@ $(filter %.c,$^)

$(BUILD)/bench/barehost: tests/bench/barehost.c $(BENCH_COMMON)
	@mkdir -p $(@D)
	$(CC) $(BENCH_FLAGS) -o $@ $(filter %.c,$^)

$(BUILD)/bench/rawverbs: tests/bench/rawverbs.c tests/bench/raw_conn.c tests/bench/raw_modes.c \
		tests/bench/raw.h $(BENCH_COMMON)
	@mkdir -p $(@D)
	$(CC) $(BENCH_FLAGS) -o $@ $(filter %.c,$^) -lrdmacm -libverbs

# Static, see startup.c.
$(BUILD)/bench/startup: tests/bench/startup.c tests/bench/rules.mk
	@mkdir -p $(@D)
	$(CC) $(BENCH_FLAGS) -static -o $@ $<

$(BUILD)/bench/counters: tests/bench/counters.c include/xshim.h tests/bench/rules.mk
	@mkdir -p $(@D)
	$(CC) $(BENCH_FLAGS) -o $@ $<

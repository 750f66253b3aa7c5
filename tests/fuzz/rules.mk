# SPDX-License-Identifier: MIT
# Fuzzers; the Makefile includes this. `make fuzz` builds them with sanitizers in a directory of
# their own, by clang if there is one: then libFuzzer guides the inputs, else driver.c makes them.

FUZZ_O := $(O)/tests/fuzz
FUZZ_DRIVER := $(if $(findstring fuzzer,$(SAN)),,$(FUZZ_O)/driver.o)
FUZZ_LDFLAGS := $(if $(findstring fuzzer,$(SAN)),-fsanitize=fuzzer)

.PHONY: fuzz-programs
fuzz-programs: $(O)/fuzz/epoll $(O)/fuzz/hostile

$(O)/fuzz/epoll: $(FUZZ_O)/epoll_fuzz.o $(UNIT_LIBS)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $< -Wl,--start-group $(UNIT_LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(LIBS) -o $@

$(O)/fuzz/hostile: $(addprefix $(FUZZ_O)/,hostile.o hostile_link.o hostile_pair.o) $(FUZZ_DRIVER) \
		$(HOOK_O) $(UNIT_LIBS)
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter %.o,$^) -Wl,--start-group $(UNIT_LIBS) -Wl,--end-group $(FUZZ_LDFLAGS) \
		$(ALL_LDFLAGS) $(LIBS) -o $@

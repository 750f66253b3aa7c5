# SPDX-License-Identifier: MIT
# The rc carrier alone: its own objects with the tests' upper side instead of src/link's.
RC_TEST := $(O)/tests/rc/rctest

.PHONY: rc-programs
rc-programs: $(RC_TEST)

$(RC_TEST): $(call objects,tests/rc/*.c) $(O)/core.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(if $(LTO),-fno-lto) $(call objects,tests/rc/*.c) $(O)/core.a $(ALL_LDFLAGS) $(LIBS) -o $@

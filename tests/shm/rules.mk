# SPDX-License-Identifier: MIT
# Who has no business with a connection, and where a program is kept in: for tests/26-shmtrust.bats.
SHM_O := $(O)/tests/shm

.PHONY: shm-programs
shm-programs: $(SHM_O)/hostile $(SHM_O)/sandbox

$(SHM_O)/hostile: $(SHM_O)/hostile.o $(UNIT_LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(if $(LTO),-fno-lto) $< -Wl,--start-group $(UNIT_LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(LIBS) -o $@

$(SHM_O)/sandbox: $(SHM_O)/sandbox.o
	$(call say,LINK,$@)
	$(Q)$(CC) $(if $(LTO),-fno-lto) $< $(ALL_LDFLAGS) -o $@

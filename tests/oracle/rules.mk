# SPDX-License-Identifier: MIT
# Builds the oracle programs into $(BUILD)/oracle; the main Makefile includes this, and
# tests/oracle/build.sh uses it alone.
BUILD ?= build
ORACLE_DIR := $(dir $(lastword $(MAKEFILE_LIST)))
ORACLE_OUT := $(BUILD)/oracle
ORACLE_STAGE := oracle look talk text sha256
ORACLE_NAMES := $(filter-out $(ORACLE_STAGE), \
	$(patsubst $(ORACLE_DIR)%.c,%,$(wildcard $(ORACLE_DIR)*.c)))
ORACLE_PROGRAMS := $(ORACLE_NAMES:%=$(ORACLE_OUT)/%)
ORACLE_OBJECTS := $(ORACLE_STAGE:%=$(ORACLE_OUT)/stage/%.o)
# The programs pass what no sane program passes, on purpose.
ORACLE_CFLAGS := -std=gnu11 -O1 -g -D_GNU_SOURCE -pthread -Wall -Wextra -Werror -Wno-nonnull \
	-Wno-unknown-warning-option -Wno-stringop-overflow -Wno-stringop-overread
ORACLE_HEADERS := $(ORACLE_DIR)oracle.h $(ORACLE_DIR)stage.h

.PHONY: oracle
oracle: $(ORACLE_PROGRAMS)

# Fortified variants exist only with optimisation and the macro.
$(ORACLE_OUT)/fortify: ORACLE_CFLAGS += -O2 -D_FORTIFY_SOURCE=2
$(ORACLE_OUT)/largefile: ORACLE_CFLAGS += -D_FILE_OFFSET_BITS=64
$(ORACLE_OUT)/largefile: $(ORACLE_DIR)flags.c

$(ORACLE_OUT)/stage/%.o: $(ORACLE_DIR)%.c $(ORACLE_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(ORACLE_CFLAGS) -c -o $@ $<

$(ORACLE_PROGRAMS): $(ORACLE_OUT)/%: $(ORACLE_DIR)%.c $(ORACLE_OBJECTS) $(ORACLE_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(ORACLE_CFLAGS) -o $@ $< $(ORACLE_OBJECTS)

# SPDX-License-Identifier: MIT
# `make help` lists the targets. Rooms are folders of src/: a new .c file is found by itself.

BUILD ?= build
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
ifeq ($(origin CC),default)
CC := gcc
endif
VERSION := 0.1.0

# V=1 shows the commands.
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

# Sanitizers have a build directory each: `make asan` calls make with SAN and BUILD.
SAN ?=
O := $(BUILD)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -DXS_DEBUG)
# The fence in stats.c is for readers in other processes, of whom ThreadSanitizer knows nothing.
SANFLAGS += $(if $(filter thread,$(SAN)),-Wno-unknown-warning-option -Wno-tsan)

# gcc inlines across files when it links the libraries; unit tests use the plain half of the objects.
LTO := $(if $(SAN),,$(if $(findstring gcc,$(notdir $(CC))),-flto=auto -ffat-lto-objects))

WARN := -Wall -Wextra -Werror -Wmissing-prototypes -Wshadow
CFLAGS ?= -O2 -g
# Fortified inlines would turn our calls into __*_chk, which are doors of ours.
ALL_CFLAGS = $(CFLAGS) -std=gnu11 -D_GNU_SOURCE= -U_FORTIFY_SOURCE -fPIC -fvisibility=hidden \
	-ftls-model=initial-exec -fno-plt -pthread $(WARN) $(LTO) $(SANFLAGS) $(EXTRA_CFLAGS) -Isrc -Iinclude \
	-DXS_VERSION=\"$(VERSION)\"
ALL_LDFLAGS := -pthread $(SANFLAGS) $(LDFLAGS)
LIB_LDFLAGS = -shared -Wl,-soname,libxshim.so -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete \
	-Wl,--version-script=$(O)/exports.map $(if $(SAN),,-Wl,-z,defs)
LIBS := -ldl

comma := ,
objects = $(patsubst %.c,$(O)/%.o,$(wildcard $(1)))

BASE_O := $(call objects,src/base/*.c)
CORE_O := $(BASE_O) $(call objects,src/engine/*.c src/link/*.c src/link/rc/*.c src/link/shm/*.c src/sock/*.c)
HOOK_O := $(call objects,src/hook/*.c)
TOOL_O := $(call objects,src/tool/*.c)
PLANE_O := $(call objects,tests/testplane/*.c)
UNITS := $(patsubst %.c,$(O)/%,$(wildcard tests/unit/*.c))
# src/link/carriers.c says which carriers there are; a test build brings its own.
TEST_CORE_O := $(filter-out $(if $(wildcard tests/testplane/carriers.c),$(O)/src/link/carriers.o), \
	$(CORE_O))

LIB := $(O)/libxshim.so
TEST_LIB := $(O)/test/libxshim.so
TOOL := $(O)/xshim

.PHONY: all
all: $(LIB) $(if $(TOOL_O),$(TOOL)) $(if $(PLANE_O),$(TEST_LIB)) ## library, tool and test library

$(O)/exports.map: src/base/symbols.def
	@mkdir -p $(@D)
	@awk -F'[(,]' 'BEGIN { print "{ global:" } /^XS_SYM\(/ { print "\t" $$2 ";" } \
		END { print "local: *; };" }' $< > $@

$(O)/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# Its functions stay where the file puts them, and call nothing (the file's head says why).
$(O)/src/base/byterun.o: LTO :=
$(O)/src/base/byterun.o: EXTRA_CFLAGS += -fno-builtin -fno-stack-protector

# A mapped library must not be overwritten in place: link beside it, then rename.
$(LIB): $(CORE_O) $(HOOK_O) $(O)/exports.map
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LTO) $(LIB_LDFLAGS) $(CORE_O) $(HOOK_O) $(ALL_LDFLAGS) $(LIBS) -o $@.new && mv -f $@.new $@

$(TEST_LIB): $(TEST_CORE_O) $(HOOK_O) $(PLANE_O) $(O)/exports.map
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LTO) $(LIB_LDFLAGS) $(TEST_CORE_O) $(HOOK_O) $(PLANE_O) $(ALL_LDFLAGS) $(LIBS) -o $@.new && \
		mv -f $@.new $@

$(TOOL): $(TOOL_O) $(BASE_O)
	$(call say,LINK,$@)
	$(Q)$(CC) $(if $(LTO),-fno-lto) $(TOOL_O) $(BASE_O) $(ALL_LDFLAGS) $(LIBS) -o $@

# Unit tests: the product's objects without its doors. Archives give each test what it uses; the
# test plane's comes first, as its carriers replace the product's.
$(O)/core.a: $(TEST_CORE_O)
	@rm -f $@ && $(AR) rcs $@ $^

$(O)/plane.a: $(PLANE_O)
	@rm -f $@ && $(AR) rcs $@ $^

UNIT_LIBS := $(O)/plane.a $(O)/core.a

$(O)/tests/unit/%: $(O)/tests/unit/%.o $(UNIT_LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(if $(LTO),-fno-lto) $< -Wl,--start-group $(UNIT_LIBS) -Wl,--end-group $(ALL_LDFLAGS) $(LIBS) -o $@

# Oracle programs and benchmarks are ordinary programs: they know nothing of the library.
# Each folder of tests with programs brings its rules; the targets are named here.
-include $(wildcard tests/*/rules.mk)
PROGRAMS := $(if $(wildcard tests/oracle/rules.mk),oracle) \
	$(if $(wildcard tests/bench/rules.mk),bench-programs) $(if $(wildcard tests/rc/rules.mk),rc-programs) \
	$(if $(wildcard tests/shm/rules.mk),shm-programs)

.PRECIOUS: $(O)/%.o $(O)/tests/unit/%.o
-include $(shell [ ! -d $(O) ] || find $(O) -name '*.d')

# --- tests ---------------------------------------------------------------------------------------
export BUILD
RUN := scripts/run-checks

.PHONY: programs check check-full check-unit check-oracle check-model check-rdma check-apps check-host
programs: all $(UNITS) $(PROGRAMS) ## everything that the tests run

check: programs ## all tests at small counts, guest included
	@$(RUN) unit lint model host oracle apps rdma

check-full: programs ## all tests at the counts that the issues state
	@XS_FULL=1 $(RUN) unit lint model host oracle apps rdma

check-unit: all $(UNITS) ## unit tests
	@$(RUN) unit

check-host: programs ## behaviour on the host: every bats family but rdma and applications
	@$(RUN) host

check-oracle: programs ## programs bare and shimmed: the transcripts must match
	@$(RUN) oracle

check-model: ## the switching protocol's model, all of it
	@XS_FULL=1 $(RUN) model

check-rdma: programs ## tests on soft-RoCE (in the guest, or here on a machine with a device)
	@XS_FULL=1 $(RUN) rdma

check-apps: programs ## real applications
	@$(RUN) apps

.PHONY: lint demo bench soak asan ubsan tsan fuzz cover
lint: ## style, layers, symbols, sizes, static analysis
	@scripts/lint

demo: all ## redis on plain TCP against redis on shm, then over RC, in the guest
	@scripts/demo-run

bench-%: programs ## one benchmark's JSON lines into BUILD/bench/NAME.jsonl
	@BUILD=$(BUILD) scripts/bench-$* $(BENCH_ARGS)

soak: programs ## the long runs
	@XS_FULL=1 XS_SOAK=1 $(RUN) host oracle

asan: ## unit tests and behaviour under AddressSanitizer
	@$(MAKE) SAN=address BUILD=$(BUILD)-address programs
	@XS_SAN=address BUILD=$(BUILD)-address $(RUN) unit behaviour

ubsan: ## unit tests and behaviour under UndefinedBehaviorSanitizer
	@$(MAKE) SAN=undefined BUILD=$(BUILD)-undefined programs
	@XS_SAN=undefined BUILD=$(BUILD)-undefined $(RUN) unit behaviour

tsan: ## unit tests and behaviour under ThreadSanitizer
	@$(MAKE) SAN=thread BUILD=$(BUILD)-thread programs
	@XS_SAN=thread BUILD=$(BUILD)-thread $(RUN) unit behaviour

FUZZ_CC := $(if $(shell command -v clang),clang,$(CC))
fuzz: ## hostile input, for XS_FUZZ_SECONDS each
	@$(MAKE) CC=$(FUZZ_CC) SAN=address,undefined$(if $(filter clang,$(FUZZ_CC)),$(comma)fuzzer-no-link) \
		BUILD=$(BUILD)-fuzz fuzz-programs
	@BUILD=$(BUILD)-fuzz $(RUN) fuzz

cover: ## unit and host tests with line coverage
	@$(MAKE) BUILD=$(BUILD)-cover EXTRA_CFLAGS=--coverage LDFLAGS=--coverage programs
	@BUILD=$(BUILD)-cover $(RUN) unit host
	@scripts/cover $(BUILD)-cover

# --- installing ----------------------------------------------------------------------------------
# Renamed over the old file: overwriting a mapped library kills its users.
define put
	$(call say,INST,$(DESTDIR)$(3))
	$(Q)install -D -m $(1) $(2) $(DESTDIR)$(3).new && mv -f $(DESTDIR)$(3).new $(DESTDIR)$(3)
endef

.PHONY: install deb clean help
install: all ## into PREFIX (/usr/local), below DESTDIR
	$(call put,755,$(LIB),$(LIBDIR)/libxshim.so)
	$(call put,755,$(TOOL),$(PREFIX)/bin/xshim)
	$(call put,644,include/xshim.h,$(PREFIX)/include/xshim.h)
	$(call put,644,shim.conf,$(PREFIX)/share/doc/xshim/shim.conf)
	$(call put,644,src/man/xshim.1,$(PREFIX)/share/man/man1/xshim.1)
	$(call put,644,src/man/shim.conf.5,$(PREFIX)/share/man/man5/shim.conf.5)
	$(call put,644,src/man/libxshim.7,$(PREFIX)/share/man/man7/libxshim.7)
# LD_PRELOAD=libxshim.so finds it in /usr/local/lib by the loader's cache only.
	$(Q)[ -n "$(DESTDIR)" ] || PATH="$$PATH:/sbin:/usr/sbin" ldconfig 2>/dev/null || :

deb: all ## a Debian package in BUILD
	@scripts/make-deb $(BUILD) $(VERSION)

clean: ## remove BUILD and its siblings
	rm -rf $(BUILD) $(BUILD)-fuzz $(BUILD)-address $(BUILD)-undefined $(BUILD)-thread $(BUILD)-cover

help: ## this list
	@sed -n 's/^\([a-z%-]*\):[^#]*## \(.*\)/  \1|\2/p' Makefile | sort | column -t -s '|'

# ponder: `make run` sets up a fresh machine, builds, and solves Game of 24; `make test` runs every spec.
#
#   make                build/ponder (one executable) and build/ponder.so (for a stock lua5.4)
#   make run            install missing packages, build, run scripts/game24.lua
#   make test           install what the tests need, build, run every spec (SPEC=file for one)
#   make bench          measure speed as ratios within one run
#   make soak           long tests at full size (SOAK=log for one; SIZE= and SEED= for others)
#   make asan           the specs that reach C in a new way, under AddressSanitizer and
#                       UndefinedBehaviourSanitizer, with garbage collections forced at random
#   make plain          the program with only what other Unix systems have, too, and its specs
#   make fuzz           run each target of spec/fuzz for a while (FUZZ_SECONDS=10)
#   make lint           luacheck, clang-format, and the C compiler with warnings as errors
#   make install        PREFIX=/usr/local DESTDIR=; make uninstall removes it
#   make deb rock dist static release image    packages: scripts/package/package.mk
#   make clean

B       ?= build
PREFIX  ?= /usr/local
CC      ?= cc
CSTD    := -std=c11 -D_XOPEN_SOURCE=700 -ffp-contract=off
WERROR  ?= -Werror
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes $(WERROR)
CFLAGS  ?= -O2 -g
VERSION := 0.2.0

RUN_PACKAGES  := gcc libc6-dev pkg-config lua5.4 liblua5.4-dev lua-cjson-dev libcurl4-openssl-dev \
                 libsqlite3-dev nettle-dev libuv1-dev libmicrohttpd-dev libseccomp-dev libhiredis-dev \
                 libedit-dev zlib1g-dev libyaml-dev
TEST_PACKAGES := redis-server curl lua-cjson lua-busted lua-check clang-format nghttp2-server \
                 openssl time tmux wrk chromium chromium-driver graphviz zsh fish
FUZZ_PACKAGES := clang libclang-rt-14-dev

# pkg-config runs when a recipe needs it, not when make starts: `make run` may first have to install it.
# The executable links SQLite statically, since one more shared library slows its start by 7%; the
# shared object uses the system's, since two SQLites in a process break each other's locks. libcurl
# loads libgnutls and libnettle anyway. The first libraries are those that most symbols are found in:
# the loader searches in this order, which takes most of the time of a start.
LUA_CFLAGS = $(shell pkg-config --cflags lua5.4 libcurl sqlite3)
LIBS       = -Wl,-Bstatic -llua5.4-cjson -llua5.4 -lsqlite3 -luv_a -lmicrohttpd -lseccomp \
             -lhiredis -ltinfo -lbsd -lmd -lz -lyaml -Wl,-Bdynamic \
             -Wl,--exclude-libs,libsqlite3.a:libuv_a.a:libmicrohttpd.a:libseccomp.a \
             -Wl,--exclude-libs,libtinfo.a:libbsd.a:libmd.a:libhiredis.a:libz.a:libyaml.a,--no-as-needed -l:libcrypto.so.3 -lc -lgnutls \
             -lnettle $(shell pkg-config --libs libcurl) -lm -ldl
LIBEDIT   := $(if $(SHARED),,$B/libedit.o)
SO_LIBS    = $(shell pkg-config --libs libcurl sqlite3 libuv libmicrohttpd libseccomp hiredis zlib \
             yaml-0.1              nettle)
INCLUDES   = -Isrc $(LUA_CFLAGS)
COMPILE    = $(CC) $(CSTD) $(WARN) $(CPPFLAGS) $(CFLAGS) -fPIC -fvisibility=hidden $(INCLUDES) \
             -ffile-prefix-map=$(CURDIR)=. -fdebug-prefix-map=$B=build \
             -DPONDER_VERSION='"$(VERSION)"' -MMD -MP

MODULE_SRC := $(wildcard $(addsuffix /*.c,$(addprefix src/,core loop net store http queue api)))
HOST_SRC   := $(wildcard src/*.c)
MODULE_OBJ := $(MODULE_SRC:%.c=$B/%.o)
HOST_OBJ   := $(HOST_SRC:%.c=$B/%.o)
EMBEDDED   := $(sort $(shell find lua prompts -name '*.lua' -not -path 'lua/ponder/meta/*') \
                scripts/policies/oldest.lua scripts/policies/pareto.lua \
                $(wildcard lua/ponder/show/page/*.* lua/ponder/show/page/vendor/*.*s))
# What scripts/reference makes of comments and tables, embedded too.
REFERENCE  := $(addprefix doc/,completion.json ponder.1 reference.json stubs.json)
# COMMANDS are neither in the library nor in its reference; HOST_ONLY modules need the executable, so
# they are in the reference but not in the library.
COMMANDS   := $(addprefix lua/ponder/,cli/% show/% serve/untrusted.lua serve/untrusted/%)
HOST_ONLY  := $(addprefix lua/ponder/,run/log/rerun.lua run/log/carry.lua run/log/command.lua run/log/rows.lua \
              run/log/tape.lua run/log/playing.lua run/log/writer.lua serve/queue/keeper.lua serve/queue/worker.lua)
LIBRARY    := $(filter-out $(COMMANDS) $(HOST_ONLY),$(EMBEDDED))
DOCUMENTED := $(filter lua/%,$(LIBRARY)) $(HOST_ONLY) $(wildcard lua/ponder/meta/*.lua)

.PHONY: all run test bench soak asan plain fuzz lint clean run-packages test-packages fuzz-packages FORCE
all: $B/ponder $B/ponder.so

$B/ponder: $(HOST_OBJ) $(MODULE_OBJ) $B/embedded.o $B/modules.o $(LIBEDIT)
	@echo "  link    $@"
	@$(CC) $(CFLAGS) $(LDFLAGS) -Wl,-E -o $@ $^ $(LIBS)

# libedit without its private names, some of which are ours, too.
$B/libedit.o: Makefile
	@$(LD) -r -o $@ -u el_init -u history_init "$$($(CC) -print-file-name=libedit.a)"
	@objcopy -w -G 'el_*' -G 'history*' $@

# nodelete: a libcurl thread that is still resolving a name may outlive the Lua state.
$B/ponder.so: $(MODULE_OBJ)
	@echo "  link    $@"
	@$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-z,nodelete -o $@ $^ $(SO_LIBS)

$B/%.o: %.c
	@mkdir -p $(@D)
	@echo "  compile $<"
	@$(COMPILE) -c -o $@ $<
$B/src/host.o $B/src/net/transfer.o: Makefile # VERSION

# Modules are embedded as bytecode, which starts three times as fast; prompts/ and the parts of the
# page as text.
$B/compiled/%.lua: %.lua
	@mkdir -p $(@D)
	@cd lua && luac5.4 -o '$(abspath $@)' $(<:lua/%=%)

# The executable without its reference, which it makes.
$B/first: $(HOST_OBJ) $(MODULE_OBJ) $B/first.o $B/modules.o $(LIBEDIT)
	@$(CC) $(CFLAGS) $(LDFLAGS) -Wl,-E -o $@ $^ $(LIBS)
$B/doc/made: $B/first $(wildcard scripts/reference/*.lua docs/*.md) $(DOCUMENTED)
	@mkdir -p $(@D)
	@echo "  make    $(@D)"
	@ASAN_OPTIONS=$$ASAN_OPTIONS:detect_leaks=0 $B/first run --no-log scripts/reference/main.lua $(@D) $(DOCUMENTED)
	@echo $(DOCUMENTED) > $@

# The embedded files, and a table of them (struct EmbeddedFile in src/host.c).
$B/embedded.S: $B/doc/made
$B/first.S $B/embedded.S: $B/%.S: $B/%.list $(patsubst lua/%.lua,$B/compiled/lua/%.lua,$(EMBEDDED)) Makefile
	@awk 'BEGIN { print ".section .rodata" } \
	    { file = $$0; if (file ~ /[.]lua$$/) sub(/^lua/, "$B/compiled/lua", file); \
	      sub(/^doc/, "$B/doc", file); \
	      printf "t%d: .incbin \"%s\"\ne%d: .byte 0\nn%d: .asciz \"%s\"\n", NR, file, NR, NR, $$0 } \
	    END { print ".section .data.rel.ro,\"aw\"\n.balign 8\n.globl embedded_files\nembedded_files:"; \
	          for (i = 1; i <= NR; i++) printf ".quad n%d, t%d, e%d-t%d\n", i, i, i, i; \
	          print ".quad 0, 0, 0\n.section .note.GNU-stack,\"\",@progbits" }' $< > $@
$B/first.o $B/embedded.o: $B/%.o: $B/%.S
	@$(CC) -c -o $@ $<

# The executable's package.preload: every luaopen_ function of src/api, as luaL_Reg. Rewritten only
# when these change.
$B/modules.c: FORCE
	@mkdir -p $(@D)
	@grep -ho 'luaopen_ponder[a-z_]*' $(wildcard src/api/*.c) | sort -u | awk ' \
	    BEGIN { print "#include <lauxlib.h>" } \
	    { f[NR] = $$0; print "int " $$0 "(lua_State *L);" } \
	    END { print "extern const luaL_Reg builtin_modules[];\nconst luaL_Reg builtin_modules[] = {"; \
	          for (i = 1; i <= NR; i++) { m = substr(f[i], 9); gsub(/_/, ".", m); \
	              printf "    {\"%s\", %s},\n", m, f[i] } print "    {0, 0}};" }' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$B/modules.o: $B/modules.c
	@$(COMPILE) -c -o $@ $<

# The server that the network's specs and benches talk to.
SERVER_SRC := $(wildcard spec/support/server*.c)
$B/server: $(SERVER_SRC) spec/support/server.h Makefile
	@mkdir -p $(@D)
	@echo "  compile $@"
	@$(CC) $(CSTD) $(WARN) $(CFLAGS) -o $@ $(SERVER_SRC) $$(pkg-config --libs libmicrohttpd) -lpthread -lm

$B/curl_multi: scripts/bench/curl_multi.c
	@mkdir -p $(@D)
	@echo "  compile $@"
	@$(CC) $(CSTD) $(WARN) $(CFLAGS) -o $@ $< $$(pkg-config --libs libcurl)

$B/http_minimal: scripts/bench/http_minimal.c
	@mkdir -p $(@D)
	@echo "  compile $@"
	@$(CC) $(CSTD) $(WARN) $(CFLAGS) -o $@ $< $$(pkg-config --libs libmicrohttpd)

# C modules of the specs, built on demand. nodelete: Lua closes libraries before it has freed all
# memory through their allocators.
$B/failing_memory.so $B/failing_disk.so $B/fork.so $B/gc_stress.so $B/one_guard.so: $B/%.so: spec/support/%.c
	@mkdir -p $(@D)
	@$(CC) $(CSTD) $(WARN) $(CFLAGS) -fPIC -shared -Wl,-z,nodelete $(LUA_CFLAGS) -o $@ $<

$B/streams.so: spec/support/streams.c $(patsubst %.c,$B/%.o,$(wildcard src/core/*.c)) $B/src/net/address.o
	@$(CC) $(CSTD) $(WARN) $(CFLAGS) -fPIC -shared $(INCLUDES) -o $@ $^

# Rewritten only when the set of files changes: notices removed files too.
$B/first.list: LIST = $(EMBEDDED)
$B/embedded.list: LIST = $(REFERENCE) $(EMBEDDED)
$B/first.list $B/embedded.list: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(LIST) | cmp -s - $@ || printf '%s\n' $(LIST) > $@

run: run-packages
	@$(MAKE) --no-print-directory all
	$B/ponder run scripts/game24.lua 4 9 10 13

test: run-packages test-packages
	@$(MAKE) --no-print-directory all $B/server
	PONDER_BUILD=$B .ci/run-specs $(SPEC)

# The specs that reach C in a new way: by gcov they run all 7,065 lines of C that the suite runs.
# `make asan ASAN_SPECS=` runs all.
ASAN_SPECS := args boxes budget_cli chat_cli cli eval_score fuzz guard hostile_server import json \
              log_crash log_mutation log_search loop mcp mcp_cli model_batch model_chat net \
              net_descriptors net_queue net_stream offline process queue_job redis repl report \
              sandbox_run search search_cases search_engine search_memory search_misuse search_order \
              search_policy serve serve_cli serve_raw serve_requests state stop_cli store store_faults \
              store_file strategy_run task task_coroutine task_interrupt task_limit task_map untrusted \
              untrusted_calls view yaml
asan: run-packages test-packages
	@$(MAKE) --no-print-directory all $B/asan/server $(FUZZERS:%=$B/asan/fuzz/%_replay) B=$B/asan \
	    CFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
	@$(MAKE) --no-print-directory $B/asan/gc_stress.so B=$B/asan
	PONDER_GC_STRESS=1 PONDER_BUILD=$B/asan \
	    PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
	    .ci/run-specs $(or $(SPEC),$(ASAN_SPECS))

# As if on a system without what only Linux has (src/loop/system.h): the specs that reach it in
# another way than most, and need no confinement.
PLAIN_SPECS := task task_limit task_interrupt task_map loop store store_file net net_stream net_queue \
               redis serve_requests log_crash log_resume search_engine search_policy
plain: run-packages test-packages
	@$(MAKE) --no-print-directory all $B/plain/server B=$B/plain CPPFLAGS=-DPONDER_PLAIN
	PONDER_BUILD=$B/plain .ci/run-specs $(or $(SPEC),$(PLAIN_SPECS))

# libFuzzer targets: spec/fuzz/NAME_fuzz.c with src/core; $B/fuzz/NAME collects the inputs found.
# The executable runs the targets in Lua: see spec/support/fuzz.lua.
FUZZ_SECONDS ?= 10
FUZZERS      := $(patsubst spec/fuzz/%_fuzz.c,%,$(wildcard spec/fuzz/*_fuzz.c))
LUA_FUZZERS  := $(patsubst spec/fuzz/%_fuzz.lua,%,$(wildcard spec/fuzz/*_fuzz.lua))
FUZZ_FLAGS   := -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
$B/fuzz/%_fuzz: spec/fuzz/%_fuzz.c $(wildcard src/core/*.[ch])
	@mkdir -p $(@D)/$*
	@echo "  compile $<"
	@clang $(CSTD) $(WARN) $(FUZZ_FLAGS) -Isrc -o $@ $< $(wildcard src/core/*.c) -lm

# The same targets without libFuzzer: spec/cli/fuzz_spec.lua runs the corpus through them.
$B/fuzz/%_replay: spec/fuzz/%_fuzz.c spec/support/fuzz_replay.c $(patsubst %.c,$B/%.o,$(wildcard src/core/*.c))
	@mkdir -p $(@D)
	@$(CC) $(CSTD) $(WARN) $(CFLAGS) -Isrc -o $@ $^ -lm

fuzz: fuzz-packages
	@$(MAKE) --no-print-directory all $(FUZZERS:%=$B/fuzz/%_fuzz)
	@for name in $(FUZZERS); do echo "  fuzz    $$name"; log=$B/fuzz/$$name.log; \
	    $B/fuzz/$${name}_fuzz -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	        -artifact_prefix=$B/fuzz/$$name- $B/fuzz/$$name >$$log 2>&1 || { tail -n 40 $$log; exit 1; }; \
	    grep executed_units $$log; done
	@for name in $(LUA_FUZZERS); do PONDER_BUILD=$B $B/ponder run --no-log spec/support/fuzz.lua \
	    $$name $(FUZZ_SECONDS) $$(date +%s) || exit 1; done

lint: run-packages test-packages
	luacheck -q lua scripts prompts spec .busted
	clang-format --dry-run -Werror $$(find src spec -name '*.[ch]')

run-packages:
	@sh .ci/install-packages $(RUN_PACKAGES)
test-packages:
	@sh .ci/install-packages $(TEST_PACKAGES)
fuzz-packages:
	@sh .ci/install-packages --say $(RUN_PACKAGES) $(FUZZ_PACKAGES)

$B/empty: scripts/bench/empty.c
	@$(CC) $(CFLAGS) -o $@ $< -Wl,--no-as-needed $(shell pkg-config --libs libcurl) -lm

# EXECUTABLE_BENCHES run in build/ponder, the others in the stock interpreter. $B/missed lists the
# targets that were not reached (scripts/bench/measure.lua) and the benches that failed.
EXECUTABLE_BENCHES := $(addprefix scripts/bench/, model.lua search.lua stopping.lua)
BENCHES := $(filter-out %/measure.lua,$(wildcard scripts/bench/*.lua))
bench: run-packages test-packages
	@$(MAKE) --no-print-directory all $B/empty $B/server $B/curl_multi $B/http_minimal
	@rm -f $B/missed
	@for bench in $(BENCHES); do echo; echo "== $$bench"; \
	    case " $(EXECUTABLE_BENCHES) " in \
	    *" $$bench "*) PONDER_BUILD=$B BENCH=$$bench $B/ponder run --no-log $$bench;; \
	    *) PONDER_BUILD=$B BENCH=$$bench LUA_CPATH="./$B/?.so" \
	        LUA_PATH="./lua/?.lua;./scripts/bench/?.lua;./spec/support/?.lua;;" lua5.4 $$bench;; \
	    esac || echo "$$bench: failed" >>$B/missed; done; \
	    [ ! -s $B/missed ] || { echo; echo "== missed"; cat $B/missed; exit 1; }

# Minutes to hours: see spec/support/soak.lua. An interrupted soak continues where it was.
soak: run-packages test-packages
	@$(MAKE) --no-print-directory all $B/server
	PONDER_BUILD=$B LUA_PATH="./lua/?.lua;./spec/support/?.lua;;" LUA_CPATH="./$B/?.so" \
	    lua5.4 spec/support/soak.lua $(SOAK)
	@$(if $(SOAK),,PONDER_BUILD=$B .ci/run-specs spec/slow/*_spec.lua)

clean:
	rm -rf $B

include scripts/package/package.mk
-include $(MODULE_OBJ:.o=.d) $(HOST_OBJ:.o=.d)

# Packages, built in $B/package; included by the Makefile.
#
#   make install        PREFIX=/usr/local DESTDIR= : the program, and the library for a stock lua5.4
#   make uninstall      removes them; the same PREFIX and DESTDIR
#   make dist           a source archive, reproducible byte for byte from a commit
#   make deb            Debian packages (ponder, lua-ponder), checked by lintian
#   make deb-test       their autopkgtest, in a fresh Debian (needs the network)
#   make rock           the library by luarocks, from ponder-VERSION-1.rockspec
#   make static         an executable that needs no shared library but libc's
#   make release        all of these with install.sh and their checksums, in $B/package/release
#   make image          an OCI image, by buildah, podman or docker
#   make compilers      build with clang and with -O3 -flto, and solve Game of 24 with each
#
# None of these installs anything: each says which packages it needs and lacks.

P       := $B/package
RELEASE := ponder-$(VERSION)
DIST    := $P/$(RELEASE).tar.gz

PACKAGE_PACKAGES := debhelper fakeroot lintian luarocks clang
STATIC_PACKAGES  := libbrotli-dev libidn2-dev libldap-dev libnghttp2-dev libpsl-dev librtmp-dev \
                    libssh2-1-dev libunistring-dev libzstd-dev libgnutls28-dev libkrb5-dev libsasl2-dev \
                    libp11-kit-dev

.PHONY: install install-program install-library uninstall dist deb deb-test rock static release image compilers \
    package-packages static-packages
package-packages:
	@sh .ci/install-packages --say $(RUN_PACKAGES) $(PACKAGE_PACKAGES)
static-packages:
	@sh .ci/install-packages --say $(RUN_PACKAGES) $(STATIC_PACKAGES)

# ---- install ----

LIBDIR   ?= $(PREFIX)/lib
DATADIR  ?= $(PREFIX)/share
ZSHDIR   ?= $(DATADIR)/zsh/site-functions
LUADIR   ?= $(DATADIR)/lua/5.4
CMODDIR  ?= $(LIBDIR)/lua/5.4
EXAMPLES := $(wildcard scripts/*.lua scripts/eval/*.lua scripts/models/* scripts/strategies/*.lua scripts/eval/pools/*)

# Where each part goes. The names may contain spaces.
BIN   = $(DESTDIR)$(PREFIX)/bin/ponder
MAN   = $(DESTDIR)$(DATADIR)/man/man1/ponder.1
BASH  = $(DESTDIR)$(DATADIR)/bash-completion/completions/ponder
ZSH   = $(DESTDIR)$(ZSHDIR)/_ponder
FISH  = $(DESTDIR)$(DATADIR)/fish/vendor_completions.d/ponder.fish
SHARE = $(DESTDIR)$(DATADIR)/ponder
DOC   = $(DESTDIR)$(DATADIR)/doc/ponder
CMOD  = $(DESTDIR)$(CMODDIR)/ponder.so
LUA   = $(DESTDIR)$(LUADIR)

install: install-program install-library

install-program: $B/ponder
	install -D -m 755 $B/ponder "$(BIN)"
	@for file in "$(MAN)" "$(BASH)" "$(ZSH)" "$(FISH)"; do install -d "$${file%/*}" || exit 1; done
	$B/ponder man > "$(MAN)"
	$B/ponder completion bash > "$(BASH)"
	$B/ponder completion zsh > "$(ZSH)"
	$B/ponder completion fish > "$(FISH)"
	chmod 644 "$(MAN)" "$(BASH)" "$(ZSH)" "$(FISH)"
	install -D -m 644 docs/agents.md "$(SHARE)/SKILL.md"
	install -d "$(SHARE)/stubs"
	$B/ponder doc --stubs "$(SHARE)/stubs" >/dev/null
	sed -i 's|"[^"]*/stubs"|"$(DATADIR)/ponder/stubs"|' "$(SHARE)/stubs/.luarc.json"
	chmod -R u=rwX,go=rX "$(SHARE)/stubs"
	install -d "$(DOC)/docs"
	install -m 644 docs/*.md "$(DOC)/docs"
	@for file in $(EXAMPLES); do install -D -m 644 $$file "$(DOC)/examples/$${file#scripts/}" \
	    || exit 1; done

install-library: $B/ponder.so
	install -D -m 644 $B/ponder.so "$(CMOD)"
	@for file in $(LIBRARY); do case $$file in prompts/*|scripts/*) to=ponder/$$file;; *) to=$${file#lua/};; \
	    esac; install -D -m 644 $$file "$(LUA)/$$to" || exit 1; done

uninstall:
	rm -f "$(BIN)" "$(MAN)" "$(BASH)" "$(ZSH)" "$(FISH)" "$(CMOD)"
	rm -rf "$(SHARE)" "$(DOC)/examples" "$(DOC)/docs" "$(LUA)/ponder"
	rmdir "$(DOC)" 2>/dev/null || true

# ---- make dist ----

# Files of an unpacked archive have the date of the commit, so repacking gives the same bytes.
DIST_DATE  = $(or $(SOURCE_DATE_EPOCH),$(shell test -e .git && git log -1 --format=%ct \
                 || stat -c %Y CHANGELOG.md))
DIST_FILES = if test -e .git && git rev-parse 2>/dev/null; then git ls-files -z; \
             else find . -type f -not -path './build/*' -printf '%P\0'; fi

dist:
	@mkdir -p $P
	@$(DIST_FILES) | LC_ALL=C sort -z | tar -c --null -T - --transform 's|^|$(RELEASE)/|' \
	    --format=ustar --mtime=@$(DIST_DATE) --owner=0 --group=0 --numeric-owner \
	    --mode=u+rw,go=rX | gzip -9n > $(DIST).new && mv $(DIST).new $(DIST)
	@echo "  made    $(DIST)"

# Unpacks the archive into a directory.
unpack = rm -rf $(1) && mkdir -p $(1) && tar -xzf $(DIST) -C $(1)

# ---- make deb ----

# Debian packages link shared libraries.
ifdef SHARED
LIBS = $(shell pkg-config --libs libcurl sqlite3 libuv libmicrohttpd libseccomp hiredis libedit zlib yaml-0.1 lua5.4) \
       -llua5.4-cjson -lnettle -lm
endif

D := $P/deb
deb: package-packages dist
	@$(call unpack,$D)
	@cp $(DIST) $D/ponder_$(VERSION).orig.tar.gz
	@cp -r scripts/package/debian $D/$(RELEASE)/debian
	@sed -e 's/VERSION/$(VERSION)/' -e "s/DATE/$$(date -Ru -d @$(DIST_DATE))/" \
	    scripts/package/debian/changelog > $D/$(RELEASE)/debian/changelog
	@cd $D/$(RELEASE) && unset MAKEFLAGS MAKELEVEL MFLAGS && \
	    DEB_BUILD_OPTIONS=parallel=2 dpkg-buildpackage -us -uc -rfakeroot >../build.log 2>&1 \
	    || { tail -n 40 ../build.log; exit 1; }
	@lintian --allow-root --fail-on error,warning $D/*.changes
	@cd $D && ls *.deb

# Run as root; creates the chroot on first use.
deb-test:
	@sh .ci/install-packages --say autopkgtest mmdebstrap
	@test -d $P/debian || mmdebstrap --variant=apt bookworm $P/debian
	@autopkgtest -B -U $D/ponder_$(VERSION)-1.dsc $D/*ponder_*.deb -- chroot "$(abspath $P/debian)"

# ---- make rock ----

R := $P/rock
rock: package-packages dist
	@$(call unpack,$R)
	@sed -e 's/VERSION/$(VERSION)/' scripts/package/ponder.rockspec \
	    > $R/$(RELEASE)/$(RELEASE)-1.rockspec
	@cd $R/$(RELEASE) && unset MAKEFLAGS MAKELEVEL MFLAGS && \
	    luarocks --lua-version 5.4 --tree ../tree make $(RELEASE)-1.rockspec >../build.log 2>&1 \
	    || { tail -n 40 ../build.log; exit 1; }
	@cd / && eval "$$(luarocks --lua-version 5.4 --tree '$(abspath $R/tree)' path)" && \
	    lua5.4 "$(abspath scripts/package/debian/tests/library)"
	@echo "  made    $R/$(RELEASE)/$(RELEASE)-1.rockspec"

# ---- make static ----

# glibc stays shared, since name resolution and Lua's C modules load libraries through it.
STATIC_LIBS = -Wl,-Bstatic,--start-group -llua5.4-cjson -llua5.4 -lsqlite3 -luv_a \
    -lmicrohttpd -lseccomp -lhiredis -lyaml -ltinfo -lbsd -lmd -lcurl -lnghttp2 -lrtmp -lssh2 -lpsl \
    -lidn2 -lunistring -lldap -llber -lzstd -lbrotlidec -lbrotlicommon -lssl -lcrypto -lz -lgnutls \
    -lhogweed -lnettle -lgmp -ltasn1 -Wl,--end-group,-Bdynamic,--exclude-libs,ALL,--as-needed \
    -lresolv -lm -ldl -lpthread

static: static-packages
	@$(MAKE) --no-print-directory $P/ponder-static
	@echo "$P/ponder-static needs these shared libraries:"
	@objdump -p $P/ponder-static | sed -n 's/^ *NEEDED */  /p'

$P/ponder-static: $B/scripts/package/absent.o $(HOST_OBJ) $(MODULE_OBJ) $B/embedded.o $B/modules.o $B/libedit.o
	@mkdir -p $P
	@echo "  link    $@"
	@$(CC) $(CFLAGS) $(LDFLAGS) -Wl,-E -o $@ $^ $(STATIC_LIBS)

# ---- make release ----

# Two builds of one commit are equal byte for byte: cmp says so.
PROGRAM := ponder-$(VERSION)-linux-$(shell uname -m)
release: dist deb rock static
	@rm -rf $P/release && mkdir -p $P/release
	@cp $(DIST) $D/*.deb $R/$(RELEASE)/$(RELEASE)-1.rockspec $P/release
	@objcopy --strip-debug $P/ponder-static $P/release/$(PROGRAM)
	@$(MAKE) --no-print-directory $P/release/install.sh
	@cd $P/release && sha256sum * > SHA256SUMS && cat SHA256SUMS

# It installs the program beside it, and no other.
$P/release/install.sh: scripts/package/install.sh $P/release/$(PROGRAM)
	@sum=$$(sha256sum < $P/release/$(PROGRAM)) && sed -e '/^name=/s/PROGRAM/$(PROGRAM)/' \
	    -e "/^name=/s/SHA256/$${sum%% *}/" -e '2s/VERSION/$(VERSION)/' $< > $@

image: dist
	@$(call unpack,$P/image)
	@builder=$$(command -v buildah podman docker | head -n 1); \
	    [ -n "$$builder" ] || { echo "make image needs buildah, podman or docker" >&2; exit 1; }; \
	    "$$builder" build -f scripts/package/Containerfile -t ponder:$(VERSION) -t ponder $P/image/$(RELEASE)

# ---- make compilers ----

compilers: package-packages
	@$(MAKE) --no-print-directory B=$P/clang CC=clang
	@$P/clang/ponder run --no-log scripts/game24.lua 4 9 10 13
	@$(MAKE) --no-print-directory B=$P/lto CFLAGS="-O3 -flto=auto"
	@$P/lto/ponder run --no-log scripts/game24.lua 4 9 10 13

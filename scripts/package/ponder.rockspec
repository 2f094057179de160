-- The library for a stock Lua 5.4; `make rock` copies this beside the sources and runs luarocks.
rockspec_format = "3.0"
package = "ponder"
version = "VERSION-1"
source = { url = "file://./ponder-VERSION.tar.gz", dir = "ponder-VERSION" }
description = {
    summary = "Search policies and reasoning strategies for language models",
    detailed = [[
Tree searches over a few callbacks (from breadth-first to MCTS, A* and evolution), Tree of Thoughts,
Graph of Thoughts and TRM as machines without I/O, a client of language models with many calls in
flight, and a run log that resumes, replays and forks.]],
    license = "MIT",
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.4, < 5.5" }
external_dependencies = {
    CURL = { library = "curl" },
    SQLITE3 = { header = "sqlite3.h" },
    UV = { header = "uv.h" },
    MICROHTTPD = { header = "microhttpd.h" },
    SECCOMP = { header = "seccomp.h" },
    HIREDIS = { header = "hiredis/hiredis.h" },
    ZLIB = { header = "zlib.h" },
    YAML = { header = "yaml.h" },
    NETTLE = { header = "nettle/sha2.h" },
}
build = {
    type = "make",
    copy_directories = { "docs" },
    build_target = "build/ponder.so",
    build_variables = { LUA_CFLAGS = "-I$(LUA_INCDIR)", WERROR = "" },
    install_target = "install-library",
    install_variables = { LUA_CFLAGS = "-I$(LUA_INCDIR)", WERROR = "", LUADIR = "$(LUADIR)",
        CMODDIR = "$(LIBDIR)" },
}

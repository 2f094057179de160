/*
 * host.c -- the Lua state that scripts run in.
 *
 *   allocator   memory.c: malloc within limits, for C and Lua
 *   libraries   Lua's own, lua-cjson, the C modules of src/api, and hostlib.c
 *   loaders     "ponder.*" and "prompts.*" from the executable, then files beside the script;
 *               neither the working directory nor any system path is searched
 *   guards      what scripts may not do with Lua's own library: guard.c
 *   output      what could not be written to standard output is an error, not lost
 *
 * The command line itself is Lua: lua/ponder/cli.lua.
 */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lua-cjson.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/offline.h"
#include "guard.h"
#include "hostlib.h"
#include "memory.h"

/* A cycle of the collector begins when memory in use is so many percent of what the last one left.
 * What a script holds by the gigabyte (nodes, graphs, replies on their way) is C's and not walked:
 * Lua's part is small, and Lua's own 200 costs a tenth of the CPU time of a model call. */
enum { GC_PAUSE = 300 };

struct Host {
    lua_State *L;
    Memory memory;
};

int luaopen_cjson_safe(lua_State *L); /* lua-cjson.h leaves it out */

extern const luaL_Reg builtin_modules[]; /* made by the Makefile from src/api */

/* ---- loaders ---- */

/* "ponder.search" -> lua/ponder/search.lua, which is built in compiled; "prompts.tot" ->
 * prompts/tot.lua, which is text. */
static int search_embedded(lua_State *L)
{
    const char *module = luaL_checkstring(L, 1);
    const char *path = luaL_gsub(L, module, ".", "/");
    bool is_prompt = strncmp(module, "prompts.", 8) == 0;
    const char *name = lua_pushfstring(L, is_prompt ? "%s.lua" : "lua/%s.lua", path);
    const EmbeddedFile *file = embedded_find(name);
    if (file == NULL) {
        lua_pushfstring(L, "no built-in file '%s'", name);
        return 1;
    }
    const char *chunk_name = lua_pushfstring(L, "@%s.lua", path);
    const char *mode = is_prompt ? "t" : "b";
    if (luaL_loadbufferx(L, file->content, file->size, chunk_name, mode) != LUA_OK)
        return lua_error(L);
    lua_pushstring(L, name);
    return 2;
}

/* Loads `directory/name.lua` or `directory/name/init.lua` of the running script's directory. */
static int search_beside_script(lua_State *L)
{
    const char *module = luaL_checkstring(L, 1);
    if (strcmp(module, "ponder") == 0 || strncmp(module, "ponder.", 7) == 0) {
        lua_pushliteral(L, "names from 'ponder' on are not looked for beside the script");
        return 1;
    }
    if (lua_getfield(L, LUA_REGISTRYINDEX, "ponder.script_directory") != LUA_TSTRING) {
        lua_pushliteral(L,
                        "no script directory to search (code came from -e, a pipe or the prompt)");
        return 1;
    }
    const char *path = luaL_gsub(L, module, ".", "/");
    static const char *const patterns[] = {"%s/%s.lua", "%s/%s/init.lua"};
    for (size_t i = 0; i < 2; i++) {
        const char *file = lua_pushfstring(L, patterns[i], lua_tostring(L, 2), path);
        if (access(file, R_OK) != 0)
            continue;
        if (luaL_loadfilex(L, file, "t") != LUA_OK)
            return luaL_error(L, "cannot load module '%s': %s", module, lua_tostring(L, -1));
        lua_pushstring(L, file);
        return 2;
    }
    lua_pushfstring(L, "no file '%s/%s.lua' beside the script", lua_tostring(L, 2), path);
    return 1;
}

/* package.searchers = {preload, built-in files, files beside the script}; no path is searched. */
static void set_searchers(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "searchers"); /* package, searchers */
    lua_pushcfunction(L, search_embedded);
    lua_rawseti(L, -2, 2);
    lua_pushcfunction(L, search_beside_script);
    lua_rawseti(L, -2, 3);
    lua_pushnil(L);
    lua_rawseti(L, -2, 4);
    lua_pop(L, 1);
    lua_pushliteral(L, "");
    lua_setfield(L, -2, "path");
    lua_pushliteral(L, "");
    lua_setfield(L, -2, "cpath");
    lua_pop(L, 1);
}

static void preload(lua_State *L, const char *name, lua_CFunction open)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushcfunction(L, open);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

/* ---- opening, running, closing ---- */

static int open_libraries(lua_State *L)
{
    luaL_openlibs(L);
    set_searchers(L);
    guard_library(L);
    offline_guard(L);
    preload(L, "cjson", luaopen_cjson);
    preload(L, "cjson.safe", luaopen_cjson_safe);
    preload(L, "ponder.core.host", hostlib_open);
    for (const luaL_Reg *module = builtin_modules; module->name != NULL; module++)
        preload(L, module->name, module->func);
    return 0;
}

Host *host_open(void)
{
    Host *host = calloc(1, sizeof *host);
    if (host == NULL)
        return NULL;
    host->memory = memory_new();
    host->L = lua_newstate(memory_resize, &host->memory);
    if (host->L == NULL) {
        free(host);
        return NULL;
    }
    lua_gc(host->L, LUA_GCINC, GC_PAUSE, 0, 0);
    lua_pushcfunction(host->L, open_libraries);
    if (lua_pcall(host->L, 0, 0, 0) != LUA_OK) {
        host_close(host);
        return NULL;
    }
    return host;
}

static int with_traceback(lua_State *L)
{
    const char *message = luaL_tolstring(L, 1, NULL);
    luaL_traceback(L, L, message, 1);
    return 1;
}

/* Arguments: argv as a light userdata, argc. Returns what cli.main(argv) returns. */
static int run_command_line(lua_State *L)
{
    char **argv = lua_touserdata(L, 1);
    lua_Integer argc = lua_tointeger(L, 2);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "ponder.cli");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "main");
    lua_createtable(L, (int)argc, 0);
    for (lua_Integer i = 0; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i);
    }
    lua_call(L, 1, 1);
    return 1;
}

int host_main(Host *host, int argc, char **argv)
{
    lua_State *L = host->L;
    lua_pushcfunction(L, with_traceback);
    lua_pushcfunction(L, run_command_line);
    lua_pushlightuserdata(L, argv);
    lua_pushinteger(L, argc);
    int status = 1;
    if (lua_pcall(L, 2, 1, -4) == LUA_OK)
        status = (int)lua_tointeger(L, -1);
    else
        fprintf(stderr, "ponder: %s\n", lua_tostring(L, -1));
    lua_settop(L, 0);
    return status;
}

/* ---- standard streams ---- */

/* Runs when the process exits, by whatever way: os.exit and closing a state check nothing. */
static void check_output(void)
{
    errno = 0;
    bool failed = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !failed)
        return;
    fprintf(stderr, "ponder: cannot write to standard output%s%s\n", errno != 0 ? ": " : "",
            errno != 0 ? strerror(errno) : "");
    _exit(EXIT_FAILURE);
}

void host_guard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
    atexit(check_output);
}

void host_close(Host *host)
{
    lua_close(host->L);
    free(host);
}

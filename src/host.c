/*
 * host.c -- the Lua state that scripts run in.
 *
 *   allocator   memory.c: malloc within limits, for C and Lua
 *   libraries   Lua's own, lua-cjson, and the C modules of src/api
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
#include <time.h>
#include <unistd.h>

#include "api/l_task.h"
#include "api/offline.h"
#include "guard.h"
#include "memory.h"
#include "signals.h"

/* A cycle of the collector begins when memory in use is so many percent of what the last one left.
 * What a script holds by the gigabyte (nodes, graphs, replies on their way) is C's and not walked:
 * Lua's part is small, and Lua's own 200 costs a tenth of the CPU time of a model call. */
enum { GC_PAUSE = 300 };

struct Host {
    lua_State *L;
    Memory memory;
};

int luaopen_cjson_safe(lua_State *L); /* lua-cjson.h leaves it out */

extern const EmbeddedFile embedded_files[]; /* made by the Makefile from lua/ and prompts/ */
extern const luaL_Reg builtin_modules[];    /* made by the Makefile from src/api */

/* ---- the module ponder.core.host ---- */

static Memory *this_memory(lua_State *L)
{
    void *ud;
    lua_getallocf(L, &ud);
    return ud;
}

static size_t to_bytes(lua_State *L)
{
    lua_Integer mb = luaL_checkinteger(L, 1);
    luaL_argcheck(L, mb >= 1 && mb <= 1 << 30, 1, "out of range");
    return (size_t)mb << 20;
}

/* host.limit_memory(mb): allocations beyond so many mebibytes in use fail. */
static int host_limit_memory(lua_State *L)
{
    memory_limit_bytes(this_memory(L), to_bytes(L));
    return 0;
}

/* host.limit_resident(mb): so do those that make the process take more from the system. */
static int host_limit_resident(lua_State *L)
{
    memory_limit_resident(this_memory(L), to_bytes(L));
    return 0;
}

/* host.group_limit(groups, mounted) -> bytes that control groups allow, or nil; for specs */
static int host_group_limit(lua_State *L)
{
    size_t limit = memory_group_limit(luaL_checkstring(L, 1), luaL_checkstring(L, 2));
    if (limit > LUA_MAXINTEGER)
        return 0;
    lua_pushinteger(L, (lua_Integer)limit);
    return 1;
}

/* host.memory() -> bytes in use, limit in bytes, bytes that the process has of the system. */
static int host_memory(lua_State *L)
{
    const Memory *m = this_memory(L);
    lua_pushinteger(L, (lua_Integer)m->bytes);
    lua_pushinteger(L, (lua_Integer)m->bytes_limit);
    lua_pushinteger(L, (lua_Integer)memory_resident());
    return 3;
}

static const EmbeddedFile *find_embedded(const char *name)
{
    for (const EmbeddedFile *file = embedded_files; file->name != NULL; file++)
        if (strcmp(file->name, name) == 0)
            return file;
    return NULL;
}

/* host.embedded(name) -> content of a built-in file (a prompt's text, a module's code), or nil. */
static int host_embedded(lua_State *L)
{
    const EmbeddedFile *file = find_embedded(luaL_checkstring(L, 1));
    if (file == NULL)
        return 0;
    lua_pushlstring(L, file->content, file->size);
    return 1;
}

/* host.embedded_names() -> list of the built-in files' names. */
static int host_embedded_names(lua_State *L)
{
    lua_newtable(L);
    for (lua_Integer i = 0; embedded_files[i].name != NULL; i++) {
        lua_pushstring(L, embedded_files[i].name);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* host.has_module(name) -> whether a module of that name is built in. */
static int host_has_module(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    const char *path = luaL_gsub(L, name, ".", "/");
    const char *file = lua_pushfstring(L, "lua/%s.lua", path);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    bool preloaded = lua_getfield(L, -1, name) != LUA_TNIL;
    lua_pushboolean(L, preloaded || find_embedded(file) != NULL);
    return 1;
}

/* host.set_script_folder(path|nil): where `require` looks for a script's own modules. */
static int host_set_script_folder(lua_State *L)
{
    lua_settop(L, 1);
    if (!lua_isnil(L, 1))
        luaL_checkstring(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "ponder.script_folder");
    return 0;
}

/* host.absolute(path) -> the path with symbolic links resolved, or nil, message. */
static int host_absolute(lua_State *L)
{
    char *path = realpath(luaL_checkstring(L, 1), NULL);
    if (path == NULL)
        return luaL_fileresult(L, 0, lua_tostring(L, 1));
    lua_pushstring(L, path);
    free(path);
    return 1;
}

/* host.go_on(): for a loop that goes on after Ctrl-C: nothing is to stop any more. */
static int host_go_on(lua_State *L)
{
    (void)L;
    signals_forget();
    return 0;
}

/* host.limit_time(seconds): what runs then is stopped. */
static int host_limit_time(lua_State *L)
{
    double seconds = luaL_checknumber(L, 1);
    luaL_argcheck(L, seconds >= 0, 1, "out of range");
    signals_limit_time(seconds);
    return 0;
}

/* host.stop_status() -> the exit status of a run that was stopped. */
static int host_stop_status(lua_State *L)
{
    lua_pushinteger(L, signals_status());
    return 1;
}

/* host.time_is_up() -> whether that time has passed. */
static int host_time_is_up(lua_State *L)
{
    lua_pushboolean(L, signals_time_is_up());
    return 1;
}

/* host.is_terminal(fd) -> whether a file descriptor (0, 1, 2) is a terminal. */
static int host_is_terminal(lua_State *L)
{
    lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
    return 1;
}

/* host.time() -> seconds since 1970, with fractions. */
static int host_time(lua_State *L)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    lua_pushnumber(L, (lua_Number)now.tv_sec + (lua_Number)now.tv_nsec / 1e9);
    return 1;
}

/* host.set_environment(name, value|nil): for this process and those that it starts. */
static int host_set_environment(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1), *value = luaL_optstring(L, 2, NULL);
    int failed = value != NULL ? setenv(name, value, 1) : unsetenv(name);
    return failed != 0 ? luaL_fileresult(L, 0, name) : (lua_pushboolean(L, 1), 1);
}

/* host.directory([path]) -> the working directory, after a change to path; or nil, message. */
static int host_directory(lua_State *L)
{
    const char *path = luaL_optstring(L, 1, NULL);
    if (path != NULL && chdir(path) != 0)
        return luaL_fileresult(L, 0, path);
    char *now = getcwd(NULL, 0);
    if (now == NULL)
        return luaL_fileresult(L, 0, ".");
    lua_pushstring(L, now);
    free(now);
    return 1;
}

/* host.process() -> this process's number, this machine's name. */
static int host_process(lua_State *L)
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    lua_pushinteger(L, getpid());
    lua_pushstring(L, name);
    return 2;
}

/* host.begin_replay(): from here on what a log has no results of is refused; see offline.h. */
static int host_begin_replay(lua_State *L)
{
    (void)L;
    offline_begin();
    return 0;
}

static int open_host_module(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"absolute", host_absolute},
        {"begin_replay", host_begin_replay},
        {"directory", host_directory},
        {"embedded", host_embedded},
        {"embedded_names", host_embedded_names},
        {"go_on", host_go_on},
        {"has_module", host_has_module},
        {"is_terminal", host_is_terminal},
        {"group_limit", host_group_limit},
        {"limit_memory", host_limit_memory},
        {"limit_resident", host_limit_resident},
        {"limit_time", host_limit_time},
        {"memory", host_memory},
        {"process", host_process},
        {"set_environment", host_set_environment},
        {"set_script_folder", host_set_script_folder},
        {"stop_status", host_stop_status},
        {"time", host_time},
        {"time_is_up", host_time_is_up},
        {NULL, NULL},
    };
    luaL_newlib(L, functions);
    lua_pushliteral(L, PONDER_VERSION);
    lua_setfield(L, -2, "version");
    return 1;
}

/* ---- loaders ---- */

/* "ponder.search" -> lua/ponder/search.lua, which is built in compiled; "prompts.tot" ->
 * prompts/tot.lua, which is text. */
static int search_embedded(lua_State *L)
{
    const char *module = luaL_checkstring(L, 1);
    const char *path = luaL_gsub(L, module, ".", "/");
    bool is_prompt = strncmp(module, "prompts.", 8) == 0;
    const char *name = lua_pushfstring(L, is_prompt ? "%s.lua" : "lua/%s.lua", path);
    const EmbeddedFile *file = find_embedded(name);
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

/* Loads `folder/name.lua` or `folder/name/init.lua` of the running script's folder. */
static int search_beside_script(lua_State *L)
{
    const char *module = luaL_checkstring(L, 1);
    if (strcmp(module, "ponder") == 0 || strncmp(module, "ponder.", 7) == 0) {
        lua_pushliteral(L, "names from 'ponder' on are not looked for beside the script");
        return 1;
    }
    if (lua_getfield(L, LUA_REGISTRYINDEX, "ponder.script_folder") != LUA_TSTRING) {
        lua_pushliteral(L, "no script folder to search (code came from -e, a pipe or the prompt)");
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
    preload(L, "ponder.core.host", open_host_module);
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

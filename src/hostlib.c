/*
 * hostlib.c -- see hostlib.h.
 */
#include "hostlib.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/offline.h"
#include "memory.h"
#include "signals.h"

extern const EmbeddedFile embedded_files[]; /* made by the Makefile from lua/ and prompts/ */

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

const EmbeddedFile *embedded_find(const char *name)
{
    for (const EmbeddedFile *file = embedded_files; file->name != NULL; file++)
        if (strcmp(file->name, name) == 0)
            return file;
    return NULL;
}

/* host.embedded(name) -> content of a built-in file (a prompt's text, a module's code), or nil. */
static int host_embedded(lua_State *L)
{
    const EmbeddedFile *file = embedded_find(luaL_checkstring(L, 1));
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
    lua_pushboolean(L, preloaded || embedded_find(file) != NULL);
    return 1;
}

/* host.set_script_directory(path|nil): where `require` looks for a script's own modules. */
static int host_set_script_directory(lua_State *L)
{
    lua_settop(L, 1);
    if (!lua_isnil(L, 1))
        luaL_checkstring(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "ponder.script_directory");
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

int hostlib_open(lua_State *L)
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
        {"set_script_directory", host_set_script_directory},
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

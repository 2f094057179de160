/*
 * offline.c -- see offline.h.
 *
 * A guard calls the function that it stands for directly, as C: in an upvalue, or in a frame of its
 * own, a script could get hold of it with the debug library.
 */
#include "api/offline.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

static bool is_offline;

static struct {
    lua_CFunction io_open, io_output, io_popen, io_tmpfile;
    lua_CFunction os_execute, os_remove, os_rename, os_tmpname;
    lua_CFunction package_loadlib;
} original;

void offline_begin(void)
{
    is_offline = true;
}

void offline_refuse(lua_State *L, const char *call)
{
    if (!is_offline)
        return;
    luaL_error(L,
               "NOT_IN_REPLAY: %s: a replay runs no program, writes no file and opens no socket; "
               "wrap what the log is to keep in log.record",
               call);
}

/* Reading is allowed: what a file says may have changed, but nothing comes of it outside. */
static int guard_io_open(lua_State *L)
{
    if (strpbrk(luaL_optstring(L, 2, "r"), "wa+") != NULL)
        offline_refuse(L, "io.open for writing");
    return original.io_open(L);
}

static int guard_io_output(lua_State *L)
{
    if (lua_type(L, 1) == LUA_TSTRING)
        offline_refuse(L, "io.output");
    return original.io_output(L);
}

static int guard_io_popen(lua_State *L)
{
    offline_refuse(L, "io.popen");
    return original.io_popen(L);
}

static int guard_io_tmpfile(lua_State *L)
{
    offline_refuse(L, "io.tmpfile");
    return original.io_tmpfile(L);
}

static int guard_os_execute(lua_State *L)
{
    offline_refuse(L, "os.execute");
    return original.os_execute(L);
}

static int guard_os_remove(lua_State *L)
{
    offline_refuse(L, "os.remove");
    return original.os_remove(L);
}

static int guard_os_rename(lua_State *L)
{
    offline_refuse(L, "os.rename");
    return original.os_rename(L);
}

static int guard_os_tmpname(lua_State *L)
{
    offline_refuse(L, "os.tmpname");
    return original.os_tmpname(L);
}

static int guard_package_loadlib(lua_State *L)
{
    offline_refuse(L, "package.loadlib");
    return original.package_loadlib(L);
}

/* Sets field `name` of the table on top of the stack; what it was goes to *out. */
static void guard(lua_State *L, const char *name, lua_CFunction function, lua_CFunction *out)
{
    lua_getfield(L, -1, name);
    *out = lua_tocfunction(L, -1);
    lua_pop(L, 1);
    lua_pushcfunction(L, function);
    lua_setfield(L, -2, name);
}

void offline_guard(lua_State *L)
{
    lua_getglobal(L, "io");
    guard(L, "open", guard_io_open, &original.io_open);
    guard(L, "output", guard_io_output, &original.io_output);
    guard(L, "popen", guard_io_popen, &original.io_popen);
    guard(L, "tmpfile", guard_io_tmpfile, &original.io_tmpfile);
    lua_getglobal(L, "os");
    guard(L, "execute", guard_os_execute, &original.os_execute);
    guard(L, "remove", guard_os_remove, &original.os_remove);
    guard(L, "rename", guard_os_rename, &original.os_rename);
    guard(L, "tmpname", guard_os_tmpname, &original.os_tmpname);
    lua_getglobal(L, "package");
    guard(L, "loadlib", guard_package_loadlib, &original.package_loadlib);
    lua_pop(L, 3);
}

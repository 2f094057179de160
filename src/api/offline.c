/*
 * offline.c -- see offline.h. A guard calls the original function directly from C: in an upvalue
 * or a Lua frame, the debug library would find it.
 */
#include "api/offline.h"

#include <stdbool.h>
#include <string.h>

#include "api/api.h"

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

/* Reading is allowed: it has no effect outside. */
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

#define GUARD(library, name)                                                                       \
    static int guard_##library##_##name(lua_State *L)                                              \
    {                                                                                              \
        offline_refuse(L, #library "." #name);                                                     \
        return original.library##_##name(L);                                                       \
    }

GUARD(io, popen)
GUARD(io, tmpfile)
GUARD(os, execute)
GUARD(os, remove)
GUARD(os, rename)
GUARD(os, tmpname)
GUARD(package, loadlib)

void offline_guard(lua_State *L)
{
    lua_getglobal(L, "io");
    api_replace(L, "open", guard_io_open, &original.io_open);
    api_replace(L, "output", guard_io_output, &original.io_output);
    api_replace(L, "popen", guard_io_popen, &original.io_popen);
    api_replace(L, "tmpfile", guard_io_tmpfile, &original.io_tmpfile);
    lua_getglobal(L, "os");
    api_replace(L, "execute", guard_os_execute, &original.os_execute);
    api_replace(L, "remove", guard_os_remove, &original.os_remove);
    api_replace(L, "rename", guard_os_rename, &original.os_rename);
    api_replace(L, "tmpname", guard_os_tmpname, &original.os_tmpname);
    lua_getglobal(L, "package");
    api_replace(L, "loadlib", guard_package_loadlib, &original.package_loadlib);
    lua_pop(L, 3);
}

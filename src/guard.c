/*
 * guard.c -- see guard.h.
 *
 *   pcall, xpcall             rethrow an error that ends the task: see task_coroutine.h
 *   load, loadfile, dofile    text only: Lua does not verify binary code
 *   debug.sethook             refused while a limit of the run uses the one hook there is
 *   io.open for writing, io.output, popen, tmpfile, os.execute, remove, rename, tmpname,
 *   package.loadlib           refused in a replay: see api/api.h
 *
 * The rest of the debug library stays as it is: like machine code of package.loadlib, it can break
 * a process whose script wants that.
 */
#include "guard.h"

#include <string.h>

#include "api/api.h"
#include "api/task_coroutine.h"

/* The replaced functions. The guards call them directly from C: in an upvalue or a Lua frame, the
 * debug library would find them. */
static struct {
    lua_CFunction load, loadfile, sethook, io_open, io_output, io_popen, io_tmpfile;
    lua_CFunction os_execute, os_remove, os_rename, os_tmpname, package_loadlib;
} original;

/* ---- replays ---- */

/* Reading is allowed in a replay: it has no effect outside. */
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

#define REFUSED(library, name)                                                                     \
    static int guard_##library##_##name(lua_State *L)                                              \
    {                                                                                              \
        offline_refuse(L, #library "." #name);                                                     \
        return original.library##_##name(L);                                                       \
    }

REFUSED(io, popen)
REFUSED(io, tmpfile)
REFUSED(os, execute)
REFUSED(os, remove)
REFUSED(os, rename)
REFUSED(os, tmpname)
REFUSED(package, loadlib)

/* ---- text only ---- */

/* Calls load or loadfile with its argument `mode`, at that index, set to "t". */
static int load_text_only(lua_State *L, int mode, lua_CFunction load)
{
    const char *asked = luaL_optstring(L, mode, "t");
    if (strchr(asked, 't') == NULL) {
        lua_pushnil(L);
        lua_pushfstring(L, "binary Lua code is refused (mode is '%s')", asked);
        return 2;
    }
    if (lua_gettop(L) < mode)
        lua_settop(L, mode);
    lua_pushliteral(L, "t");
    lua_replace(L, mode);
    return load(L);
}

static int guard_load(lua_State *L)
{
    return load_text_only(L, 3, original.load);
}

static int guard_loadfile(lua_State *L)
{
    return load_text_only(L, 2, original.loadfile);
}

static int after_dofile(lua_State *L, int status, lua_KContext ctx)
{
    (void)status, (void)ctx;
    return lua_gettop(L) - 1;
}

static int text_dofile(lua_State *L)
{
    const char *name = luaL_optstring(L, 1, NULL);
    lua_settop(L, 1);
    if (luaL_loadfilex(L, name, "t") != LUA_OK)
        return lua_error(L);
    lua_callk(L, 0, LUA_MULTRET, 0, after_dofile);
    return after_dofile(L, LUA_OK, 0);
}

/* ---- debug ---- */

static int guard_sethook(lua_State *L)
{
    lua_State *of = lua_isthread(L, 1) ? lua_tothread(L, 1) : L;
    if (stop_is_armed() || stop_has_hook(of))
        return luaL_error(L, "no hook can be set while a limit of the run is watched");
    return original.sethook(L);
}

/* ---- installing them ---- */

/* Replaces a C function in the table on top of the stack; stores the old one in *out if given. */
static void replace(lua_State *L, const char *name, lua_CFunction function, lua_CFunction *out)
{
    if (out != NULL) {
        lua_getfield(L, -1, name);
        *out = lua_tocfunction(L, -1);
        lua_pop(L, 1);
    }
    lua_pushcfunction(L, function);
    lua_setfield(L, -2, name);
}

void guard_library(lua_State *L)
{
    lua_pushglobaltable(L);
    coroutine_guard_calls(L);
    replace(L, "load", guard_load, &original.load);
    replace(L, "loadfile", guard_loadfile, &original.loadfile);
    replace(L, "dofile", text_dofile, NULL);
    lua_getfield(L, -1, "debug");
    replace(L, "sethook", guard_sethook, &original.sethook);
    lua_getglobal(L, "io");
    replace(L, "open", guard_io_open, &original.io_open);
    replace(L, "output", guard_io_output, &original.io_output);
    replace(L, "popen", guard_io_popen, &original.io_popen);
    replace(L, "tmpfile", guard_io_tmpfile, &original.io_tmpfile);
    lua_getglobal(L, "os");
    replace(L, "execute", guard_os_execute, &original.os_execute);
    replace(L, "remove", guard_os_remove, &original.os_remove);
    replace(L, "rename", guard_os_rename, &original.os_rename);
    replace(L, "tmpname", guard_os_tmpname, &original.os_tmpname);
    lua_getglobal(L, "package");
    replace(L, "loadlib", guard_package_loadlib, &original.package_loadlib);
    lua_pop(L, 5);
}

/*
 * guard.c -- see guard.h.
 *
 *   pcall, xpcall             rethrow an error that ends the task: see task_coroutine.h
 *   load, loadfile, dofile    text only: Lua does not verify binary code
 *   debug.setmetatable        refused for userdata: C functions recognize it by its metatable
 *   debug.setuservalue        refused: C functions rely on the user values of their userdata
 *   debug.setlocal            refused in frames of C functions, which may hold pointers into values
 *   debug.setupvalue          refused for C functions
 *   debug.sethook             refused while a limit of the run uses the one hook there is
 *   debug.getregistry         returns a copy: C code looks up its metatables in the registry
 *
 *   io.open, popen, lines     add a hint when descriptors have run out; so do loadfile and dofile
 *   io.open, tmpfile          child processes do not inherit the file
 *   io.open for writing, io.output, popen, tmpfile, os.execute, remove, rename, tmpname,
 *   package.loadlib           refused in a replay: see api/offline.h
 *
 * Otherwise package.loadlib stays: machine code can crash the process anyway.
 */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "api/api.h"
#include "api/offline.h"
#include "api/task_coroutine.h"
#include "loop/loop.h"

/* The replaced functions. The guards call them directly from C: in an upvalue or a Lua frame, the
 * debug library would find them. */
static struct {
    lua_CFunction load, loadfile, setmetatable, setlocal, setupvalue, sethook, io_lines;
    lua_CFunction io_open, io_output, io_popen, io_tmpfile;
    lua_CFunction os_execute, os_remove, os_rename, os_tmpname, package_loadlib;
} original;

/* ---- descriptors ---- */

/* Adds the hint to a message on top of the stack. */
static void add_hint(lua_State *L, int error)
{
    lua_pushstring(L, loop_descriptor_hint(error));
    lua_concat(L, 2);
}

/* The results of a function that returns nil, message, errno where it fails. */
static int hint_at_results(lua_State *L, int results)
{
    if (results == 3 && lua_isnil(L, -3)) {
        lua_pushvalue(L, -2);
        add_hint(L, (int)lua_tointeger(L, -2));
        lua_replace(L, -3);
    }
    return results;
}

static int close_in_children(lua_State *L, int results)
{
    luaL_Stream *stream = luaL_testudata(L, -1, LUA_FILEHANDLE);
    if (stream != NULL)
        fcntl(fileno(stream->f), F_SETFD, FD_CLOEXEC);
    return results;
}

/* Reading is allowed in a replay: it has no effect outside. */
static int guard_io_open(lua_State *L)
{
    if (strpbrk(luaL_optstring(L, 2, "r"), "wa+") != NULL)
        offline_refuse(L, "io.open for writing");
    return hint_at_results(L, close_in_children(L, original.io_open(L)));
}

static int guard_io_tmpfile(lua_State *L)
{
    offline_refuse(L, "io.tmpfile");
    return close_in_children(L, original.io_tmpfile(L));
}

static int guard_io_lines(lua_State *L)
{
    int count = lua_gettop(L);
    lua_pushcfunction(L, original.io_lines);
    lua_insert(L, 1);
    errno = 0;
    if (lua_pcall(L, count, LUA_MULTRET, 0) == LUA_OK)
        return lua_gettop(L);
    if (lua_type(L, -1) != LUA_TSTRING)
        return lua_error(L);
    add_hint(L, errno);
    return luaL_error(L, "%s", lua_tostring(L, -1));
}

static int guard_io_popen(lua_State *L)
{
    offline_refuse(L, "io.popen");
    return hint_at_results(L, original.io_popen(L));
}

/* ---- replays ---- */

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
    errno = 0;
    int results = load(L);
    if (results == 2 && lua_type(L, -1) == LUA_TSTRING)
        add_hint(L, errno);
    return results;
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
    errno = 0;
    if (luaL_loadfilex(L, name, "t") != LUA_OK) {
        add_hint(L, errno);
        return lua_error(L);
    }
    lua_callk(L, 0, LUA_MULTRET, 0, after_dofile);
    return after_dofile(L, LUA_OK, 0);
}

/* ---- debug ---- */

static int guard_setmetatable(lua_State *L)
{
    luaL_argcheck(L, lua_type(L, 1) != LUA_TUSERDATA, 1,
                  "the metatable of a userdata cannot be changed");
    return original.setmetatable(L);
}

static int refuse_setuservalue(lua_State *L)
{
    return luaL_argerror(L, 1, "the values of a userdata cannot be changed");
}

static int guard_setlocal(lua_State *L)
{
    int at = lua_isthread(L, 1) ? 2 : 1;
    lua_State *of = at == 2 ? lua_tothread(L, 1) : L;
    lua_Integer level = luaL_checkinteger(L, at);
    lua_Debug frame;
    luaL_argcheck(L, lua_getstack(of, (int)level, &frame), at, "level out of range");
    lua_getinfo(of, "S", &frame);
    luaL_argcheck(L, strcmp(frame.what, "C") != 0, at, "level of a C function");
    return original.setlocal(L);
}

static int guard_setupvalue(lua_State *L)
{
    luaL_argcheck(L, !lua_iscfunction(L, 1), 1, "upvalues of a C function cannot be changed");
    return original.setupvalue(L);
}

static int guard_sethook(lua_State *L)
{
    lua_State *of = lua_isthread(L, 1) ? lua_tothread(L, 1) : L;
    if (stop_is_armed() || stop_has_hook(of))
        return luaL_error(L, "no hook can be set while a limit of the run is watched");
    return original.sethook(L);
}

static int copy_registry(lua_State *L)
{
    lua_newtable(L);
    lua_pushnil(L);
    while (lua_next(L, LUA_REGISTRYINDEX)) { /* copy, key, value */
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
    return 1;
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
    replace(L, "setmetatable", guard_setmetatable, &original.setmetatable);
    replace(L, "setuservalue", refuse_setuservalue, NULL);
    replace(L, "setlocal", guard_setlocal, &original.setlocal);
    replace(L, "setupvalue", guard_setupvalue, &original.setupvalue);
    replace(L, "sethook", guard_sethook, &original.sethook);
    replace(L, "getregistry", copy_registry, NULL);
    lua_getglobal(L, "io");
    replace(L, "open", guard_io_open, &original.io_open);
    replace(L, "lines", guard_io_lines, &original.io_lines);
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

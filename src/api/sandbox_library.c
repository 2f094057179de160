/*
 * sandbox_library.c -- Lua's pure library, for sandboxes (sandbox.h).
 *
 *   base          without print, warn, collectgarbage, dofile, loadfile; load accepts text only
 *   coroutine     a new one is charged the steps that it may run uncounted
 *   string        without dump
 *   math          random always starts with the same seed
 *   os            only time (now), clock, difftime
 *   table, utf8
 */
#include <lauxlib.h>
#include <lualib.h>
#include <time.h>

#include "api/sandbox.h"

static int load_text(lua_State *S)
{
    lua_Integer n = lua_gettop(S);
    if (n < 3)
        lua_settop(S, 3);
    lua_pushliteral(S, "t");
    lua_replace(S, 3);
    lua_pushvalue(S, lua_upvalueindex(1));
    lua_insert(S, 1);
    lua_call(S, lua_gettop(S) - 1, LUA_MULTRET);
    return lua_gettop(S);
}

/* Each coroutine starts its own count, so the steps up to its first hook are charged in advance. */
static int charge_coroutine(lua_State *S)
{
    Sandbox *s = sandbox_of(S);
    sandbox_charge(s, s->interval);
    lua_pushvalue(S, lua_upvalueindex(1));
    lua_insert(S, 1);
    lua_call(S, lua_gettop(S) - 1, LUA_MULTRET);
    return lua_gettop(S);
}

static int os_time_now(lua_State *S)
{
    if (!lua_isnoneornil(S, 1))
        return luaL_argerror(S, 1, "a sandbox has os.time only without arguments");
    lua_pushinteger(S, (lua_Integer)time(NULL));
    return 1;
}

static int os_clock(lua_State *S)
{
    lua_pushnumber(S, (lua_Number)clock() / (lua_Number)CLOCKS_PER_SEC);
    return 1;
}

static int os_difftime(lua_State *S)
{
    lua_pushnumber(S, (lua_Number)(luaL_checkinteger(S, 1) - luaL_optinteger(S, 2, 0)));
    return 1;
}

/* Sets field `name` of the table on top to a function that has the old one as its upvalue. */
static void wrap(lua_State *S, const char *name, lua_CFunction function)
{
    lua_getfield(S, -1, name);
    lua_pushcclosure(S, function, 1);
    lua_setfield(S, -2, name);
}

static void open_base(lua_State *S)
{
    static const char *const removed[] = {"print",  "warn",     "collectgarbage",
                                          "dofile", "loadfile", NULL};
    luaL_requiref(S, LUA_GNAME, luaopen_base, 1);
    for (int i = 0; removed[i] != NULL; i++) {
        lua_pushnil(S);
        lua_setfield(S, -2, removed[i]);
    }
    wrap(S, "load", load_text);
    lua_pop(S, 1);
}

static void open_string(lua_State *S)
{
    luaL_requiref(S, LUA_STRLIBNAME, luaopen_string, 1);
    lua_pushnil(S);
    lua_setfield(S, -2, "dump");
    lua_pop(S, 1);
}

static void open_math(lua_State *S)
{
    luaL_requiref(S, LUA_MATHLIBNAME, luaopen_math, 1);
    lua_getfield(S, -1, "randomseed");
    lua_pushinteger(S, 0);
    lua_call(S, 1, 0);
    lua_pop(S, 1);
}

static void open_coroutine(lua_State *S)
{
    luaL_requiref(S, LUA_COLIBNAME, luaopen_coroutine, 1);
    wrap(S, "create", charge_coroutine);
    wrap(S, "wrap", charge_coroutine);
    lua_pop(S, 1);
}

static void open_os(lua_State *S)
{
    static const luaL_Reg functions[] = {
        {"clock", os_clock}, {"difftime", os_difftime}, {"time", os_time_now}, {NULL, NULL}};
    luaL_newlib(S, functions);
    lua_setglobal(S, LUA_OSLIBNAME);
}

void sandbox_open_library(lua_State *S)
{
    open_base(S);
    open_coroutine(S);
    open_string(S);
    open_math(S);
    open_os(S);
    luaL_requiref(S, LUA_TABLIBNAME, luaopen_table, 1);
    luaL_requiref(S, LUA_UTF8LIBNAME, luaopen_utf8, 1);
    lua_pop(S, 2);
    lua_pushnil(S); /* package.loaded, made by luaL_requiref */
    lua_setfield(S, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
}

/*
 * l_random.c -- ponder.core.random: a generator for math.random for each run.
 *
 * Lua keeps the generator's state in a userdata, an upvalue of math.random and math.randomseed.
 * This module swaps that upvalue: wrappers would miss references that scripts already hold, and
 * cost more than the number.
 */
#define _DEFAULT_SOURCE /* getentropy */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <lauxlib.h>
#include <lualib.h>

#include "api/api.h"

#define STATE_CLASS "ponder.random.State"

/* Upvalues of this module's functions: the original math.random and math.randomseed, their state.
 */
enum { RANDOM = 1, RANDOMSEED = 2, FIRST_STATE = 3, UPVALUES = 3 };

/* new(seed) -> a state, seeded by math.randomseed while it replaces the one in use */
static int random_new(lua_State *L)
{
    enum { SEED = 1, STATE, FUNCTION, IN_USE };
    luaL_checkinteger(L, SEED);
    lua_settop(L, SEED);
    lua_pushvalue(L, lua_upvalueindex(FIRST_STATE));
    size_t size = lua_rawlen(L, STATE);
    void *state = lua_newuserdatauv(L, size, 0);
    memcpy(state, lua_touserdata(L, STATE), size);
    luaL_setmetatable(L, STATE_CLASS);
    lua_replace(L, STATE);
    lua_pushvalue(L, lua_upvalueindex(RANDOMSEED));
    lua_getupvalue(L, FUNCTION, 1);
    lua_pushvalue(L, STATE);
    lua_setupvalue(L, FUNCTION, 1);
    lua_pushvalue(L, FUNCTION);
    lua_pushvalue(L, SEED);
    int status = lua_pcall(L, 1, 0, 0);
    lua_pushvalue(L, IN_USE);
    lua_setupvalue(L, FUNCTION, 1);
    if (status != LUA_OK)
        return lua_error(L);
    lua_settop(L, STATE);
    return 1;
}

/* use(state | nil): makes math.random and math.randomseed use it; nil: the first state */
static int random_use(lua_State *L)
{
    lua_settop(L, 1);
    if (lua_isnil(L, 1))
        lua_pushvalue(L, lua_upvalueindex(FIRST_STATE));
    luaL_checkudata(L, -1, STATE_CLASS);
    for (int function = RANDOM; function <= RANDOMSEED; function++) {
        lua_pushvalue(L, -1);
        lua_setupvalue(L, lua_upvalueindex(function), 1);
    }
    return 0;
}

/* draw() -> an unpredictable integer */
static int random_draw(lua_State *L)
{
    lua_Integer number;
    if (getentropy(&number, sizeof number) != 0)
        return luaL_error(L, "no random numbers: %s", strerror(errno));
    lua_pushinteger(L, number);
    return 1;
}

static const luaL_Reg functions[] = {
    {"draw", random_draw},
    {"new", random_new},
    {"use", random_use},
    {NULL, NULL},
};

PONDER_MODULE(luaopen_ponder_core_random)
{
    luaL_newlibtable(L, functions);
    lua_getglobal(L, LUA_MATHLIBNAME);
    lua_getfield(L, -1, "random");
    lua_getfield(L, -2, "randomseed");
    lua_remove(L, -3);
    if (!lua_iscfunction(L, -1) || !lua_iscfunction(L, -2) || lua_getupvalue(L, -1, 1) == NULL)
        return luaL_error(L, "ponder.core.random: math.random has been replaced");
    luaL_newmetatable(L, STATE_CLASS);
    lua_setmetatable(L, -2);
    luaL_setfuncs(L, functions, UPVALUES);
    return 1;
}

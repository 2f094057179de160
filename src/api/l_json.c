/*
 * l_json.c -- the Lua module ponder.json (lua/ponder/meta/json.lua describes it).
 *
 * It does not use lua-cjson, which loses 64-bit integers and digits beyond the 14th, has no empty
 * lists, no sorted keys and no positions in its errors, and rejects lone surrogates. json.null is
 * the same value as cjson.null, so both can be used side by side.
 */
#include <string.h>

#include "api/l_json.h"
#include "core/json.h"

/* ---- arguments ---- */

const char *json_text(lua_State *L, const char *where, size_t *length)
{
    if (lua_type(L, 1) != LUA_TSTRING)
        luaL_error(L, "%s: text must be a string (got %s)", where, options_describe(L, 1));
    return lua_tolstring(L, 1, length);
}

void *json_grow(lua_State *L, int slot, const void *old, size_t used, size_t size)
{
    void *memory = lua_newuserdatauv(L, size, 0);
    memcpy(memory, old, used);
    lua_replace(L, slot);
    return memory;
}

/* ---- marks ---- */

/* Marks the table at argument 1, or a new one, with the metatable at `mark`. */
static int mark_table(lua_State *L, const char *where, int mark)
{
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    } else if (!lua_istable(L, 1)) {
        return luaL_error(L, "%s: expected a table (got %s)", where, options_describe(L, 1));
    }
    lua_settop(L, 1);
    if (lua_getmetatable(L, 1)) {
        if (!lua_rawequal(L, -1, JSON_LIST_MARK) && !lua_rawequal(L, -1, JSON_OBJECT_MARK))
            return luaL_error(L, "%s: the table already has a metatable", where);
        lua_pop(L, 1);
    }
    lua_pushvalue(L, mark);
    lua_setmetatable(L, 1);
    return 1;
}

static int json_array(lua_State *L)
{
    return mark_table(L, "json.array", JSON_LIST_MARK);
}

static int json_object(lua_State *L)
{
    return mark_table(L, "json.object", JSON_OBJECT_MARK);
}

static const luaL_Reg FUNCTIONS[] = {{"encode", json_lua_encode}, {"decode", json_lua_decode},
                                     {"get", json_lua_get},       {"array", json_array},
                                     {"object", json_object},     {NULL, NULL}};

PONDER_MODULE(luaopen_ponder_json)
{
    luaL_newlibtable(L, FUNCTIONS);
    /* In the registry, so that marks are the same for every instance of the module. */
    luaL_newmetatable(L, "ponder.json.array");
    luaL_newmetatable(L, "ponder.json.object");
    luaL_setfuncs(L, FUNCTIONS, 2);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    return 1;
}

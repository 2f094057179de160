/*
 * search_check.c -- checks the results of a search's callbacks.
 *
 * Each check raises an error that names the callback, what was expected, what it returned, the
 * node, and where the callback is defined.
 */
#include <math.h>
#include <string.h>

#include "api/l_search.h"

/* Pushes a second line, "evaluate is at FILE:LINE", or "" if that is not known. */
static const char *push_place(lua_State *L, const Core *core)
{
    lua_Debug about;
    if (lua_getiuservalue(L, 1, CORE_CALLBACKS) != LUA_TTABLE)
        return lua_pushliteral(L, "");
    lua_rawgeti(L, -1, (lua_Integer)core->ask.call + 1);
    if (luaL_getmetafield(L, -1, "__call") == LUA_TNIL)
        lua_pushvalue(L, -1);
    if (!lua_isfunction(L, -1) || !lua_getinfo(L, ">S", &about) || about.linedefined < 0)
        return lua_pushliteral(L, "");
    return lua_pushfstring(L, "\n\t%s is at %s:%d", core_call_name(core, core->ask.call),
                           about.short_src, about.linedefined);
}

int core_refuse_result(lua_State *L, Core *core, const char *expected, const char *got)
{
    const SearchAsk *ask = &core->ask;
    return core_raise(L, core, "search.run: %s must return %s (got %s), for node %I at depth %I%s",
                      core_call_name(core, ask->call), expected, got, (LUAI_UACINT)ask->node,
                      (LUAI_UACINT)search_node(&core->search, ask->node)->depth,
                      push_place(L, core));
}

int core_wrong_result(lua_State *L, Core *core, const char *expected, int index)
{
    const char *type = luaL_typename(L, index);
    index = lua_absindex(L, index);
    size_t length = 0;
    const char *text = lua_istable(L, index) ? NULL : luaL_tolstring(L, index, &length);
    bool shows_value = lua_isboolean(L, index) || lua_isnumber(L, index) ||
                       (lua_isstring(L, index) && length <= 40);
    return core_refuse_result(L, core, expected,
                              shows_value ? lua_pushfstring(L, "%s %s", type, text) : type);
}

double core_check_score(lua_State *L, Core *core, int index)
{
    SearchCall call = core->ask.call;
    if (lua_type(L, index) != LUA_TNUMBER)
        core_wrong_result(L, core, "a number", index);
    double score = lua_tonumber(L, index);
    if (isnan(score))
        core_wrong_result(L, core, "a number that is not NaN", index);
    bool is_score =
        call == SEARCH_EVALUATE || call == SEARCH_EVALUATE_ALL || call == SEARCH_SIMULATE;
    if (is_score && !core_in_range(core, score))
        core_wrong_result(L, core, "a number from 0 to 1 (posterior = \"beta\")", index);
    return score;
}

bool core_check_boolean(lua_State *L, Core *core, int index)
{
    if (!lua_isboolean(L, index))
        core_wrong_result(L, core, "a boolean", index);
    return lua_toboolean(L, index);
}

int core_list_hole(lua_State *L, Core *core, lua_Integer at)
{
    return core_raise(L, core,
                      "search.run: %s returned a list with a hole at index %I, for node %I%s",
                      core_call_name(core, core->ask.call), (LUAI_UACINT)at,
                      (LUAI_UACINT)core->ask.node, push_place(L, core));
}

/* Checks the list at `index` for holes; returns its length. */
lua_Integer core_check_list(lua_State *L, Core *core, const char *expected, int index,
                            lua_Integer used)
{
    if (lua_type(L, index) != LUA_TTABLE)
        core_wrong_result(L, core, expected, index);
    if (lua_getmetatable(L, index)) { /* a proxy: its own rules */
        int is_integer;
        lua_len(L, index);
        lua_Integer length = lua_tointegerx(L, -1, &is_integer);
        if (!is_integer)
            core_wrong_result(L, core, expected, index);
        lua_pop(L, 2);
        return length < 0 ? 0 : length;
    }
    lua_Integer length = (lua_Integer)lua_rawlen(L, index);
    if (length >= used)
        return length;
    /* The key after the last element, in the order of `next`, must not be another index. */
    if (length == 0)
        lua_pushnil(L);
    else
        lua_pushinteger(L, length);
    while (lua_next(L, index)) {
        if (lua_isinteger(L, -2) && lua_tointeger(L, -2) > length)
            core_list_hole(L, core, length + 1);
        /* Perhaps a state instead of a list of states; "n" is from an empty table.pack. */
        if (length == 0 && lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), "n") != 0)
            core_refuse_result(L, core, expected, "a table with fields but no element 1");
        lua_pop(L, 1);
    }
    return length;
}

/* A float with an integer value is the same key as that integer, as in tables. */
void core_check_key(lua_State *L, Core *core, int index, SearchKey *key, uint64_t *number)
{
    int is_integer;
    if (lua_type(L, index) == LUA_TSTRING) {
        key->type = KEY_STRING;
        key->bytes = lua_tolstring(L, index, &key->size);
        return;
    }
    lua_Number real = lua_type(L, index) == LUA_TNUMBER ? lua_tonumber(L, index) : NAN;
    if (isnan(real))
        core_wrong_result(L, core, "a string or a number", index);
    lua_Integer integer = lua_tointegerx(L, index, &is_integer);
    key->type = is_integer ? KEY_INTEGER : KEY_FLOAT;
    key->size = sizeof *number;
    key->bytes = number;
    *number = (uint64_t)integer;
    if (!is_integer)
        memcpy(number, &real, sizeof real);
}

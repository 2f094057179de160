/*
 * search_check.c -- what a search's callbacks returned: whether it is what they must return.
 *
 * Each check raises an error that names the callback, what was expected, what came, and the node.
 */
#include <math.h>

#include "api/l_search.h"

static int wrong_result(lua_State *L, Core *core, const char *expected, int index)
{
    const char *callback = core->calling, *type = luaL_typename(L, index);
    index = lua_absindex(L, index);
    core->calling = NULL;
    size_t length = 0;
    const char *text = lua_istable(L, index) ? NULL : luaL_tolstring(L, index, &length);
    bool telling = lua_isboolean(L, index) || lua_isnumber(L, index) ||
                   (lua_isstring(L, index) && length <= 40);
    const char *got = telling ? lua_pushfstring(L, "%s %s", type, text) : type;
    return core_raise(L, "search.run: %s must return %s (got %s), for node %I at depth %I",
                      callback, expected, got, (LUAI_UACINT)core->calling_node,
                      (LUAI_UACINT)search_node(&core->search, core->calling_node)->depth);
}

double core_check_score(lua_State *L, Core *core, int index)
{
    if (lua_type(L, index) != LUA_TNUMBER)
        wrong_result(L, core, "a number", index);
    double score = lua_tonumber(L, index);
    if (isnan(score))
        wrong_result(L, core, "a number that is not NaN", index);
    return score;
}

bool core_check_boolean(lua_State *L, Core *core, int index)
{
    if (!lua_isboolean(L, index))
        wrong_result(L, core, "a boolean", index);
    return lua_toboolean(L, index);
}

int core_list_hole(lua_State *L, Core *core, lua_Integer at)
{
    const char *callback = core->calling;
    core->calling = NULL;
    return core_raise(L, "search.run: %s returned a list with a hole at index %I, for node %I",
                      callback, (LUAI_UACINT)at, (LUAI_UACINT)core->calling_node);
}

/* Checks the list at `index` for holes; returns its length. */
lua_Integer core_check_list(lua_State *L, Core *core, const char *expected, int index,
                            lua_Integer most)
{
    if (lua_type(L, index) != LUA_TTABLE)
        wrong_result(L, core, expected, index);
    if (lua_getmetatable(L, index)) { /* a proxy: its own rules */
        int is_integer;
        lua_len(L, index);
        lua_Integer length = lua_tointegerx(L, -1, &is_integer);
        if (!is_integer)
            wrong_result(L, core, expected, index);
        lua_pop(L, 2);
        return length;
    }
    lua_Integer length = (lua_Integer)lua_rawlen(L, index);
    if (length >= most)
        return length;
    /* What follows the last element in the table's own order must not be a further index. */
    if (length == 0)
        lua_pushnil(L);
    else
        lua_pushinteger(L, length);
    while (lua_next(L, index)) {
        if (lua_isinteger(L, -2) && lua_tointeger(L, -2) > length)
            core_list_hole(L, core, length + 1);
        lua_pop(L, 1);
    }
    return length;
}

/* Whether the key at `index` is new; it counts as in the tree from now on. */
bool core_note_key(lua_State *L, Core *core, int keys, int index)
{
    int type = lua_type(L, index);
    if ((type != LUA_TSTRING && type != LUA_TNUMBER) ||
        (type == LUA_TNUMBER && isnan(lua_tonumber(L, index))))
        wrong_result(L, core, "a string or a number", index);
    lua_pushvalue(L, index);
    bool seen = lua_rawget(L, keys) != LUA_TNIL;
    lua_pop(L, 1);
    if (seen)
        return false;
    lua_pushvalue(L, index);
    lua_pushboolean(L, true);
    lua_rawset(L, keys);
    return true;
}

/* Checks the list of scores at `index` and gives them to the nodes `first` to the last. */
void core_score_all(lua_State *L, Core *core, int index, uint32_t first, uint32_t last)
{
    lua_Integer wanted = (lua_Integer)last - first + 1;
    lua_Integer length = core_check_list(L, core, "a list of scores", index, wanted);
    if (length != wanted) {
        core->calling = NULL;
        core_raise(L, "search.run: evaluate_all must return %I scores (got %I)",
                   (LUAI_UACINT)wanted, (LUAI_UACINT)length);
    }
    for (lua_Integer i = 1; i <= length; i++) {
        lua_geti(L, index, i);
        core->calling_node = first + (uint32_t)i - 1;
        search_set_score(&core->search, core->calling_node, core_check_score(L, core, -1));
        lua_pop(L, 1);
    }
}

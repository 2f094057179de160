/*
 * search_nodes.c -- a search's nodes as Lua values: their states, their tables, their paths.
 */
#include <math.h>
#include <string.h>

#include "api/l_search.h"

void core_push_table(lua_State *L, int index, int which)
{
    if (lua_getiuservalue(L, index, which) != LUA_TTABLE)
        core_raise(L, "search.run: the search has lost its states (debug.setuservalue?)");
}

void core_push_chunk(lua_State *L, int states, uint32_t id)
{
    lua_Integer index = (lua_Integer)(id >> SEARCH_CHUNK_BITS) + 1;
    if (lua_rawgeti(L, states, index) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    lua_createtable(L, index == 1 ? 0 : SEARCH_CHUNK_SIZE, 0); /* most searches are small */
    lua_pushvalue(L, -1);
    lua_rawseti(L, states, index);
}

void core_push_state(lua_State *L, int states, uint32_t id)
{
    core_push_chunk(L, states, id);
    lua_rawgeti(L, -1, core_slot(id));
    lua_remove(L, -2);
}

void core_push_node(lua_State *L, const Core *core, int states, int meta, uint32_t id)
{
    const SearchNode *node = search_node(&core->search, id);
    lua_createtable(L, 0, 6);
    lua_pushinteger(L, id);
    lua_setfield(L, -2, "id");
    if (node->parent != SEARCH_NO_NODE) {
        lua_pushinteger(L, node->parent);
        lua_setfield(L, -2, "parent_id");
    }
    core_push_state(L, states, id);
    lua_setfield(L, -2, "state");
    lua_pushinteger(L, node->depth);
    lua_setfield(L, -2, "depth");
    if (!isnan(node->score)) {
        lua_pushnumber(L, node->score);
        lua_setfield(L, -2, "score");
    }
    if (node->tested) {
        lua_pushboolean(L, node->terminal);
        lua_setfield(L, -2, "terminal");
    }
    lua_pushvalue(L, meta);
    lua_setmetatable(L, -2);
}

void core_push_path(lua_State *L, const Core *core, int states, uint32_t id)
{
    uint32_t depth = search_node(&core->search, id)->depth, chunk = id >> SEARCH_CHUNK_BITS;
    lua_createtable(L, (int)depth + 1, 0);
    core_push_chunk(L, states, id);
    for (lua_Integer i = (lua_Integer)depth + 1; i >= 1; i--) {
        if (id >> SEARCH_CHUNK_BITS != chunk) {
            lua_pop(L, 1);
            core_push_chunk(L, states, id);
            chunk = id >> SEARCH_CHUNK_BITS;
        }
        lua_rawgeti(L, -1, core_slot(id)); /* path, chunk, state */
        lua_rawseti(L, -3, i);
        id = search_node(&core->search, id)->parent;
    }
    lua_pop(L, 1);
}

int core_node_index(lua_State *L)
{
    const Core *core = luaL_testudata(L, lua_upvalueindex(1), CORE_TYPE);
    lua_settop(L, 2);
    if (core == NULL || !lua_istable(L, 1) || lua_type(L, 2) != LUA_TSTRING ||
        strcmp(lua_tostring(L, 2), "path") != 0)
        return 0;
    lua_pushliteral(L, "id");
    lua_rawget(L, 1);
    lua_Integer id = lua_tointeger(L, -1);
    if (!lua_isinteger(L, -1) || id < 0 || id >= core->search.count)
        return 0;
    core_push_table(L, lua_upvalueindex(1), CORE_STATES);
    core_push_path(L, core, lua_gettop(L), (uint32_t)id);
    lua_pushliteral(L, "path");
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
}

void core_push_pruned(lua_State *L, Core *core)
{
    IdList *pruned = &core->search.pruned;
    lua_createtable(L, (int)pruned->count, 0);
    for (size_t i = 0; i < pruned->count; i++) {
        lua_pushinteger(L, pruned->items[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    pruned->count = 0;
}

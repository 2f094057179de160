/* search_nodes.c -- a search's nodes as Lua values: their states, their tables, their paths. */
#include <math.h>
#include <string.h>

#include "api/l_search.h"
#include "core/frontier.h"

void core_push_table(lua_State *L, int index, int which)
{
    if (lua_getiuservalue(L, index, which) != LUA_TTABLE)
        core_raise(L, lua_touserdata(L, index),
                   "search.run: the search has lost its states (debug.setuservalue?)");
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

bool core_drop_states(lua_State *L, Core *core, int states)
{
    Search *s = &core->search;
    bool dropped = false;
    for (size_t i = 0; i < s->freed.count; i++) {
        uint32_t id = s->freed.items[i];
        lua_Integer chunk = (lua_Integer)(id >> SEARCH_CHUNK_BITS) + 1;
        if (s->chunks.items[chunk - 1] == NULL) {
            lua_pushboolean(L, false);
            lua_rawseti(L, states, chunk);
            dropped = true;
        } else {
            core_push_chunk(L, states, id);
            lua_pushboolean(L, false);
            lua_rawseti(L, -2, core_slot(id));
            lua_pop(L, 1);
        }
    }
    s->freed.count = 0;
    return dropped;
}

/* The fields that only some searches have. */
static void set_facts(lua_State *L, const Core *core, int self, uint32_t id,
                      const SearchTicket *ticket)
{
    const Search *s = &core->search;
    SearchFacts facts;
    search_facts(s, id, &facts);
    if (facts.has_visits)
        api_set_integer(L, "visits", (lua_Integer)facts.visits);
    if (!isnan(facts.value))
        api_set_number(L, "value", facts.value);
    if (facts.has_g)
        api_set_number(L, "g", facts.g);
    if (facts.has_expansions)
        api_set_integer(L, "expansions", ticket != NULL ? ticket->expansions : facts.expansions);
    uint32_t action = ticket != NULL && s->options.actions > 0 ? ticket->arm : facts.action;
    if (action > 0 && s->options.actions > 0)
        api_set_integer(L, "action", action);
    if (ticket != NULL && s->options.strategy == SEARCH_EVOLVE)
        api_set_integer(L, "island", (lua_Integer)ticket->arm + 1);
    if (s->options.asks[SEARCH_REFLECT] && core->started && !s->ended) {
        lua_getiuservalue(L, self, CORE_MEMORY);
        lua_setfield(L, -2, "memory");
    }
}

void core_push_node(lua_State *L, const Core *core, int self, uint32_t id,
                    const SearchTicket *ticket, bool terminal_known)
{
    const SearchNode *node = search_node(&core->search, id);
    self = lua_absindex(L, self);
    lua_createtable(L, 0, 6);
    api_set_integer(L, "id", id);
    if (node->parent != SEARCH_NO_NODE)
        api_set_integer(L, "parent_id", node->parent);
    core_push_table(L, self, CORE_STATES);
    core_push_state(L, lua_gettop(L), id);
    lua_setfield(L, -3, "state");
    lua_pop(L, 1);
    api_set_integer(L, "depth", node->depth);
    if (!isnan(node->score))
        api_set_number(L, "score", node->score);
    if (node->evaluated || terminal_known)
        api_set_boolean(L, "terminal", node->terminal);
    set_facts(L, core, self, id, ticket);
    lua_getiuservalue(L, self, CORE_NODE_META);
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

/* The members of the ticket's island except the node itself, best first. */
static void push_inspirations(lua_State *L, const Core *core, uint32_t id)
{
    const Search *s = &core->search;
    const uint32_t *ids = NULL;
    size_t count = 0;
    lua_pushliteral(L, "island");
    lua_rawget(L, 1);
    lua_Integer island = lua_tointeger(L, -1) - 1;
    if (s->options.strategy != SEARCH_EVOLVE || island < 0 || island > UINT32_MAX ||
        !search_group(s, (uint32_t)island, &ids, &count)) {
        lua_pushnil(L);
        return;
    }
    Frontier others = {
        .items = lua_newuserdatauv(L, (count + 1) * sizeof *others.items, 0),
        .capacity = count + 1,
    };
    for (size_t i = 0; i < count; i++)
        if (ids[i] != id && ids[i] < s->count)
            vec_push(&others, ((FrontierEntry){search_node(s, ids[i])->score, ids[i]}));
    frontier_sort(&others, others.count);
    lua_createtable(L, (int)others.count, 0);
    for (size_t i = 0; i < others.count; i++) {
        core_push_node(L, core, lua_upvalueindex(1), others.items[i].id, NULL, true);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

int core_node_index(lua_State *L)
{
    const Core *core = luaL_testudata(L, lua_upvalueindex(1), CORE_TYPE);
    lua_settop(L, 2);
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    bool path = strcmp(name, "path") == 0;
    if (core == NULL || !lua_istable(L, 1) || (!path && strcmp(name, "inspirations") != 0))
        return 0;
    lua_pushliteral(L, "id");
    lua_rawget(L, 1);
    lua_Integer id = lua_tointeger(L, -1);
    if (!lua_isinteger(L, -1) || id < 0 || id >= core->search.count ||
        !search_has(&core->search, (uint32_t)id))
        return 0;
    core_push_table(L, lua_upvalueindex(1), CORE_STATES);
    if (path)
        core_push_path(L, core, lua_gettop(L), (uint32_t)id);
    else
        push_inspirations(L, core, (uint32_t)id);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
}

void core_push_ids(lua_State *L, const uint32_t *ids, size_t count)
{
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushinteger(L, ids[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/*
 * l_search.c -- ponder.core.search: the search tree for Lua.
 *
 * lua/ponder/search.lua checks the options and shapes the result. Two drivers run the callbacks:
 * search_loop.c one at a time, lua/ponder/search/concurrent.lua many at a time, by the methods
 * below.
 */
#include "api/l_search.h"

#include <stdarg.h>
#include <string.h>

static Core *check_core(lua_State *L)
{
    return luaL_checkudata(L, 1, CORE_TYPE);
}

/* For methods that change the tree. */
static Core *check_idle(lua_State *L)
{
    Core *core = check_core(L);
    luaL_argcheck(L, !core->running, 1, "the search is running");
    return core;
}

int core_raise(lua_State *L, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    lua_pushvfstring(L, format, arguments);
    va_end(arguments);
    return lua_error(L);
}

int core_no_memory(lua_State *L, Core *core)
{
    core->calling = NULL;
    return core_raise(L, "search.run: not enough memory");
}

/* Makes a node of the state on top of the stack and pops it; false if max_nodes refuses it. */
static bool add_state(lua_State *L, Core *core, int states, uint32_t parent)
{
    uint32_t id = core->search.count;
    SearchStatus status = search_add(&core->search, parent);
    if (status == SEARCH_NO_MEMORY)
        core_no_memory(L, core);
    if (status == SEARCH_OK) {
        core_push_chunk(L, states, id);
        lua_insert(L, -2); /* chunk, state */
        lua_rawseti(L, -2, core_slot(id));
    }
    lua_pop(L, 1);
    return status == SEARCH_OK;
}

/* ---- methods ---- */

static int push_optional_id(lua_State *L, uint32_t id)
{
    if (id == SEARCH_NO_NODE)
        return 0;
    lua_pushinteger(L, id);
    return 1;
}

static uint32_t check_id(lua_State *L, const Core *core, int arg)
{
    lua_Integer id = luaL_checkinteger(L, arg);
    luaL_argcheck(L, id >= 0 && id < core->search.count, arg, "no such node");
    return (uint32_t)id;
}

static uint32_t field(lua_State *L, const char *name, lua_Integer max)
{
    lua_getfield(L, 1, name);
    lua_Integer value = luaL_checkinteger(L, -1);
    luaL_argcheck(L, value >= 0, 1, name);
    lua_pop(L, 1);
    return (uint32_t)(value < max ? value : max);
}

/* core.new{initial_state, search, max_depth, max_nodes, beam_width, batch} -> core with its root.
 */
static int core_new(lua_State *L)
{
    static const char *const strategies[] = {"bfs", "dfs", "beam", "best_first", NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_getfield(L, 1, "search");
    SearchOptions options = {.strategy = (SearchStrategy)luaL_checkoption(L, -1, NULL, strategies)};
    options.max_depth = field(L, "max_depth", SEARCH_MAX_DEPTH);
    options.max_nodes = field(L, "max_nodes", SEARCH_NO_NODE);
    options.beam_width = field(L, "beam_width", UINT32_MAX);
    options.batch = field(L, "batch", UINT32_MAX);

    Core *core = lua_newuserdatauv(L, sizeof *core, 2);
    memset(core, 0, sizeof *core);
    search_init(&core->search, api_alloc(L), &options);
    luaL_setmetatable(L, CORE_TYPE);
    lua_newtable(L);
    int states = lua_gettop(L);
    lua_pushvalue(L, states);
    lua_setiuservalue(L, -3, CORE_STATES);
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, -3);
    lua_pushcclosure(L, core_node_index, 1);
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "ponder.search.node");
    lua_setfield(L, -2, "__name");
    lua_setiuservalue(L, -3, CORE_NODE_META);
    lua_getfield(L, 1, "initial_state");
    add_state(L, core, states, SEARCH_NO_NODE);
    lua_settop(L, states - 1);
    return 1;
}

/* The collector's alone: a script that called it could free what a loop on the C stack is using. */
static int core_gc(lua_State *L)
{
    Core *core = check_core(L);
    lua_Debug frame;
    if (lua_getstack(L, 0, &frame) && lua_getinfo(L, "n", &frame) && frame.name != NULL &&
        strcmp(frame.name, "__gc") == 0 && strcmp(frame.namewhat, "metamethod") == 0)
        search_free(&core->search);
    return 0;
}

/* core:take() -> id, or nil when the search is over. */
static int core_take(lua_State *L)
{
    Core *core = check_idle(L);
    uint32_t id = SEARCH_NO_NODE;
    SearchStatus status = search_take(&core->search, &id);
    if (status == SEARCH_NO_MEMORY)
        return core_no_memory(L, core);
    return push_optional_id(L, status == SEARCH_OK ? id : SEARCH_NO_NODE);
}

/* core:peek(ahead) -> the id that take will return after `ahead` others, or nil if uncertain. */
static int core_peek(lua_State *L)
{
    const Core *core = check_core(L);
    lua_Integer ahead = luaL_checkinteger(L, 2);
    return push_optional_id(L, search_peek(&core->search, (size_t)ahead));
}

/* core:pruned() -> the ids dropped since it was last asked, or nil. */
static int core_pruned(lua_State *L)
{
    Core *core = check_idle(L);
    if (core->search.pruned.count == 0)
        return 0;
    core_push_pruned(L, core);
    return 1;
}

/* core:expandable(id) -> boolean. */
static int core_expandable(lua_State *L)
{
    const Core *core = check_core(L);
    lua_pushboolean(L, search_expandable(&core->search, check_id(L, core, 2)));
    return 1;
}

/* core:check_children(id, list, k) -> its length: what expand returned; k items are used. */
static int core_check_children(lua_State *L)
{
    Core *core = check_core(L);
    core->calling = "expand";
    core->calling_node = check_id(L, core, 2);
    luaL_checkany(L, 3);
    lua_pushinteger(L, core_check_list(L, core, "a list of states", 3, luaL_checkinteger(L, 4)));
    return 1;
}

/* core:next_state(id, list, i) -> the i-th of the states that expand returned. */
static int core_next_state(lua_State *L)
{
    Core *core = check_core(L);
    core->calling = "expand";
    core->calling_node = check_id(L, core, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_Integer i = luaL_checkinteger(L, 4);
    if (lua_geti(L, 3, i) == LUA_TNIL)
        core_list_hole(L, core, i);
    return 1;
}

/* core:add(parent_id, state, keys, key) -> id; nil, "duplicate" or nil, "full" if it was not made.
 * Without `keys` (a set) the key is not looked at. */
static int core_add_child(lua_State *L)
{
    Core *core = check_idle(L);
    uint32_t parent = check_id(L, core, 2);
    lua_settop(L, 5);
    if (!lua_isnil(L, 4)) {
        luaL_checktype(L, 4, LUA_TTABLE);
        core->calling = "key";
        core->calling_node = parent;
        if (!core_note_key(L, core, 4, 5)) {
            lua_pushnil(L);
            lua_pushliteral(L, "duplicate");
            return 2;
        }
    }
    core_push_table(L, 1, CORE_STATES);
    lua_pushvalue(L, 3);
    if (add_state(L, core, 6, parent)) {
        lua_pushinteger(L, (lua_Integer)core->search.count - 1);
        return 1;
    }
    lua_pushnil(L);
    lua_pushliteral(L, "full");
    return 2;
}

/* core:note_root_key(keys, key). */
static int core_note_root_key(lua_State *L)
{
    Core *core = check_core(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    core->calling = "key";
    core->calling_node = 0;
    lua_settop(L, 3);
    core_note_key(L, core, 2, 3);
    return 0;
}

/* core:score(id, value): what evaluate returned. */
static int core_score(lua_State *L)
{
    Core *core = check_idle(L);
    core->calling = "evaluate";
    core->calling_node = check_id(L, core, 2);
    lua_settop(L, 3);
    search_set_score(&core->search, core->calling_node, core_check_score(L, core, 3));
    return 0;
}

/* core:score_all(first_id, last_id, scores): what evaluate_all returned for these nodes. */
static int core_score_list(lua_State *L)
{
    Core *core = check_idle(L);
    uint32_t first = check_id(L, core, 2), last = check_id(L, core, 3);
    core->calling = "evaluate_all";
    core->calling_node = first;
    lua_settop(L, 4);
    core_score_all(L, core, 4, first, last);
    return 0;
}

/* core:test(id, value): what is_terminal returned. */
static int core_test(lua_State *L)
{
    Core *core = check_idle(L);
    core->calling = "is_terminal";
    core->calling_node = check_id(L, core, 2);
    lua_settop(L, 3);
    search_set_terminal(&core->search, core->calling_node, core_check_boolean(L, core, 3));
    return 0;
}

/* core:check_stop(id, value) -> the boolean that stop returned. */
static int core_check_stop(lua_State *L)
{
    Core *core = check_core(L);
    core->calling = "stop";
    core->calling_node = check_id(L, core, 2);
    lua_settop(L, 3);
    lua_pushboolean(L, core_check_boolean(L, core, 3));
    return 1;
}

/* core:truncate(count): forgets the nodes from that id on; the search is to end. */
static int core_truncate(lua_State *L)
{
    Core *core = check_idle(L);
    lua_Integer count = luaL_checkinteger(L, 2);
    luaL_argcheck(L, count >= 0 && count <= core->search.count, 2, "out of range");
    search_truncate(&core->search, (uint32_t)count);
    return 0;
}

/* core:settle(): forgets the first node that is not tested, and all after it. */
static int core_settle(lua_State *L)
{
    search_settle(&check_core(L)->search);
    return 0;
}

/* core:tally(expansions, duplicates): adds to the counts. */
static int core_tally(lua_State *L)
{
    Core *core = check_core(L);
    core->expansions += luaL_checkinteger(L, 2);
    core->duplicates += luaL_checkinteger(L, 3);
    return 0;
}

/* core:round_over() -> whether every node of the round was taken up. */
static int core_round_over(lua_State *L)
{
    lua_pushboolean(L, search_round_over(&check_core(L)->search));
    return 1;
}

/* core:depth(id) -> the node's depth. */
static int core_depth(lua_State *L)
{
    const Core *core = check_core(L);
    lua_pushinteger(L, search_node(&core->search, check_id(L, core, 2))->depth);
    return 1;
}

static int core_count(lua_State *L)
{
    lua_pushinteger(L, check_core(L)->search.count);
    return 1;
}

/* core:best() -> id, or nil if nothing is scored. */
static int core_best(lua_State *L)
{
    return push_optional_id(L, search_best(&check_core(L)->search));
}

/* core:state(id) -> the node's state. */
static int core_state(lua_State *L)
{
    const Core *core = check_core(L);
    uint32_t id = check_id(L, core, 2);
    core_push_table(L, 1, CORE_STATES);
    core_push_state(L, lua_gettop(L), id);
    return 1;
}

/* core:node(id) -> the node as a table. */
static int core_node(lua_State *L)
{
    const Core *core = check_core(L);
    uint32_t id = check_id(L, core, 2);
    lua_settop(L, 2);
    core_push_table(L, 1, CORE_STATES);
    core_push_table(L, 1, CORE_NODE_META);
    core_push_node(L, core, 3, 4, id);
    return 1;
}

/* core:path(id) -> the states from the root to the node. */
static int core_path(lua_State *L)
{
    const Core *core = check_core(L);
    uint32_t id = check_id(L, core, 2);
    core_push_table(L, 1, CORE_STATES);
    core_push_path(L, core, lua_gettop(L), id);
    return 1;
}

/* core:calling() -> name of the callback that runs, id and depth of its node; nil if none does. */
static int core_calling(lua_State *L)
{
    const Core *core = check_core(L);
    if (core->calling == NULL || core->calling_node >= core->search.count)
        return 0;
    lua_pushstring(L, core->calling);
    lua_pushinteger(L, core->calling_node);
    lua_pushinteger(L, search_node(&core->search, core->calling_node)->depth);
    return 3;
}

/* core:counts() -> expansions, duplicates, pruned. */
static int core_counts(lua_State *L)
{
    const Core *core = check_core(L);
    lua_pushinteger(L, core->expansions);
    lua_pushinteger(L, core->duplicates);
    lua_pushinteger(L, (lua_Integer)core->search.pruned_total);
    return 3;
}

PONDER_MODULE int luaopen_ponder_core_search(lua_State *L);

PONDER_MODULE int luaopen_ponder_core_search(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"add", core_add_child},
        {"best", core_best},
        {"calling", core_calling},
        {"check_children", core_check_children},
        {"check_stop", core_check_stop},
        {"count", core_count},
        {"counts", core_counts},
        {"depth", core_depth},
        {"expandable", core_expandable},
        {"next_state", core_next_state},
        {"node", core_node},
        {"note_root_key", core_note_root_key},
        {"path", core_path},
        {"peek", core_peek},
        {"pruned", core_pruned},
        {"round_over", core_round_over},
        {"run", core_run},
        {"score", core_score},
        {"score_all", core_score_list},
        {"settle", core_settle},
        {"state", core_state},
        {"take", core_take},
        {"tally", core_tally},
        {"test", core_test},
        {"truncate", core_truncate},
        {NULL, NULL},
    };
    luaL_newmetatable(L, CORE_TYPE);
    lua_pushcfunction(L, core_gc);
    lua_setfield(L, -2, "__gc");
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, core_new);
    lua_setfield(L, -2, "new");
    return 1;
}

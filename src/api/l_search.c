/*
 * l_search.c -- ponder.core.search: the search tree for Lua.
 *
 * lua/ponder/search.lua checks the options and shapes the result. Two drivers run the callbacks:
 * search_loop.c one at a time, lua/ponder/search/concurrent.lua many at a time, by the methods
 * below.
 */
#include "api/l_search.h"
#include "api/options.h"

#include <stdarg.h>
#include <string.h>

Core *core_check(lua_State *L)
{
    Core *core = luaL_checkudata(L, 1, CORE_TYPE);
    luaL_argcheck(L, core->search.chunks.items != NULL, 1, "the search is closed");
    return core;
}

/* For methods that change the tree. */
Core *core_check_idle(lua_State *L)
{
    Core *core = core_check(L);
    luaL_argcheck(L, !core->running, 1, "the search is running");
    return core;
}

int core_raise(lua_State *L, Core *core, const char *format, ...)
{
    va_list arguments;
    core->ask.call = SEARCH_WAIT;
    va_start(arguments, format);
    lua_pushvfstring(L, format, arguments);
    va_end(arguments);
    return lua_error(L);
}

int core_no_memory(lua_State *L, Core *core)
{
    return core_raise(L, core, "search.run: not enough memory");
}

void core_store_state(lua_State *L, int states, uint32_t id)
{
    core_push_chunk(L, states, id);
    lua_insert(L, -2); /* chunk, state */
    lua_rawseti(L, -2, core_slot(id));
    lua_pop(L, 1);
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
    luaL_argcheck(L, search_has(&core->search, (uint32_t)id), arg, "the node is gone");
    return (uint32_t)id;
}

/* ---- options: lua/ponder/search.lua has checked them ---- */

static uint32_t field(lua_State *L, const char *name, uint32_t max)
{
    return (uint32_t)options_integer(L, 1, name, max);
}

static uint32_t at_least_one(uint32_t n)
{
    return n > 0 ? n : 1;
}

/* Those of uct, puct, ab_mcts and evolve. */
static void read_statistics(lua_State *L, SearchOptions *o)
{
    static const char *const priors[] = {"none", "uniform", "softmax", "function", NULL};
    static const char *const posteriors[] = {"gaussian", "beta", "mixed", NULL};
    static const char *const parents[] = {"weighted", "puct", "best", NULL};
    o->c = options_number(L, 1, "c", 0);
    o->c_init = options_number(L, 1, "c_init", 0);
    o->c_base = options_number(L, 1, "c_base", 1);
    o->guide = options_number(L, 1, "guide", NAN);
    o->prior = (SearchPrior)options_name(L, 1, "prior", priors);
    o->normalize = options_flag(L, 1, "normalize");
    o->backs_up_max = options_flag(L, 1, "backs_up_max");
    o->greedy = options_flag(L, 1, "greedy");
    o->revisit = options_flag(L, 1, "revisit");
    o->posterior = (SearchPosterior)options_name(L, 1, "posterior", posteriors);
    o->actions = field(L, "actions", UINT32_MAX);
    o->select = (SearchParent)options_name(L, 1, "select", parents);
    o->islands = at_least_one(field(L, "islands", UINT32_MAX));
    o->population = field(L, "population", UINT32_MAX);
    o->migrate = field(L, "migrate", UINT32_MAX);
    o->migrate_every = options_integer(L, 1, "migrate_every", UINT64_MAX);
    o->sharpness = options_number(L, 1, "sharpness", 0);
    lua_getfield(L, 1, "seed"); /* any integer */
    o->seed = (uint64_t)luaL_optinteger(L, -1, 0);
    lua_pop(L, 1);
}

SearchOptions search_read_options(lua_State *L)
{
    const char *strategies[SEARCH_STRATEGIES + 1] = {NULL};
    for (int i = 0; i < SEARCH_STRATEGIES; i++)
        strategies[i] = search_strategy_name((SearchStrategy)i);
    SearchOptions o = {.strategy = (SearchStrategy)options_name(L, 1, "search", strategies)};
    o.k = field(L, "k", SEARCH_ALL - 1);
    o.k = o.k == 0 ? SEARCH_ALL : o.k;
    o.max_depth = field(L, "max_depth", SEARCH_MAX_DEPTH);
    o.max_nodes = field(L, "max_nodes", SEARCH_NO_NODE);
    o.beam_width = field(L, "beam_width", UINT32_MAX);
    o.batch = at_least_one(field(L, "batch", UINT32_MAX));
    o.window = at_least_one(field(L, "concurrency", UINT32_MAX));
    o.max_iterations = options_integer(L, 1, "max_iterations", UINT64_MAX);
    o.retain_path = options_flag(L, 1, "retain_path");
    o.expandable_only = options_flag(L, 1, "expandable_only");
    o.asks[SEARCH_SIMULATE] = options_flag(L, 1, "has_simulate");
    o.weight = options_number(L, 1, "weight", 1);
    o.subtrees = at_least_one(field(L, "subtrees", UINT32_MAX));
    read_statistics(L, &o);
    return o;
}

/* core.new{initial_state, search, max_depth, max_nodes...} -> core with its root. */
static int core_new(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    SearchOptions options = search_read_options(L);
    Core *core = lua_newuserdatauv(L, sizeof *core, CORE_VALUES);
    memset(core, 0, sizeof *core);
    core->ask.call = SEARCH_WAIT;
    core->memory_size = (lua_Integer)options_integer(L, 1, "memory", UINT32_MAX);
    bool ready = search_init(&core->search, api_alloc(L), &options);
    luaL_setmetatable(L, CORE_TYPE);
    if (!ready)
        return core_no_memory(L, core);
    for (int value = CORE_STATES; value <= CORE_VALUES; value++) {
        lua_newtable(L);
        lua_setiuservalue(L, 2, value);
    }
    lua_getiuservalue(L, 2, CORE_NODE_META);
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, core_node_index, 1);
    lua_setfield(L, -2, "__index");
    api_set_string(L, "__name", "ponder.search.node");
    if (search_add(&core->search, SEARCH_NO_NODE, 1) != SEARCH_OK)
        return core_no_memory(L, core);
    core_push_table(L, 2, CORE_STATES);
    lua_getfield(L, 1, "initial_state");
    core_store_state(L, 4, 0);
    lua_settop(L, 2);
    return 1;
}

static int core_gc(lua_State *L)
{
    Core *core = luaL_checkudata(L, 1, CORE_TYPE);
    if (api_is_collected(L)) {
        Alloc alloc = core->search.alloc;
        search_free(&core->search);
        vec_free(&core->units, &alloc);
    }
    return 0;
}

/* core:depth(id) -> the node's depth. */
static int core_depth(lua_State *L)
{
    const Core *core = core_check(L);
    lua_pushinteger(L, search_node(&core->search, check_id(L, core, 2))->depth);
    return 1;
}

static int core_count(lua_State *L)
{
    lua_pushinteger(L, core_check(L)->search.count);
    return 1;
}

/* core:best() -> id, or nil if nothing is scored. */
static int core_best(lua_State *L)
{
    return push_optional_id(L, search_best(&core_check(L)->search));
}

/* core:state(id) -> the node's state. */
static int core_state(lua_State *L)
{
    const Core *core = core_check(L);
    uint32_t id = check_id(L, core, 2);
    core_push_table(L, 1, CORE_STATES);
    core_push_state(L, lua_gettop(L), id);
    return 1;
}

/* core:node(id) -> the node as a table; nil if it was freed. */
static int core_node(lua_State *L)
{
    const Core *core = core_check(L);
    lua_Integer id = luaL_checkinteger(L, 2);
    luaL_argcheck(L, id >= 0 && id < core->search.count, 2, "no such node");
    if (!search_has(&core->search, (uint32_t)id))
        return 0;
    core_push_node(L, core, 1, (uint32_t)id, NULL, false);
    return 1;
}

/* core:kept_ids() -> the ids of the nodes that were not freed. */
static int core_kept_ids(lua_State *L)
{
    const Search *s = &core_check(L)->search;
    lua_Integer count = 0;
    if (!s->options.retain_path)
        return 0;
    lua_newtable(L);
    for (uint64_t id = 0; id < s->count; id++) {
        if (s->chunks.items[id >> SEARCH_CHUNK_BITS] == NULL) {
            id |= SEARCH_CHUNK_SIZE - 1;
        } else if (search_has(s, (uint32_t)id)) {
            lua_pushinteger(L, (lua_Integer)id);
            lua_rawseti(L, -2, ++count);
        }
    }
    return 1;
}

/* core:group(i) -> the ids of a level of `kept`, or of an island, or nil. */
static int core_group(lua_State *L)
{
    const Search *s = &core_check(L)->search;
    lua_Integer i = luaL_checkinteger(L, 2);
    const uint32_t *ids = NULL;
    size_t count = 0;
    if (i < 1 || i > UINT32_MAX || s->data == NULL ||
        !search_group(s, (uint32_t)(i - 1), &ids, &count))
        return 0;
    core_push_ids(L, ids, count);
    return 1;
}

/* core:path(id) -> the states from the root to the node. */
static int core_path(lua_State *L)
{
    const Core *core = core_check(L);
    uint32_t id = check_id(L, core, 2);
    core_push_table(L, 1, CORE_STATES);
    core_push_path(L, core, lua_gettop(L), id);
    return 1;
}

/* core:calling() -> name of the running callback, id and depth of its node; or nil. */
static int core_calling(lua_State *L)
{
    const Core *core = core_check(L);
    const SearchAsk *ask = &core->ask;
    const char *name = core_call_name(core, ask->call);
    if (name == NULL || ask->node >= core->search.count)
        return 0;
    lua_pushstring(L, name);
    lua_pushinteger(L, ask->node);
    lua_pushinteger(L, search_node(&core->search, ask->node)->depth);
    return 3;
}

/* core:counts() -> expansions, duplicates, pruned, depth_limited, children_dropped, iterations. */
static int core_counts(lua_State *L)
{
    const Search *s = &core_check(L)->search;
    const uint64_t counts[] = {s->expansions,    s->duplicates,       s->pruned_total,
                               s->depth_limited, s->children_dropped, s->iterations};
    int n = sizeof counts / sizeof *counts;
    for (int i = 0; i < n; i++)
        lua_pushinteger(L, counts[i] < LUA_MAXINTEGER ? (lua_Integer)counts[i] : LUA_MAXINTEGER);
    return n;
}

PONDER_MODULE(luaopen_ponder_core_search)
{
    static const luaL_Reg methods[] = {
        {"ask", core_ask},
        {"begin", core_begin},
        {"best", core_best},
        {"callback", core_callback},
        {"calling", core_calling},
        {"count", core_count},
        {"counts", core_counts},
        {"depth", core_depth},
        {"fail", core_fail},
        {"group", core_group},
        {"kept_ids", core_kept_ids},
        {"node", core_node},
        {"outcome", core_get_outcome},
        {"path", core_path},
        {"run", core_run},
        {"finish", core_finish},
        {"state", core_state},
        {"tell", core_tell_result},
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

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

static void store_state(lua_State *L, int states, uint32_t id)
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

static uint64_t integer_field(lua_State *L, const char *name, uint64_t max)
{
    lua_getfield(L, 1, name);
    lua_Integer value = luaL_optinteger(L, -1, 0);
    luaL_argcheck(L, value >= 0, 1, name);
    lua_pop(L, 1);
    return (uint64_t)value < max ? (uint64_t)value : max;
}

static uint32_t field(lua_State *L, const char *name, uint32_t max)
{
    return (uint32_t)integer_field(L, name, max);
}

static double number_field(lua_State *L, const char *name, double absent)
{
    lua_getfield(L, 1, name);
    double value = luaL_optnumber(L, -1, absent);
    lua_pop(L, 1);
    return value;
}

static bool flag_field(lua_State *L, const char *name)
{
    lua_getfield(L, 1, name);
    bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

static int name_field(lua_State *L, const char *name, const char *const *names)
{
    lua_getfield(L, 1, name);
    int i = luaL_checkoption(L, -1, names[0], names);
    lua_pop(L, 1);
    return i;
}

static uint32_t at_least_one(uint32_t n)
{
    return n > 0 ? n : 1;
}

static SearchOptions read_options(lua_State *L)
{
    static const char *const priors[] = {"none", "uniform", "softmax", "function", NULL};
    static const char *const posteriors[] = {"gaussian", "beta", "mixed", NULL};
    static const char *const parents[] = {"weighted", "puct", "best", NULL};
    const char *strategies[SEARCH_STRATEGIES + 1] = {NULL};
    for (int i = 0; i < SEARCH_STRATEGIES; i++)
        strategies[i] = search_strategy_name((SearchStrategy)i);
    lua_getfield(L, 1, "seed");
    uint64_t seed = (uint64_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, 1, "search");
    SearchOptions o = {.strategy = (SearchStrategy)luaL_checkoption(L, -1, NULL, strategies)};
    lua_pop(L, 2);
    o.k = field(L, "k", SEARCH_ALL - 1);
    o.k = o.k == 0 ? SEARCH_ALL : o.k;
    o.max_depth = field(L, "max_depth", SEARCH_MAX_DEPTH);
    o.max_nodes = field(L, "max_nodes", SEARCH_NO_NODE);
    o.beam_width = field(L, "beam_width", UINT32_MAX);
    o.batch = at_least_one(field(L, "batch", UINT32_MAX));
    o.window = at_least_one(field(L, "concurrency", UINT32_MAX));
    o.max_iterations = integer_field(L, "max_iterations", UINT64_MAX);
    o.retain_path = flag_field(L, "retain_path");
    o.has_simulate = flag_field(L, "has_simulate");
    o.c = number_field(L, "c", 0);
    o.c_init = number_field(L, "c_init", 0);
    o.c_base = number_field(L, "c_base", 1);
    o.guide = number_field(L, "guide", NAN);
    o.prior = (SearchPrior)name_field(L, "prior", priors);
    o.normalize = flag_field(L, "normalize");
    o.backs_up_max = flag_field(L, "backs_up_max");
    o.greedy = flag_field(L, "greedy");
    o.revisit = flag_field(L, "revisit");
    o.posterior = (SearchPosterior)name_field(L, "posterior", posteriors);
    o.actions = field(L, "actions", UINT32_MAX);
    o.seed = seed;
    o.weight = number_field(L, "weight", 1);
    o.subtrees = at_least_one(field(L, "subtrees", UINT32_MAX));
    o.select = (SearchParent)name_field(L, "select", parents);
    o.islands = at_least_one(field(L, "islands", UINT32_MAX));
    o.population = field(L, "population", UINT32_MAX);
    o.migrate = field(L, "migrate", UINT32_MAX);
    o.migrate_every = integer_field(L, "migrate_every", UINT64_MAX);
    o.sharpness = number_field(L, "sharpness", 0);
    return o;
}

/* core.new{initial_state, search, max_depth, max_nodes...} -> core with its root. */
static int core_new(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    SearchOptions options = read_options(L);
    Core *core = lua_newuserdatauv(L, sizeof *core, CORE_VALUES);
    memset(core, 0, sizeof *core);
    core->memory_size = (lua_Integer)integer_field(L, "memory", UINT32_MAX);
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
    lua_pushliteral(L, "ponder.search.node");
    lua_setfield(L, -2, "__name");
    if (search_add(&core->search, SEARCH_NO_NODE) != SEARCH_OK)
        return core_no_memory(L, core);
    core_push_table(L, 2, CORE_STATES);
    lua_getfield(L, 1, "initial_state");
    store_state(L, 4, 0);
    lua_settop(L, 2);
    return 1;
}

/* The collector's alone: a script that called it could free what a loop on the C stack is using. */
static int core_gc(lua_State *L)
{
    Core *core = check_core(L);
    lua_Debug frame;
    if (lua_getstack(L, 0, &frame) && lua_getinfo(L, "n", &frame) && frame.name != NULL &&
        strcmp(frame.name, "__gc") == 0 && strcmp(frame.namewhat, "metamethod") == 0)
    {
        Alloc alloc = core->search.alloc;
        search_free(&core->search);
        vec_free(&core->units, &alloc);
    }
    return 0;
}

/* ---- the concurrent driver: see lua/ponder/search/concurrent.lua ---- */

static const char *const outcomes[] = {
    [OUTCOME_OVER] = "over",
    [OUTCOME_STOP] = "stop",
    [OUTCOME_MAX_NODES] = "max_nodes",
    [OUTCOME_MAX_DURATION] = "max_duration",
    [OUTCOME_MAX_ITERATIONS] = "max_iterations",
    [OUTCOME_FAILED] = "failed",
};

const char *core_outcome(const Core *core)
{
    return outcomes[core->search.outcome];
}

/* core:begin(callbacks): before the first ask. */
static int core_begin(lua_State *L)
{
    Core *core = check_idle(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_argcheck(L, !core->started && core->search.count == 1, 1, "runs once");
    core_read_callbacks(L, core, 1, 2);
    lua_getfield(L, 2, "deadline");
    core->search.options.wants_turns = !lua_isnil(L, -1);
    search_begin(&core->search);
    core->started = true;
    return 0;
}

static Core *check_started(lua_State *L)
{
    Core *core = check_idle(L);
    luaL_argcheck(L, core->started, 1, "has not begun");
    return core;
}

/* A slot for a unit in flight: its number, from 1. */
static lua_Integer add_unit(lua_State *L, Core *core, const SearchAsk *ask)
{
    size_t i = 0;
    while (i < core->units.count && core->units.items[i].call != SEARCH_DONE)
        i++;
    if (i == core->units.count) {
        Alloc alloc = api_alloc(L);
        if (!vec_reserve(&core->units, &alloc, 1))
            core_no_memory(L, core);
        core->units.count++;
    }
    core->units.items[i] = *ask;
    return (lua_Integer)i + 1;
}

/* core:ask() -> "wait", "turn" or "done"; or the number of a unit. */
static int core_ask(lua_State *L)
{
    static const char *const idle[] = {"turn", "wait", "done"};
    Core *core = check_started(L);
    SearchAsk ask;
    lua_settop(L, 1);
    core_push_table(L, 1, CORE_STATES);
    core_drop_states(L, core, 2);
    if (!search_ask(&core->search, &ask))
        return core_no_memory(L, core);
    core_update_memory(L, core, 1);
    if (ask.call >= SEARCH_TURN)
        lua_pushstring(L, idle[ask.call - SEARCH_TURN]);
    else
        lua_pushinteger(L, add_unit(L, core, &ask));
    return 1;
}

/* The unit in argument 2; raises where it is not in flight. */
static SearchAsk *check_unit(lua_State *L, Core *core)
{
    lua_Integer unit = luaL_checkinteger(L, 2);
    luaL_argcheck(L, unit >= 1 && (lua_Unsigned)unit <= core->units.count &&
                         core->units.items[unit - 1].call != SEARCH_DONE,
                  2, "not a unit in flight");
    SearchAsk *ask = &core->units.items[unit - 1];
    core->calling = core_call_name(core, ask->call);
    core->calling_node = ask->node == SEARCH_NO_NODE ? 0 : ask->node;
    return ask;
}

/* core:callback(unit) -> its name, its node, the function, and its arguments; nothing where the
 * search has ended, or its next step needs no callback. */
static int core_callback(lua_State *L)
{
    Core *core = check_started(L);
    const SearchAsk *ask = check_unit(L, core);
    lua_settop(L, 2);
    if (core->search.ended || ask->call == SEARCH_MAKE)
        return 0;
    lua_pushnil(L); /* 3: the state in hand */
    if (ask->call == SEARCH_COST || ask->call == SEARCH_KEY) {
        lua_Integer slot = 2 * (lua_Integer)ask->ticket + 1;
        core_push_table(L, 1, CORE_WORK);
        lua_rawgeti(L, 4, slot); /* 5: the list */
        lua_rawgeti(L, 4, slot + 1);
        lua_replace(L, 3);
        core_fetch_state(L, core, ask, 5, 3);
        lua_pushvalue(L, 3);
        lua_rawseti(L, 4, slot + 1);
        core->calling = core_call_name(core, ask->call);
    }
    lua_settop(L, 3);
    lua_pushstring(L, core->calling);
    lua_pushinteger(L, core->calling_node);
    core_push_table(L, 1, CORE_CALLBACKS);
    lua_rawgeti(L, -1, (lua_Integer)ask->call + 1);
    lua_remove(L, -2);
    return 3 + core_push_arguments(L, core, 1, ask, 3);
}

static void make_child(lua_State *L, Core *core, const SearchAsk *ask)
{
    lua_Integer slot = 2 * (lua_Integer)ask->ticket + 1;
    lua_settop(L, 3);
    core_push_table(L, 1, CORE_WORK);
    lua_rawgeti(L, 4, slot);
    lua_rawgeti(L, 4, slot + 1);
    core_fetch_state(L, core, ask, 5, 6);
    uint32_t id = core_make(L, core, ask);
    if (id != SEARCH_NO_NODE) {
        core_push_table(L, 1, CORE_STATES);
        lua_pushvalue(L, 6);
        store_state(L, 7, id);
    }
}

/* core:tell(unit, result) -> whether the unit goes on: it has another callback. */
static int core_tell_result(lua_State *L)
{
    Core *core = check_started(L);
    SearchAsk ask = *check_unit(L, core), *unit;
    lua_settop(L, 3);
    if (!core->search.ended && ask.call == SEARCH_EXPAND) {
        core_push_table(L, 1, CORE_WORK);
        lua_pushvalue(L, 3);
        lua_rawseti(L, 4, 2 * (lua_Integer)ask.ticket + 1);
    }
    if (!core->search.ended && ask.call != SEARCH_MAKE)
        core_tell(L, core, 1, &ask, 3);
    else if (!core->search.ended)
        make_child(L, core, &ask);
    bool goes_on;
    while ((goes_on = search_continue(&core->search, &ask)) && ask.call == SEARCH_MAKE) {
        check_unit(L, core)->call = SEARCH_MAKE;
        make_child(L, core, &ask);
    }
    unit = check_unit(L, core);
    *unit = ask;
    if (!goes_on)
        unit->call = SEARCH_DONE;
    lua_pushboolean(L, goes_on);
    return 1;
}

/* core:fail(unit): a callback of it raised, or returned a failure. -> whether it is about a new
 * node, and that node or the ticket: what core:outcome returns when its turn has come. */
static int core_fail(lua_State *L)
{
    Core *core = check_started(L);
    SearchAsk *unit = check_unit(L, core), ask = *unit;
    unit->call = SEARCH_DONE;
    search_fail(&core->search, &ask);
    bool of_node = ask.call >= SEARCH_EVALUATE && ask.call <= SEARCH_REFLECT;
    lua_pushboolean(L, of_node);
    lua_pushinteger(L, of_node ? ask.node : ask.ticket);
    return 2;
}

/* core:outcome() -> the outcome; where it is "failed" also whether a new node's callback failed,
 * and the ticket or node. */
static int core_get_outcome(lua_State *L)
{
    const Core *core = check_core(L);
    const SearchAsk *failure = &core->search.failure;
    lua_pushstring(L, core_outcome(core));
    if (core->search.outcome != OUTCOME_FAILED)
        return 1;
    bool of_node = failure->call == SEARCH_EVALUATE;
    lua_pushboolean(L, of_node);
    lua_pushinteger(L, of_node ? failure->node : failure->ticket);
    return 3;
}

/* core:settle(outcome): ends a search that nothing else has ended; what is not evaluated is
 * forgotten. */
static int core_settle(lua_State *L)
{
    Core *core = check_core(L);
    bool late = strcmp(luaL_optstring(L, 2, ""), "max_duration") == 0;
    uint32_t keep = late ? core->search.committed : core->search.count;
    if (!core->search.ended)
        search_end(&core->search, late ? OUTCOME_MAX_DURATION : OUTCOME_OVER, keep);
    core->running = false;
    return 0;
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

/* core:node(id) -> the node as a table; nil where it is gone. */
static int core_node(lua_State *L)
{
    const Core *core = check_core(L);
    lua_Integer id = luaL_checkinteger(L, 2);
    luaL_argcheck(L, id >= 0 && id < core->search.count, 2, "no such node");
    if (!search_has(&core->search, (uint32_t)id))
        return 0;
    core_push_node(L, core, 1, (uint32_t)id, NULL, false);
    return 1;
}

/* core:kept_ids() -> the ids of the nodes that are there, where some are gone. */
static int core_kept_ids(lua_State *L)
{
    const Search *s = &check_core(L)->search;
    lua_Integer count = 0;
    if (!s->options.retain_path)
        return 0;
    lua_newtable(L);
    for (uint64_t id = 0; id < s->count; id++) {
        if (s->chunks[id >> SEARCH_CHUNK_BITS] == NULL) {
            id |= SEARCH_CHUNK_SIZE - 1;
        } else if (search_has(s, (uint32_t)id)) {
            lua_pushinteger(L, (lua_Integer)id);
            lua_rawseti(L, -2, ++count);
        }
    }
    return 1;
}

/* core:group(i) -> the ids of a level of `kept`, or of an island; nil: there is none. */
static int core_group(lua_State *L)
{
    const Search *s = &check_core(L)->search;
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

/* core:counts() -> expansions, duplicates, pruned, depth_limited, children_dropped, iterations. */
static int core_counts(lua_State *L)
{
    const Search *s = &check_core(L)->search;
    const uint64_t counts[] = {s->expansions,    s->duplicates,       s->pruned_total,
                               s->depth_limited, s->children_dropped, s->iterations};
    int n = sizeof counts / sizeof *counts;
    for (int i = 0; i < n; i++)
        lua_pushinteger(L, counts[i] < LUA_MAXINTEGER ? (lua_Integer)counts[i] : LUA_MAXINTEGER);
    return n;
}

PONDER_MODULE int luaopen_ponder_core_search(lua_State *L);

PONDER_MODULE int luaopen_ponder_core_search(lua_State *L)
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
        {"settle", core_settle},
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

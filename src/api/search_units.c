/*
 * search_units.c -- the methods with which the concurrent driver (lua/ponder/search/concurrent.lua)
 * gets units of work and tells their results.
 */
#include <math.h>
#include <string.h>

#include "api/l_search.h"

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

Core *core_start(lua_State *L, bool one_at_a_time)
{
    Core *core = core_check_idle(L);
    SearchOptions *o = &core->search.options;
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_argcheck(L, !core->started && core->search.count == 1 && !core->search.ended, 1,
                  "runs once");
    core_read_callbacks(L, core, 1, 2);
    lua_getfield(L, 2, "deadline");
    core->deadline = luaL_optnumber(L, -1, HUGE_VAL);
    bool is_beta = o->strategy == SEARCH_AB_MCTS && o->posterior == POSTERIOR_BETA;
    core->least_score = is_beta ? 0 : -INFINITY;
    core->most_score = is_beta ? 1 : INFINITY;
    o->window = one_at_a_time ? 1 : o->window;
    search_begin(&core->search);
    core->started = true;
    return core;
}

/* core:begin(callbacks): before the first ask. */
int core_begin(lua_State *L)
{
    core_start(L, false);
    return 0;
}

static Core *check_started(lua_State *L)
{
    Core *core = core_check_idle(L);
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

/* core:ask() -> "wait" or "done"; or the number of a unit. */
int core_ask(lua_State *L)
{
    Core *core = check_started(L);
    SearchAsk ask;
    lua_settop(L, 1);
    core_push_table(L, 1, CORE_STATES);
    core_drop_states(L, core, 2);
    if (!search_ask(&core->search, &ask))
        return core_no_memory(L, core);
    core_update_memory(L, core, 1);
    if (ask.call >= SEARCH_WAIT)
        lua_pushstring(L, ask.call == SEARCH_WAIT ? "wait" : "done");
    else
        lua_pushinteger(L, add_unit(L, core, &ask));
    return 1;
}

/* Argument 2, which must be a unit in flight; it becomes core->ask. */
static SearchAsk *check_unit(lua_State *L, Core *core)
{
    lua_Integer unit = luaL_checkinteger(L, 2);
    luaL_argcheck(L,
                  unit >= 1 && (lua_Unsigned)unit <= core->units.count &&
                      core->units.items[unit - 1].call != SEARCH_DONE,
                  2, "not a unit in flight");
    core->ask = core->units.items[unit - 1];
    return &core->units.items[unit - 1];
}

/* core:callback(unit) -> its name, its node, the function, and its arguments; nothing if the search
 * has ended or the next step needs no callback. */
int core_callback(lua_State *L)
{
    Core *core = check_started(L);
    const SearchAsk *ask = &core->ask;
    check_unit(L, core);
    lua_settop(L, 2);
    if (core->search.ended || ask->call == SEARCH_MAKE)
        return 0;
    lua_pushnil(L); /* 3: the current state */
    if (ask->call == SEARCH_COST || ask->call == SEARCH_KEY) {
        lua_Integer slot = 2 * (lua_Integer)ask->ticket + 1;
        core_push_table(L, 1, CORE_WORK);
        lua_rawgeti(L, 4, slot); /* 5: the list */
        lua_rawgeti(L, 4, slot + 1);
        lua_replace(L, 3);
        core_fetch_state(L, core, 5, 3);
        lua_pushvalue(L, 3);
        lua_rawseti(L, 4, slot + 1);
    }
    lua_settop(L, 3);
    lua_pushstring(L, core_call_name(core, ask->call));
    lua_pushinteger(L, ask->node);
    core_push_table(L, 1, CORE_CALLBACKS);
    lua_rawgeti(L, -1, (lua_Integer)ask->call + 1);
    lua_remove(L, -2);
    return 3 + core_push_arguments(L, core, 1, 3);
}

static void make_children(lua_State *L, Core *core)
{
    lua_Integer slot = 2 * (lua_Integer)core->ask.ticket + 1;
    lua_settop(L, 3);
    core_push_table(L, 1, CORE_WORK);
    lua_rawgeti(L, 4, slot);
    lua_rawgeti(L, 4, slot + 1);
    core_push_table(L, 1, CORE_STATES);
    lua_settop(L, 8);
    core->chunk = UINT32_MAX;
    core_make_children(L, core, 5, 6, 7, 8);
}

/* core:tell(unit, result) -> whether the unit has another callback. */
int core_tell_result(lua_State *L)
{
    Core *core = check_started(L);
    SearchAsk *ask = &core->ask;
    check_unit(L, core);
    lua_settop(L, 3);
    if (!core->search.ended && ask->call == SEARCH_EXPAND) {
        core_push_table(L, 1, CORE_WORK);
        lua_pushvalue(L, 3);
        lua_rawseti(L, 4, 2 * (lua_Integer)ask->ticket + 1);
    }
    if (ask->call != SEARCH_MAKE)
        core_tell(L, core, 1, 3);
    else if (!core->search.ended)
        make_children(L, core);
    bool continues;
    while ((continues = search_continue(&core->search, ask)) && ask->call == SEARCH_MAKE)
        make_children(L, core);
    SearchAsk next = *ask;
    next.call = continues ? next.call : SEARCH_DONE;
    *check_unit(L, core) = next;
    lua_pushboolean(L, continues);
    return 1;
}

/* core:fail(unit, raised): a callback of it raised, or returned a failure. -> whether it is about a
 * new node, and that node or the ticket: what core:outcome returns when its turn has come. Nothing
 * if the search has ended: the failure does not count. */
int core_fail(lua_State *L)
{
    Core *core = check_started(L);
    SearchAsk *unit = check_unit(L, core), ask = *unit;
    unit->call = SEARCH_DONE;
    if (core->search.ended)
        return 0;
    search_fail(&core->search, &ask, lua_toboolean(L, 3));
    bool of_node = search_is_about_child(ask.call);
    lua_pushboolean(L, of_node);
    lua_pushinteger(L, of_node ? ask.node : ask.ticket);
    return 2;
}

/* core:outcome() -> the outcome; where it is "failed" also whether a new node's callback failed,
 * and the ticket or node. */
int core_get_outcome(lua_State *L)
{
    const Core *core = core_check(L);
    const SearchAsk *failure = &core->search.failure;
    lua_pushstring(L, core_outcome(core));
    if (core->search.outcome != OUTCOME_FAILED)
        return 1;
    bool of_node = failure->call == SEARCH_EVALUATE;
    lua_pushboolean(L, of_node);
    lua_pushinteger(L, of_node ? failure->node : failure->ticket);
    return 3;
}

/* core:finish(outcome): ends a running search and drops unevaluated nodes. */
int core_finish(lua_State *L)
{
    Core *core = core_check(L);
    bool late = strcmp(luaL_optstring(L, 2, ""), "max_duration") == 0;
    uint32_t keep = late ? core->search.committed : core->search.count;
    if (!core->search.ended)
        search_end(&core->search, late ? OUTCOME_MAX_DURATION : OUTCOME_OVER, keep);
    core->running = false;
    return 0;
}

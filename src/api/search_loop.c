/*
 * search_loop.c -- runs a search's callbacks one at a time.
 *
 * The engine says which callback is next (core/search.h); the loop calls it and tells the engine
 * the result. A callback may yield (a model call, a sleep): Lua then calls `advance` again, with
 * the three results of the callback on top of the stack.
 */
#include <math.h>

#include "api/l_search.h"
#include "api/task_stop.h"

/* The stack of the loop. */
enum {
    SELF = 1,
    NOW_FN,
    STATES,
    CALLBACKS,
    EXPAND_FN,
    EVALUATE_FN,
    IS_TERMINAL_FN,
    CHUNK,  /* the table with the current child's state */
    PARENT, /* the same for the node that is expanded */
    STATE,  /* the next child's state; at the end the code of a failure */
    LIST,   /* what expand returned: its call begins here; at the end the message of a failure */
    TOP = LIST,
    CHILD_STATE /* of the current child, while its callbacks run */
};

/* The index of the first of a callback's three results. */
#define RESULT (-3)

static int advance(lua_State *L, int status, lua_KContext context);

/* Calls the function below its arguments. */
static inline void call(lua_State *L, int arguments)
{
    lua_callk(L, arguments, 3, 0, advance);
}

static bool is_late(lua_State *L, const Core *core)
{
    if (isinf(core->deadline))
        return false;
    lua_pushvalue(L, NOW_FN);
    lua_call(L, 0, 1);
    double now = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return now >= core->deadline;
}

/* A stop ends the search even if the callback has caught its error. */
static void check_stop(lua_State *L, const Core *core)
{
    if (task_stop_reason() != STOP_NONE && !core->stopped_before)
        task_stop_raise(L);
}

/* False: it is too late, and the search has ended. */
static bool expand(lua_State *L, Core *core)
{
    const SearchAsk *ask = &core->ask;
    check_stop(L, core);
    if (is_late(L, core)) {
        search_end(&core->search, OUTCOME_MAX_DURATION, core->search.committed);
        return false;
    }
    lua_settop(L, LIST - 1);
    lua_pushvalue(L, EXPAND_FN);
    if (core->wants_node[SEARCH_EXPAND]) {
        call(L, core_push_arguments(L, core, SELF, STATE));
        return true;
    }
    core_load_chunk(L, STATES, PARENT, &core->parent_chunk, ask->node);
    lua_rawgeti(L, PARENT, core_slot(ask->node));
    core_push_width(L, core);
    call(L, 2);
    return true;
}

static void call_other(lua_State *L, Core *core)
{
    lua_settop(L, TOP);
    if (core->ask.call == SEARCH_COST || core->ask.call == SEARCH_KEY)
        core_fetch_state(L, core, LIST, STATE);
    lua_rawgeti(L, CALLBACKS, (lua_Integer)core->ask.call + 1);
    call(L, core_push_arguments(L, core, SELF, STATE));
}

/* The next unit of work. */
static void ask_next(lua_State *L, Core *core)
{
    Search *s = &core->search;
    if (s->freed.count > 0 && core_drop_states(L, core, STATES))
        core->chunk = core->parent_chunk = UINT32_MAX;
    if (!search_ask(s, &core->ask))
        core_no_memory(L, core);
    if (s->options.asks[SEARCH_REFLECT] && core->ask.call != SEARCH_DONE)
        core_update_memory(L, core, SELF);
}

/* Whether it called a callback, whose results are on the stack. */
static bool do_step(lua_State *L, Core *core)
{
    switch (core->ask.call) {
    case SEARCH_EXPAND: return expand(L, core);
    case SEARCH_MAKE: core_make_children(L, core, LIST, STATE, STATES, CHUNK); return false;
    default: call_other(L, core); return true;
    }
}

/* Reads the three results of a callback on the stack; false: it failed, and its unit is over. */
static bool take_results(lua_State *L, Core *core)
{
    SearchCall done = core->ask.call;
    if (done < SEARCH_EXPANDED_EVENT && core_is_failure(L, RESULT)) {
        lua_copy(L, RESULT + 1, LIST);
        lua_copy(L, RESULT + 2, STATE);
        search_fail(&core->search, &core->ask, false);
        core->ask.call = SEARCH_WAIT;
        return false;
    }
    core_tell(L, core, SELF, done == SEARCH_EXPAND ? LIST : RESULT);
    return true;
}

/* Calls evaluate or is_terminal for the current child. */
static inline void call_for_child(lua_State *L, Core *core, int function)
{
    bool wants_node = core->wants_node[core->ask.call];
    lua_pushvalue(L, function);
    lua_pushvalue(L, CHILD_STATE);
    if (wants_node)
        core_push_node(L, core, SELF, core->ask.node, NULL, false);
    call(L, 1 + wants_node);
}

/* Calls the callbacks of a range of children: most calls are made here. `called`: the first of them
 * has returned. */
static void evaluate_range(lua_State *L, Core *core, bool called)
{
    Search *s = &core->search;
    SearchAsk *ask = &core->ask;
    for (;; ask->node++, ask->call = s->first_call) {
        if (!called) {
            lua_settop(L, TOP);
            core_load_chunk(L, STATES, CHUNK, &core->chunk, ask->node);
            lua_rawgeti(L, CHUNK, core_slot(ask->node));
        }
        if (ask->call == SEARCH_EVALUATE) {
            if (!called)
                call_for_child(L, core, EVALUATE_FN);
            called = false;
            double score = lua_type(L, RESULT) == LUA_TNUMBER ? lua_tonumber(L, RESULT) : NAN;
            if (core_in_range(core, score))
                search_tell_score(s, ask->node, score);
            else if (!take_results(L, core))
                return;
            ask->call = SEARCH_IS_TERMINAL;
        }
        if (!called)
            call_for_child(L, core, IS_TERMINAL_FN);
        called = false;
        if (lua_isboolean(L, RESULT))
            search_tell_terminal(s, ask->node, lua_toboolean(L, RESULT));
        else if (!take_results(L, core))
            return;
        if (s->ended)
            return;
        search_set_evaluated(s, ask->node);
        if (ask->node == ask->last)
            return;
    }
}

/* Runs the search; Lua calls it again after a callback that yielded. */
static int advance(lua_State *L, int status, lua_KContext context)
{
    (void)context;
    bool called = status == LUA_YIELD;
    Core *core = lua_touserdata(L, SELF);
    if (core->search.chunks.items == NULL) /* a finalizer calls it as the Lua state closes */
        return luaL_error(L, "search.run: the search is closed");
    for (;;) {
        if (search_is_range(&core->search, core->ask.call))
            evaluate_range(L, core, called);
        else if (called)
            take_results(L, core);
        if (!search_continue(&core->search, &core->ask))
            ask_next(L, core);
        if (core->ask.call == SEARCH_DONE)
            break;
        called = !search_is_range(&core->search, core->ask.call) && do_step(L, core);
    }
    core->running = false;
    lua_settop(L, TOP);
    lua_pushstring(L, core_outcome(core));
    lua_pushvalue(L, LIST);
    lua_pushvalue(L, STATE);
    return 3;
}

int core_run(lua_State *L)
{
    Core *core = core_start(L, true);
    luaL_checkstack(L, TOP + LUA_MINSTACK, NULL);
    core->running = true;
    lua_getfield(L, 2, "now");
    lua_replace(L, NOW_FN);
    lua_settop(L, NOW_FN); /* the slots that follow are filled in order */
    core_push_table(L, SELF, CORE_STATES);
    core_push_table(L, SELF, CORE_CALLBACKS);
    lua_rawgeti(L, CALLBACKS, SEARCH_EXPAND + 1);
    lua_rawgeti(L, CALLBACKS, SEARCH_EVALUATE + 1);
    lua_rawgeti(L, CALLBACKS, SEARCH_IS_TERMINAL + 1);
    lua_settop(L, TOP);
    core->chunk = core->parent_chunk = UINT32_MAX;
    core->stopped_before = task_stop_reason() != STOP_NONE;
    return advance(L, LUA_OK, 0);
}

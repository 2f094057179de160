/*
 * search_loop.c -- runs a search's callbacks one at a time.
 *
 * The engine says which callback is next (core/search.h); the loop calls it and tells the engine
 * what came. A callback may yield (a model call, a sleep): Lua then continues in `advance`, which
 * finds the three results of the callback on top of the stack.
 */
#include <math.h>

#include "api/l_search.h"
#include "api/l_task.h"

/* The loop's stack. */
enum {
    SELF = 1,
    NOW_FN,
    STATES,
    EXPAND_FN,
    EVALUATE_FN,
    IS_TERMINAL_FN,
    CHUNK,  /* the table with the state of the child in hand, see load_chunk */
    PARENT, /* the same for the node that is expanded */
    STATE,  /* the next child's state; at the end the code of a failure */
    LIST,   /* what expand returned: its call begins here; at the end the message of a failure */
    TOP = LIST
};

/* Where the first of a callback's three results is. */
#define RESULT (-3)

static int advance(lua_State *L, int status, lua_KContext context);

/* Puts the table with the state of `id` in a stack slot; `loaded` says which table is there. */
static inline void load_chunk(lua_State *L, int slot, uint32_t *loaded, uint32_t id)
{
    if (id >> SEARCH_CHUNK_BITS == *loaded)
        return;
    core_push_chunk(L, STATES, id);
    lua_replace(L, slot);
    *loaded = id >> SEARCH_CHUNK_BITS;
}

/* Calls the function below its arguments; its results are found awaited. */
static inline void call(lua_State *L, Core *core, int arguments)
{
    core->awaiting = true;
    lua_callk(L, arguments, 3, 0, advance);
}

static void check_deadline(lua_State *L, Core *core)
{
    lua_pushvalue(L, NOW_FN);
    lua_call(L, 0, 1);
    if (lua_tonumber(L, -1) >= core->deadline)
        search_end(&core->search, OUTCOME_MAX_DURATION, core->search.committed);
    lua_pop(L, 1);
}

/* A reason to stop ends the search even where the callback that it came to caught the error. */
static void check_stop(lua_State *L, const Core *core)
{
    if (task_stop_reason() != STOP_NONE && !core->stopped_before)
        task_stop_raise(L);
}

static void expand(lua_State *L, Core *core)
{
    const SearchAsk *ask = &core->ask;
    check_stop(L, core);
    lua_settop(L, LIST - 1);
    lua_pushvalue(L, EXPAND_FN);
    if (core->wants_node[SEARCH_EXPAND] || core->search.options.k == SEARCH_ALL) {
        call(L, core, core_push_arguments(L, core, SELF, ask, STATE));
        return;
    }
    load_chunk(L, PARENT, &core->parent_chunk, ask->node);
    lua_rawgeti(L, PARENT, core_slot(ask->node));
    lua_pushinteger(L, core->search.tickets.items[ask->ticket].width);
    call(L, core, 2);
}

/* evaluate and is_terminal, of which there are the most. */
static inline void call_for_child(lua_State *L, Core *core, int function)
{
    const SearchAsk *ask = &core->ask;
    if (ask->call == core->search.first_call) /* the results of evaluate may stay */
        lua_settop(L, TOP);
    load_chunk(L, CHUNK, &core->chunk, ask->node);
    lua_pushvalue(L, function);
    lua_rawgeti(L, CHUNK, core_slot(ask->node));
    if (core->wants_node[ask->call])
        core_push_node(L, core, SELF, ask->node, NULL, false);
    call(L, core, core->wants_node[ask->call] ? 2 : 1);
}

/* Makes children as far as no callback is asked about them; whether their unit goes on. */
static bool make_children(lua_State *L, Core *core)
{
    const SearchTicket *t = &core->search.tickets.items[core->ask.ticket];
    lua_settop(L, TOP);
    core->calling = "expand";
    core->calling_node = t->node;
    do {
        if (t->fetched)
            lua_pushvalue(L, STATE);
        else if (lua_geti(L, LIST, (lua_Integer)t->next + 1) == LUA_TNIL)
            core_list_hole(L, core, SEARCH_EXPAND, (lua_Integer)t->next + 1);
        uint32_t id = core->search.count;
        SearchStatus status = search_make(&core->search, &core->ask);
        if (status == SEARCH_NO_MEMORY)
            core_no_memory(L, core);
        if (status == SEARCH_OK) {
            load_chunk(L, CHUNK, &core->chunk, id);
            lua_rawseti(L, CHUNK, core_slot(id));
        }
    } while (search_makes_on(&core->search, t));
    return search_continue(&core->search, &core->ask);
}

static void call_other(lua_State *L, Core *core)
{
    lua_settop(L, TOP);
    if (core->ask.call == SEARCH_COST || core->ask.call == SEARCH_KEY)
        core_fetch_state(L, core, &core->ask, LIST, STATE);
    core_push_table(L, SELF, CORE_CALLBACKS);
    lua_rawgeti(L, -1, (lua_Integer)core->ask.call + 1);
    lua_remove(L, -2);
    call(L, core, core_push_arguments(L, core, SELF, &core->ask, STATE));
}

/* The next unit of work. */
static void ask_next(lua_State *L, Core *core)
{
    Search *s = &core->search;
    if (s->freed.count > 0 && core_drop_states(L, core, STATES))
        core->chunk = core->parent_chunk = UINT32_MAX;
    if (!search_ask(s, &core->ask))
        core_no_memory(L, core);
    if (core->ask.call != SEARCH_DONE && core->memory_round != s->rounds)
        core_update_memory(L, core, SELF);
}

static void do_step(lua_State *L, Core *core)
{
    core->calling = core->call_names[core->ask.call];
    core->calling_node = core->ask.node;
    switch (core->ask.call) {
    case SEARCH_EXPAND: expand(L, core); break;
    case SEARCH_EVALUATE: call_for_child(L, core, EVALUATE_FN); break;
    case SEARCH_IS_TERMINAL: call_for_child(L, core, IS_TERMINAL_FN); break;
    case SEARCH_TURN: check_deadline(L, core); break;
    default: call_other(L, core);
    }
}

/* The results of a callback are on top of the stack. What comes of most calls is looked at here. */
static inline void take_results(lua_State *L, Core *core)
{
    Search *s = &core->search;
    SearchCall done = core->ask.call;
    int type = lua_type(L, RESULT);
    double score = type == LUA_TNUMBER ? lua_tonumber(L, RESULT) : NAN;
    core->awaiting = false;
    if (done == SEARCH_IS_TERMINAL && type == LUA_TBOOLEAN) {
        search_tell_terminal(s, core->ask.node, lua_toboolean(L, RESULT));
    } else if (done == SEARCH_EVALUATE && !isnan(score)) {
        search_tell_score(s, core->ask.node, score);
    } else if (done < SEARCH_EXPANDED_EVENT && core_is_failure(L, RESULT)) {
        lua_copy(L, RESULT + 1, LIST);
        lua_copy(L, RESULT + 2, STATE);
        search_fail(s, &core->ask);
        core->ask.call = SEARCH_WAIT; /* the unit is over */
    } else {
        core_tell(L, core, SELF, &core->ask, done == SEARCH_EXPAND ? LIST : RESULT);
    }
}

/* Runs the search; Lua calls it again after a callback that yielded. */
static int advance(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    Core *core = lua_touserdata(L, SELF);
    if (core->search.chunks == NULL) /* a finalizer goes on with it while the state is closed */
        return luaL_error(L, "search.run: the search is closed");
    for (;;) {
        if (core->awaiting)
            take_results(L, core);
        bool goes_on = search_continue(&core->search, &core->ask);
        while (!goes_on || core->ask.call == SEARCH_MAKE) {
            if (!goes_on)
                ask_next(L, core);
            goes_on = core->ask.call != SEARCH_MAKE || make_children(L, core);
        }
        if (core->ask.call == SEARCH_DONE)
            break;
        do_step(L, core);
    }
    core->calling = NULL;
    core->running = false;
    lua_settop(L, TOP);
    lua_pushstring(L, core_outcome(core));
    lua_pushvalue(L, LIST);
    lua_pushvalue(L, STATE);
    return 3;
}

int core_run(lua_State *L)
{
    Core *core = luaL_checkudata(L, SELF, CORE_TYPE);
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_argcheck(L, !core->started && core->search.count == 1 && !core->search.ended, 1,
                  "runs once");
    luaL_checkstack(L, TOP + LUA_MINSTACK, NULL);
    lua_settop(L, 2);
    core_read_callbacks(L, core, SELF, 2);
    lua_getfield(L, 2, "deadline");
    core->deadline = luaL_optnumber(L, -1, HUGE_VAL);
    core->search.options.wants_turns = !isinf(core->deadline);
    core->search.options.window = 1;
    core->started = core->running = true;
    lua_getfield(L, 2, "now");
    lua_replace(L, NOW_FN);
    lua_settop(L, TOP);
    core_push_table(L, SELF, CORE_STATES);
    lua_replace(L, STATES);
    core_push_table(L, SELF, CORE_CALLBACKS);
    lua_rawgeti(L, -1, SEARCH_EXPAND + 1);
    lua_replace(L, EXPAND_FN);
    lua_rawgeti(L, -1, SEARCH_EVALUATE + 1);
    lua_replace(L, EVALUATE_FN);
    lua_rawgeti(L, -1, SEARCH_IS_TERMINAL + 1);
    lua_replace(L, IS_TERMINAL_FN);
    search_begin(&core->search);
    core->chunk = core->parent_chunk = UINT32_MAX;
    core->stopped_before = task_stop_reason() != STOP_NONE;
    core->ask.call = SEARCH_WAIT; /* nothing to continue */
    return advance(L, LUA_OK, 0);
}

/*
 * search_loop.c -- runs a search's callbacks one at a time.
 *
 * The loop is a table of phases. Each phase ends in the next one, or in a call of a callback whose
 * three results the next phase finds on top of the stack. A callback may yield (a model call, a
 * sleep): Lua then continues in `advance`, which finds the phase in the search.
 *
 *     TAKE         the next node; stop(node)?   -> STOPPED, or ENDED
 *     STOPPED      expand(state)                -> EXPANDED; SCORE if the node is a leaf; or ENDED
 *     EXPANDED     the list is checked          -> REGISTER
 *     REGISTER     the children are made        -> SCORE; with key(state) -> KEYED
 *     KEYED        unless the key was seen      -> REGISTER
 *     SCORE        evaluate(state)              -> SCORED; TAKE after the last child
 *                  evaluate_all(states)         -> SCORED_ALL
 *     SCORED, SCORED_ALL  is_terminal(state)    -> TESTED
 *     TESTED       the next child               -> SCORED; TAKE after the last
 *
 * Where an event is reported between two phases, TAKEN and NEXT_CHILD continue after it.
 */
#include <math.h>

#include "api/l_search.h"
#include "api/l_task.h"

/* The loop's stack. Callbacks that were not given are nil. */
enum {
    SELF = 1,
    STATES,
    NODE_META,
    EXPAND_FN,
    EVALUATE_FN,
    EVALUATE_ALL_FN,
    IS_TERMINAL_FN,
    STOP_FN,
    KEY_FN,
    ON_EVENT_FN,
    NOW_FN,
    CHUNK,  /* the table with the state of the child in hand, see load_chunk */
    PARENT, /* the same for the node that is expanded */
    KEYS,   /* set of the keys in the tree */
    STATE,  /* the state whose key is asked for; at the end the code of a failure */
    LIST,   /* what expand returned: its call begins here; at the end the message of a failure */
    TOP = LIST
};

/* Where the first of a callback's three results is. */
#define RESULT (-3)

/* Whether the callback reported a failure: nil, message, code. */
static bool is_failure(lua_State *L)
{
    return lua_isnil(L, RESULT) && lua_type(L, RESULT + 1) == LUA_TSTRING;
}

static int advance(lua_State *L, int status, lua_KContext context);

/* Calls the function below its arguments; the next phase finds three results on top. */
static inline Phase call(lua_State *L, Core *core, const char *name, uint32_t node, int arguments,
                         Phase next)
{
    core->calling = name;
    core->calling_node = node;
    core->phase = next;
    lua_callk(L, arguments, 3, 0, advance);
    return next;
}

static Phase end(Core *core, const char *outcome)
{
    core->outcome = outcome;
    return ENDED;
}

/* The results are nil, message, code: kept in LIST and STATE for the caller of the loop. */
static Phase fail(lua_State *L, Core *core)
{
    lua_copy(L, RESULT + 1, LIST);
    lua_copy(L, RESULT + 2, STATE);
    return end(core, "failed");
}

/* Puts the table with the state of `id` in a stack slot; `loaded` says which table is there. */
static inline void load_chunk(lua_State *L, int slot, uint32_t *loaded, uint32_t id)
{
    if (id >> SEARCH_CHUNK_BITS == *loaded)
        return;
    core_push_chunk(L, STATES, id);
    lua_replace(L, slot);
    *loaded = id >> SEARCH_CHUNK_BITS;
}

/* Calls `callback(state, node)` for the node `child`; the node is only made if it is wanted. */
static inline Phase call_for_child(lua_State *L, Core *core, int callback, const char *name,
                                   bool wants, Phase next)
{
    load_chunk(L, CHUNK, &core->chunk, core->child);
    lua_pushvalue(L, callback);
    lua_rawgeti(L, CHUNK, core_slot(core->child));
    if (wants)
        core_push_node(L, core, STATES, NODE_META, core->child);
    return call(L, core, name, core->child, wants ? 2 : 1, next);
}

/* Pops the state of a new child and makes it. */
static inline void make_child(lua_State *L, Core *core)
{
    uint32_t id = core->search.count;
    SearchStatus status = search_add(&core->search, core->node);
    if (status == SEARCH_OK) {
        load_chunk(L, CHUNK, &core->chunk, id);
        lua_rawseti(L, CHUNK, core_slot(id));
        return;
    }
    if (status == SEARCH_NO_MEMORY)
        core_no_memory(L, core);
    core->full = true;
    lua_pop(L, 1);
}

/* Pushes on_event and the event {type=}. */
static void push_event(lua_State *L, const char *type)
{
    lua_settop(L, TOP);
    lua_pushvalue(L, ON_EVENT_FN);
    lua_createtable(L, 0, 6);
    lua_pushstring(L, type);
    lua_setfield(L, -2, "type");
}

/* Pushes on_event and the event {type=, id=, depth=} of a node. */
static void push_node_event(lua_State *L, const Core *core, const char *type, uint32_t id)
{
    push_event(L, type);
    lua_pushinteger(L, id);
    lua_setfield(L, -2, "id");
    lua_pushinteger(L, search_node(&core->search, id)->depth);
    lua_setfield(L, -2, "depth");
}

static bool out_of_time(lua_State *L, const Core *core)
{
    if (isinf(core->deadline))
        return false;
    lua_pushvalue(L, NOW_FN);
    lua_call(L, 0, 1);
    double now = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return now >= core->deadline;
}

/* A reason to stop ends the search even where the callback that it came to caught the error. */
static void check_stop(lua_State *L, const Core *core)
{
    if (task_stop_reason() != STOP_NONE && !core->stopped_before)
        task_stop_raise(L);
}

static Phase expand(lua_State *L, Core *core)
{
    check_stop(L, core);
    core->child = core->search.count;
    if (!search_expandable(&core->search, core->node))
        return SCORE;
    lua_settop(L, LIST - 1);
    load_chunk(L, PARENT, &core->parent_chunk, core->node);
    lua_pushvalue(L, EXPAND_FN);
    lua_rawgeti(L, PARENT, core_slot(core->node));
    lua_pushinteger(L, core->k);
    if (core->expand_wants_node)
        core_push_node(L, core, STATES, NODE_META, core->node);
    return call(L, core, "expand", core->node, core->expand_wants_node ? 3 : 2, EXPANDED);
}

static Phase ask_stop(lua_State *L, Core *core)
{
    if (!core->has_stop)
        return expand(L, core);
    lua_settop(L, TOP);
    lua_pushvalue(L, STOP_FN);
    core_push_node(L, core, STATES, NODE_META, core->node);
    return call(L, core, "stop", core->node, 1, STOPPED);
}

static Phase stopped(lua_State *L, Core *core)
{
    if (is_failure(L))
        return fail(L, core);
    return core_check_boolean(L, core, RESULT) ? end(core, "stop") : expand(L, core);
}

static Phase take(lua_State *L, Core *core)
{
    Search *s = &core->search;
    if (out_of_time(L, core))
        return end(core, "max_duration");
    SearchStatus status = search_take(s, &core->node);
    if (status == SEARCH_NO_MEMORY)
        core_no_memory(L, core);
    Phase next = status == SEARCH_OVER ? end(core, "over") : TAKEN;
    if (s->pruned.count == 0 || !core->has_events)
        return next == TAKEN ? ask_stop(L, core) : next;
    push_event(L, "pruned");
    core_push_pruned(L, core);
    lua_setfield(L, -2, "ids");
    return call(L, core, "on_event", 0, 1, next);
}

static Phase expanded(lua_State *L, Core *core)
{
    if (is_failure(L))
        return fail(L, core);
    lua_Integer length = core_check_list(L, core, "a list of states", LIST, core->k);
    core->expansions++;
    core->next = 1;
    core->last = length < core->k ? length : core->k;
    return REGISTER;
}

/* Makes the children, then reports the expansion. */
static Phase register_children(lua_State *L, Core *core)
{
    while (core->next <= core->last && !core->full) {
        if (lua_geti(L, LIST, core->next++) == LUA_TNIL) {
            core->calling = "expand";
            core_list_hole(L, core, core->next - 1);
        }
        if (!core->has_key) {
            make_child(L, core);
            continue;
        }
        lua_replace(L, STATE);
        lua_pushvalue(L, KEY_FN);
        lua_pushvalue(L, STATE);
        return call(L, core, "key", core->node, 1, KEYED);
    }
    if (!core->has_events)
        return SCORE;
    push_node_event(L, core, "expanded", core->node);
    lua_pushinteger(L, (lua_Integer)core->search.count - core->child);
    lua_setfield(L, -2, "children");
    return call(L, core, "on_event", core->node, 1, SCORE);
}

static Phase keyed(lua_State *L, Core *core)
{
    if (is_failure(L))
        return fail(L, core);
    bool is_new = core_note_key(L, core, KEYS, lua_absindex(L, RESULT));
    lua_settop(L, TOP);
    if (is_new) {
        lua_pushvalue(L, STATE);
        make_child(L, core);
    } else {
        core->duplicates++;
    }
    return REGISTER;
}

static Phase root_keyed(lua_State *L, Core *core)
{
    if (is_failure(L))
        return fail(L, core);
    core_note_key(L, core, KEYS, lua_absindex(L, RESULT));
    return SCORE;
}

static Phase after_children(Core *core)
{
    return core->full ? end(core, "max_nodes") : TAKE;
}

/* evaluate_all: the states (and nodes) from `child` to the end, as lists. */
static Phase score_all(lua_State *L, Core *core)
{
    const Search *s = &core->search;
    if (s->options.strategy == SEARCH_BEAM) {
        if (!search_round_over(s) && !core->full)
            return TAKE; /* the level's other nodes first */
        core->child = s->round_children;
    }
    if (core->child >= s->count)
        return after_children(core);
    lua_settop(L, TOP);
    lua_pushvalue(L, EVALUATE_ALL_FN);
    int count = (int)(s->count - core->child);
    lua_createtable(L, count, 0);
    if (core->evaluate_wants_node)
        lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        core_push_state(L, STATES, core->child + (uint32_t)i);
        lua_rawseti(L, TOP + 2, i + 1);
        if (core->evaluate_wants_node) {
            core_push_node(L, core, STATES, NODE_META, core->child + (uint32_t)i);
            lua_rawseti(L, TOP + 3, i + 1);
        }
    }
    return call(L, core, "evaluate_all", core->child, core->evaluate_wants_node ? 2 : 1,
                SCORED_ALL);
}

static inline Phase score(lua_State *L, Core *core)
{
    if (core->scores_all)
        return score_all(L, core);
    if (core->child >= core->search.count)
        return after_children(core);
    lua_settop(L, TOP);
    return call_for_child(L, core, EVALUATE_FN, "evaluate", core->evaluate_wants_node, SCORED);
}

static inline Phase test(lua_State *L, Core *core)
{
    return call_for_child(L, core, IS_TERMINAL_FN, "is_terminal", core->is_terminal_wants_node,
                          TESTED);
}

static Phase scored(lua_State *L, Core *core)
{
    double score = lua_type(L, RESULT) == LUA_TNUMBER ? lua_tonumber(L, RESULT) : NAN;
    if (isnan(score)) {
        if (is_failure(L))
            return fail(L, core);
        core_check_score(L, core, RESULT); /* raises */
    }
    search_set_score(&core->search, core->child, score);
    return test(L, core);
}

static Phase scored_all(lua_State *L, Core *core)
{
    if (is_failure(L))
        return fail(L, core);
    core_score_all(L, core, lua_absindex(L, RESULT), core->child, core->search.count - 1);
    lua_settop(L, TOP);
    return test(L, core);
}

static inline Phase next_child(lua_State *L, Core *core)
{
    core->child++;
    if (!core->scores_all)
        return score(L, core);
    if (core->child >= core->search.count)
        return after_children(core);
    lua_settop(L, TOP);
    return test(L, core);
}

static Phase tested(lua_State *L, Core *core)
{
    if (!lua_isboolean(L, RESULT)) {
        if (is_failure(L))
            return fail(L, core);
        core_check_boolean(L, core, RESULT); /* raises */
    }
    search_set_terminal(&core->search, core->child, lua_toboolean(L, RESULT));
    if (!core->has_events)
        return next_child(L, core);
    const SearchNode *node = search_node(&core->search, core->child);
    push_node_event(L, core, "scored", core->child);
    lua_pushnumber(L, node->score);
    lua_setfield(L, -2, "score");
    lua_pushboolean(L, node->terminal);
    lua_setfield(L, -2, "terminal");
    core_push_state(L, STATES, core->child);
    lua_setfield(L, -2, "state");
    return call(L, core, "on_event", core->child, 1, NEXT_CHILD);
}

static Phase step(lua_State *L, Core *core)
{
    switch (core->phase) {
    case TAKE: return take(L, core);
    case TAKEN: return ask_stop(L, core);
    case STOPPED: return stopped(L, core);
    case EXPANDED: return expanded(L, core);
    case REGISTER: return register_children(L, core);
    case KEYED: return keyed(L, core);
    case ROOT_KEYED: return root_keyed(L, core);
    case SCORE: return score(L, core);
    case SCORED: return scored(L, core);
    case SCORED_ALL: return scored_all(L, core);
    case TESTED: return tested(L, core);
    case NEXT_CHILD: return next_child(L, core);
    case ENDED: break;
    }
    return ENDED;
}

/* Runs phases until the search has ended; Lua calls it again after a callback that yielded. */
static int advance(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    Core *core = lua_touserdata(L, SELF);
    if (core->search.chunks == NULL) /* a finalizer goes on with it while the state is closed */
        return luaL_error(L, "search.run: the search is closed");
    while (core->phase != ENDED)
        core->phase = step(L, core);
    core->calling = NULL;
    core->running = false;
    lua_settop(L, TOP);
    lua_pushstring(L, core->outcome);
    lua_pushvalue(L, LIST);
    lua_pushvalue(L, STATE);
    return 3;
}

/* Reads callbacks.wants_node[name], on top of the stack. */
static bool wants_node(lua_State *L, const char *name)
{
    lua_getfield(L, -1, name);
    bool wants = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return wants;
}

int core_run(lua_State *L)
{
    static const char *const fields[] = {"expand", "evaluate", "evaluate_all", "is_terminal",
                                         "stop",   "key",      "on_event",     "now"};
    Core *core = luaL_checkudata(L, SELF, CORE_TYPE);
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_argcheck(L, !core->running && core->phase == TAKE && core->search.count == 1, 1,
                  "runs once");
    core->running = true;
    luaL_checkstack(L, TOP + LUA_MINSTACK, NULL);
    lua_settop(L, TOP);
    for (int i = 0; i < 8; i++) {
        lua_getfield(L, 2, fields[i]);
        lua_replace(L, EXPAND_FN + i);
    }
    lua_getfield(L, 2, "wants_node");
    luaL_checktype(L, -1, LUA_TTABLE);
    core->expand_wants_node = wants_node(L, "expand");
    core->evaluate_wants_node = wants_node(L, "evaluate") || wants_node(L, "evaluate_all");
    core->is_terminal_wants_node = wants_node(L, "is_terminal");
    lua_getfield(L, 2, "k");
    core->k = lua_tointeger(L, -1);
    lua_getfield(L, 2, "deadline");
    core->deadline = luaL_optnumber(L, -1, HUGE_VAL);
    core_push_table(L, SELF, CORE_STATES);
    lua_replace(L, STATES);
    core_push_table(L, SELF, CORE_NODE_META);
    lua_replace(L, NODE_META);
    lua_newtable(L);
    lua_replace(L, KEYS);
    core->has_stop = !lua_isnil(L, STOP_FN);
    core->has_key = !lua_isnil(L, KEY_FN);
    core->has_events = !lua_isnil(L, ON_EVENT_FN);
    core->scores_all = !lua_isnil(L, EVALUATE_ALL_FN);
    core->chunk = core->parent_chunk = UINT32_MAX;
    lua_settop(L, TOP);
    core->stopped_before = task_stop_reason() != STOP_NONE;
    core->phase = SCORE; /* the root */
    if (core->has_key) {
        lua_pushvalue(L, KEY_FN);
        core_push_state(L, STATES, 0);
        call(L, core, "key", 0, 1, ROOT_KEYED);
    }
    return advance(L, LUA_OK, 0);
}

/*
 * l_tot.c -- ponder.core.tot: the Tree of Thoughts machine without its texts (src/core/tot.h), for
 * lua/ponder/tot.lua. Nodes and slots count from 1 in Lua; calls are identified by id. A load_
 * method returns whether the part is consistent with the rest: see core/tot_load.c.
 */
#include <math.h>

#include "api/l_machine.h"
#include "api/l_search.h"
#include "api/options.h"
#include "core/tot.h"

/* The node, or the slot, whose number, counted from 1, is argument `arg`. */
static uint32_t check_node(lua_State *L, const Tot *t, int arg)
{
    return machine_check_index(L, arg, (uint32_t)t->nodes.count);
}

static const TotSlot *check_slot(lua_State *L, const Tot *t, int arg)
{
    return &t->slots.items[machine_check_index(L, arg, (uint32_t)t->slots.count)];
}

static void check_outcome(lua_State *L, TotOutcome outcome, const char *what)
{
    if (outcome == TOT_NO_MEMORY)
        luaL_error(L, "not enough memory");
    if (outcome == TOT_REFUSED)
        luaL_error(L, "tot: %s does not fit the state", what);
}

/* ---- new{...}: the options, which lua/ponder/tot.lua has checked ---- */

static uint32_t count_option(lua_State *L, const char *name)
{
    return (uint32_t)options_integer(L, 1, name, UINT32_MAX - 1);
}

static int tot_new(lua_State *L)
{
    static const char *const orders[] = {"best_first", "bfs", "dfs", "search", NULL};
    static const char *const measures[] = {"best_so_far", "best_leaf", NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    TotOptions options = {
        .search = search_read_options(L),
        .min_depth = count_option(L, "min_depth"),
        .convergence_window = count_option(L, "convergence_window"),
        .max_parse_retries = count_option(L, "max_parse_retries"),
        .order = (uint8_t)options_name(L, 1, "order", orders),
        .measure = (uint8_t)options_name(L, 1, "convergence_measure", measures),
        .stop_at_max_depth = options_flag(L, 1, "stop_at_max_depth"),
        .early_success_threshold = options_number(L, 1, "early_success_threshold", 1),
        .min_score_improvement = options_number(L, 1, "min_score_improvement", 0),
        .max_duration_ms = options_number(L, 1, "max_duration_ms", INFINITY),
    };
    Tot *t = machine_new_userdata(L, sizeof *t, &tot_kind);
    check_outcome(L, tot_init(t, &options) ? TOT_DONE : TOT_NO_MEMORY, "new");
    return 1;
}

static int m_gc(lua_State *L)
{
    Tot *t = machine_self(L);
    if (machine_is_collected(L, &t->machine))
        tot_free(t);
    return 0;
}

/* clone() -> a machine with the same options and calls; lua/ponder/tot/map.lua loads the rest. */
static int m_clone(lua_State *L)
{
    const Tot *from = machine_self(L);
    Tot *t = machine_new_copy(L, sizeof *t);
    check_outcome(L, tot_init(t, &from->options) ? TOT_DONE : TOT_NO_MEMORY, "clone");
    return 1;
}

/* ---- messages ---- */

/* start(call_id, now) -> list of the call ids of the first round */
static int m_start(lua_State *L)
{
    Tot *t = machine_self(L);
    check_outcome(L, tot_init_root(t), "start");
    machine_start_self(L);
    tot_open_calls(t);
    machine_push_calls(L, &t->machine);
    return 1;
}

/* thoughts(call_id, count) -> call_id of the evaluation, how many thoughts are used */
static int m_thoughts(lua_State *L)
{
    Tot *t = machine_self(L);
    lua_Integer count = luaL_checkinteger(L, 3);
    luaL_argcheck(L, count >= 1 && count < UINT32_MAX, 3, "out of range");
    uint64_t number = machine_check_id(L, 2), next = 0;
    check_outcome(L, tot_thoughts(t, number, (uint32_t)count, &next), "thoughts");
    machine_push_id(L, next);
    lua_pushinteger(L, tot_slot_of(t, next, TOT_CALL_EVALUATE)->thought_count);
    return 2;
}

/* repair(call_id) -> call_id to ask again, or nothing if no repair is left */
static int m_repair(lua_State *L)
{
    Tot *t = machine_self(L);
    uint64_t next = 0;
    TotOutcome outcome = tot_repair(t, machine_check_id(L, 2), &next);
    if (outcome == TOT_REFUSED)
        return 0;
    check_outcome(L, outcome, "repair");
    machine_push_id(L, next);
    return 1;
}

/* Fills in the scores of a slot from a list; what is not a number is unscored. */
static void read_scores(lua_State *L, int list, const TotSlot *slot)
{
    for (uint32_t i = 0; i < slot->thought_count; i++)
        slot->scores[i] = machine_score_at(L, list, i, NAN);
}

/* scores(call_id, list) -> whether the round is complete, and has made its children */
static int m_scores(lua_State *L)
{
    Tot *t = machine_self(L);
    uint64_t number = machine_check_id(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    const TotSlot *slot = tot_slot_of(t, number, TOT_CALL_EVALUATE);
    if (slot != NULL)
        read_scores(L, 3, slot);
    check_outcome(L, tot_scored(t, number), "scores");
    lua_pushboolean(L, tot_round_complete(t));
    return 1;
}

/* verdict(now, budgets_only) -> reason; nil if the run goes on, with the round backed up */
static int m_verdict(lua_State *L)
{
    Tot *t = machine_self(L);
    const char *reason = tot_verdict(t, luaL_checknumber(L, 2), lua_toboolean(L, 3));
    lua_pushstring(L, reason);
    if (reason == NULL)
        check_outcome(L, tot_enqueue_children(t), "verdict");
    return 1;
}

/* The list of node numbers at `arg`, copied to a userdata that is pushed; other values become
 * SEARCH_NO_NODE. */
static uint32_t *check_nodes(lua_State *L, int arg, uint32_t *count)
{
    luaL_checktype(L, arg, LUA_TTABLE);
    lua_Unsigned length = lua_rawlen(L, arg);
    luaL_argcheck(L, length < UINT32_MAX, arg, "too long");
    uint32_t *ids = machine_push_room(L, (size_t)length);
    for (lua_Unsigned i = 0; i < length; i++) {
        lua_rawgeti(L, arg, (lua_Integer)i + 1);
        lua_Integer id = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
        ids[i] = id >= 1 && id < UINT32_MAX ? (uint32_t)(id - 1) : SEARCH_NO_NODE;
        lua_pop(L, 1);
    }
    *count = (uint32_t)length;
    return ids;
}

/* take([nodes]) -> list of the call ids of the next round; nil, reason if the run ends; or nil if
 * the choice is refused */
static int m_take(lua_State *L)
{
    Tot *t = machine_self(L);
    uint32_t count = 0, *chosen = NULL;
    if (!lua_isnoneornil(L, 2))
        chosen = check_nodes(L, 2, &count);
    TotOutcome outcome = tot_next_round(t, chosen, count);
    lua_pushnil(L);
    if (outcome == TOT_REFUSED && chosen != NULL)
        return 1;
    if (outcome == TOT_OVER || outcome == TOT_LIMIT) {
        lua_pushstring(L, outcome == TOT_OVER ? "max_depth" : "max_iterations");
        return 2;
    }
    check_outcome(L, outcome, "take");
    machine_push_calls(L, &t->machine);
    return 1;
}

/* ---- reading ---- */

static int m_node_count(lua_State *L)
{
    const Tot *t = machine_self(L);
    lua_pushinteger(L, (lua_Integer)t->nodes.count);
    return 1;
}

/* counts() -> nodes, length of the frontier, depth reached, best score */
static int m_counts(lua_State *L)
{
    const Tot *t = machine_self(L);
    lua_pushinteger(L, (lua_Integer)t->nodes.count);
    lua_pushinteger(L, tot_frontier_size(t));
    lua_pushinteger(L, t->depth_reached);
    machine_push_score(L, t->best_score);
    return 4;
}

/* node(i) -> parent or nil, score or nil, depth; visits and value if the search has them */
static int m_node(lua_State *L)
{
    const Tot *t = machine_self(L);
    uint32_t id = check_node(L, t, 2);
    const SearchNode *node = search_node(&t->search, id);
    SearchFacts facts = {0};
    machine_push_index(L, node->parent);
    machine_push_score(L, t->nodes.items[id].score);
    lua_pushinteger(L, node->depth);
    if (t->search.rounds > 0) /* a restored final machine does not repeat them */
        search_facts(&t->search, id, &facts);
    if (!facts.has_visits)
        return 3;
    lua_pushinteger(L, (lua_Integer)facts.visits);
    machine_push_score(L, facts.value);
    return 5;
}

/* children(i) -> nodes, in order of creation */
static int m_children(lua_State *L)
{
    const Tot *t = machine_self(L);
    const TotNode *nodes = t->nodes.items, *node = &nodes[check_node(L, t, 2)];
    lua_createtable(L, (int)node->child_count, 0);
    uint32_t child = node->last_child;
    for (lua_Integer i = node->child_count; i > 0; i--, child = nodes[child].sibling_before) {
        lua_pushinteger(L, (lua_Integer)child + 1);
        lua_rawseti(L, -2, i);
    }
    return 1;
}

/* path(i[, limit]) -> nodes from the root to i, or the last `limit` of them */
static int m_path(lua_State *L)
{
    const Tot *t = machine_self(L);
    uint32_t node = check_node(L, t, 2);
    lua_Integer length = (lua_Integer)search_node(&t->search, node)->depth + 1;
    lua_Integer limit = luaL_optinteger(L, 3, length);
    length = limit < length ? (limit < 0 ? 0 : limit) : length;
    lua_createtable(L, (int)length, 0);
    for (lua_Integer i = length; i > 0; i--) {
        lua_pushinteger(L, (lua_Integer)node + 1);
        lua_rawseti(L, -2, i);
        node = search_node(&t->search, node)->parent;
    }
    return 1;
}

static int m_answer(lua_State *L)
{
    const Tot *t = machine_self(L);
    machine_push_index(L, t->answer);
    return 1;
}

/* candidates(k) -> the first k leaves by rank */
static int m_candidates(lua_State *L)
{
    const Tot *t = machine_self(L);
    lua_Integer k = luaL_checkinteger(L, 2), count = (lua_Integer)t->nodes.count;
    k = k < 0 ? 0 : k > count ? count : k;
    uint32_t *ids = machine_push_room(L, t->nodes.count);
    machine_push_indexes(L, ids, tot_candidates(t, ids, (uint32_t)k));
    return 1;
}

/* frontier() -> nodes, next first */
static int m_frontier(lua_State *L)
{
    const Tot *t = machine_self(L);
    uint32_t count = tot_frontier_size(t), *ids = machine_push_room(L, count);
    check_outcome(L, tot_list_frontier(t, ids), "frontier");
    machine_push_indexes(L, ids, count);
    return 1;
}

static int m_slot_count(lua_State *L)
{
    const Tot *t = machine_self(L);
    lua_pushinteger(L, (lua_Integer)t->slots.count);
    return 1;
}

/* slot_node(i) -> the node of a slot, its id, and the number of thoughts it asks for */
static int m_slot_node(lua_State *L)
{
    const Tot *t = machine_self(L);
    const TotSlot *slot = check_slot(L, t, 2);
    lua_pushinteger(L, (lua_Integer)slot->node + 1);
    machine_push_numbered(L, 'n', (uint64_t)slot->node + 1);
    lua_pushinteger(L, tot_width(t, slot));
    return 3;
}

/* ---- a saved machine ---- */

/* By what a slot awaits. */
static const char *const phases[] = {"generating", "evaluating", "done", NULL};

/* Pushes a list of numbers; false for NaN. */
static void push_numbers(lua_State *L, const double *numbers, uint32_t count)
{
    lua_createtable(L, (int)count, 0);
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(numbers[i]))
            lua_pushboolean(L, false);
        else
            lua_pushnumber(L, numbers[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* recent() -> list of the measures in the convergence window */
static int m_recent(lua_State *L)
{
    const Tot *t = machine_self(L);
    uint32_t count;
    const double *recent = tot_recent(t, &count);
    push_numbers(L, recent, count);
    return 1;
}

/* expansions() -> the number of children of each slot of earlier rounds; nothing if there is a
 * frontier */
static int m_expansions(lua_State *L)
{
    const Tot *t = machine_self(L);
    if (tot_has_frontier(t))
        return 0;
    core_push_ids(L, t->expansions.items, t->expansions.count);
    return 1;
}

/* retries() -> repairs asked for generations, for evaluations */
static int m_retries(lua_State *L)
{
    const Tot *t = machine_self(L);
    for (int kind = 0; kind < TOT_CALLS; kind++)
        lua_pushinteger(L, (lua_Integer)t->retries[kind]);
    return TOT_CALLS;
}

/* slot(i) -> node, phase, number of thoughts, retries, list of scores (false: unscored) or nil */
static int m_slot(lua_State *L)
{
    const Tot *t = machine_self(L);
    const TotSlot *slot = check_slot(L, t, 2);
    lua_pushinteger(L, (lua_Integer)slot->node + 1);
    lua_pushstring(L, phases[slot->awaits]);
    lua_pushinteger(L, slot->thought_count);
    lua_pushinteger(L, slot->retries);
    if (slot->awaits != TOT_CALLS)
        return 4;
    push_numbers(L, slot->scores, slot->thought_count);
    return 5;
}

static int loaded(lua_State *L, TotOutcome outcome)
{
    if (outcome == TOT_NO_MEMORY)
        check_outcome(L, outcome, "load");
    lua_pushboolean(L, outcome == TOT_DONE);
    return 1;
}

static Tot *check_loading(lua_State *L)
{
    Tot *t = machine_self(L);
    luaL_argcheck(L, !t->loaded, 1, "not being loaded");
    return t;
}

/* load_node(parent, score): nil for the root */
static int m_load_node(lua_State *L)
{
    Tot *t = check_loading(L);
    uint32_t parent = lua_isnil(L, 2) ? SEARCH_NO_NODE : check_node(L, t, 2);
    return loaded(L, tot_load_node(t, parent, luaL_optnumber(L, 3, NAN)));
}

/* load_slot(node, phase, number of thoughts, retries, list of scores or nil) */
static int m_load_slot(lua_State *L)
{
    Tot *t = check_loading(L);
    TotSlot slot = {.node = check_node(L, t, 2)};
    slot.awaits = (uint32_t)luaL_checkoption(L, 3, NULL, phases);
    slot.thought_count = machine_check_count(L, 4);
    slot.retries = machine_check_count(L, 5);
    bool done = slot.awaits == TOT_CALLS;
    if (done && (!lua_istable(L, 6) || lua_rawlen(L, 6) != slot.thought_count))
        return loaded(L, TOT_REFUSED);
    TotOutcome outcome = tot_load_slot(t, slot);
    if (done && outcome == TOT_DONE)
        read_scores(L, 6, &t->slots.items[t->slots.count - 1]);
    return loaded(L, outcome);
}

static int m_load_frontier(lua_State *L)
{
    Tot *t = check_loading(L);
    uint32_t count, *ids = check_nodes(L, 2, &count);
    return loaded(L, tot_load_frontier(t, ids, count));
}

/* load_end(answer or nil, generation retries, evaluation retries, recent, expansions or nil) */
static int m_load_end(lua_State *L)
{
    Tot *t = check_loading(L);
    uint32_t answer = lua_isnil(L, 2) ? SEARCH_NO_NODE : check_node(L, t, 2);
    t->retries[TOT_CALL_GENERATE] = machine_check_count(L, 3);
    t->retries[TOT_CALL_EVALUATE] = machine_check_count(L, 4);
    lua_Unsigned measures = lua_rawlen(L, 5), expansions = lua_rawlen(L, 6);
    if (!vec_reserve(&t->measures, &t->machine.alloc, measures) ||
        !vec_reserve(&t->expansions, &t->machine.alloc, expansions))
        return loaded(L, TOT_NO_MEMORY);
    for (lua_Unsigned i = 1; i <= measures; i++, lua_pop(L, 1)) {
        lua_rawgeti(L, 5, (lua_Integer)i);
        vec_push(&t->measures, luaL_checknumber(L, -1));
    }
    for (lua_Unsigned i = 1; i <= expansions; i++, lua_pop(L, 1)) {
        lua_rawgeti(L, 6, (lua_Integer)i);
        vec_push(&t->expansions, machine_check_count(L, -1));
    }
    return loaded(L, tot_load_end(t, answer));
}

PONDER_MODULE(luaopen_ponder_core_tot)
{
    static const luaL_Reg methods[] = {
        {"clone", m_clone},
        {"start", m_start},
        {"thoughts", m_thoughts},
        {"repair", m_repair},
        {"scores", m_scores},
        {"verdict", m_verdict},
        {"take", m_take},
        {"node_count", m_node_count},
        {"counts", m_counts},
        {"node", m_node},
        {"children", m_children},
        {"path", m_path},
        {"answer", m_answer},
        {"candidates", m_candidates},
        {"frontier", m_frontier},
        {"recent", m_recent},
        {"expansions", m_expansions},
        {"retries", m_retries},
        {"slot_count", m_slot_count},
        {"slot", m_slot},
        {"slot_node", m_slot_node},
        {"load_node", m_load_node},
        {"load_slot", m_load_slot},
        {"load_frontier", m_load_frontier},
        {"load_end", m_load_end},
        {NULL, NULL},
    };
    machine_new_class(L, &tot_kind, methods, tot_new, m_gc);
    return 1;
}

/*
 * l_search.c -- ponder.core.search: a search and its tree for Lua.
 *
 * lua/ponder/search.lua checks the options and shapes the result; the callbacks are called by
 * search_program.c, most of them through lua/ponder/think/search/callbacks.lua.
 */
#include "api/l_search.h"

#include <math.h>
#include <string.h>

#include "api/task_stop.h"
#include "core/search_uct.h"

const char *const core_callback_names[] = {
    "expand",       "evaluate", "is_terminal", "simulate",     "cost",    "key",      "stop",
    "evaluate_all", "prior",    "spent",       "own",          "reflect", "expanded", "scored",
    "pruned",       "refuse",   "add_fields",  "order",        "made",    "children", "turn",
    "end_round",    "select",   "back_up",     "refuse_ticket"};

Core *core_check(lua_State *L)
{
    Core *core = luaL_checkudata(L, 1, CORE_TYPE);
    luaL_argcheck(L, core->search.chunks.items != NULL, 1, "the search is closed");
    return core;
}

Core *core_check_started(lua_State *L)
{
    Core *core = core_check(L);
    luaL_argcheck(L, core->started, 1, "the search has not begun");
    luaL_argcheck(L, !core->running, 1, "the search is running");
    return core;
}

int core_no_memory(lua_State *L)
{
    lua_pushliteral(L, "search.run: not enough memory");
    return lua_error(L);
}

/* ---- nodes ---- */

void core_push_table(lua_State *L, int index, int which)
{
    if (lua_getiuservalue(L, index, which) != LUA_TTABLE)
        luaL_error(L, "search.run: the search has lost its states (debug.setuservalue?)");
}

void core_push_node(lua_State *L, const Core *core, int self, uint32_t id, lua_Integer ticket,
                    bool terminal_known)
{
    const SearchNode *node = search_node(&core->search, id);
    self = lua_absindex(L, self);
    lua_createtable(L, 0, 6);
    api_set_integer(L, "id", id);
    if (node->parent != SEARCH_NO_NODE)
        api_set_integer(L, "parent_id", node->parent);
    core_push_state(L, self, id);
    lua_setfield(L, -2, "state");
    api_set_integer(L, "depth", node->depth);
    bool has_score = node->scored || !core->search.options.lazy || terminal_known;
    if (!isnan(node->score) && has_score)
        api_set_number(L, "score", node->score);
    if (node->scored || (terminal_known && has_score))
        api_set_boolean(L, "terminal", node->terminal);
    SearchFacts facts = search_facts(&core->search, id);
    if (!isnan(facts.visits))
        api_set_integer(L, "visits", (lua_Integer)facts.visits);
    if (!isnan(facts.value))
        api_set_number(L, "value", facts.value);
    if (!isnan(facts.g))
        api_set_number(L, "g", facts.g);
    if (core->search.policy == &search_lua && core->repeats)
        api_set_integer(L, "expansions", core_expansions(&core->search, id, ticket));
    if (core->search.policy == &search_lua && ticket > 0) {
        core_push_ticket(L, self, (uint32_t)ticket - 1);
        lua_setfield(L, -2, "ticket");
    }
    if (core->asks[CALL_ADD_FIELDS]) {
        core_push_table(L, self, CORE_CALLBACKS);
        lua_rawgeti(L, -1, CALL_ADD_FIELDS + 1);
        lua_replace(L, -2);
        lua_pushvalue(L, -2);
        lua_pushinteger(L, id);
        lua_pushinteger(L, ticket);
        lua_call(L, 3, 0);
    }
    lua_getiuservalue(L, self, CORE_NODE_META);
    lua_setmetatable(L, -2);
}

void core_push_state(lua_State *L, int self, uint32_t id)
{
    core_push_table(L, self, CORE_STATES);
    core_get_state(L, lua_gettop(L), id);
    lua_remove(L, -2);
}

/* ---- options: lua/ponder/base/searches.lua has checked them ---- */

static int choice(lua_State *L, const char *name, const char *const names[])
{
    lua_getfield(L, 1, name);
    int i = luaL_checkoption(L, -1, names[0], names);
    lua_pop(L, 1);
    return i;
}

#define AT(name)                                                                                   \
    {                                                                                              \
#name, offsetof(SearchOptions, name), sizeof(((SearchOptions *)0)->name)                   \
    }

static SearchOptions read_options(lua_State *L)
{
    static const char *const priors[] = {"none", "uniform", "softmax", "function", NULL};
    static const char *const unvisited[] = {"infinite", "parent", "number", NULL};
    static const SearchPolicy *const policies[] = {&search_bfs,        &search_dfs, &search_beam,
                                                   &search_best_first, &search_uct, &search_astar,
                                                   &search_idastar,    &search_lua};
    static const struct {
        const char *name;
        size_t at, size;
    } options[] = {AT(stop_score),      AT(c),          AT(c_init),
                   AT(c_base),          AT(guide),      AT(weight),
                   AT(unvisited_value), AT(gumbel),     AT(value_scale),
                   AT(maxvisit_init),   AT(k),          AT(max_depth),
                   AT(max_nodes),       AT(beam_width), AT(batch),
                   AT(max_iterations),  AT(considered), AT(stops_at_terminal),
                   AT(retain_path),     AT(simulates),  AT(reflects),
                   AT(scores_levels),   AT(lazy),       AT(is_puct),
                   AT(is_halving),      AT(normalize),  AT(backs_up_max),
                   AT(greedy),          AT(revisit),    AT(asks_spent)};
    SearchOptions o = {.prior = (SearchPrior)choice(L, "prior", priors),
                       .unvisited = (SearchUnvisited)choice(L, "unvisited", unvisited)};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        void *at = (char *)&o + options[i].at;
        lua_getfield(L, 1, options[i].name);
        double x = lua_isnumber(L, -1) ? lua_tonumber(L, -1) : NAN;
        if (options[i].size == sizeof(double))
            *(double *)at = x;
        else if (options[i].size == sizeof(uint32_t)) /* nil, or a larger one: no limit */
            *(uint32_t *)at = x < UINT32_MAX ? (uint32_t)x : UINT32_MAX;
        else
            *(bool *)at = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    lua_getfield(L, 1, "seed"); /* any integer */
    o.seed = (uint64_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, 1, "policy");
    const char *name = luaL_checkstring(L, -1);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (strcmp(name, policies[i]->name) == 0)
            o.policy = policies[i];
    luaL_argcheck(L, o.policy != NULL, 1, "no such policy");
    lua_pop(L, 2);
    return o;
}

/* core.new(options, initial_state, node_meta) -> core with its root. */
static int core_new(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 3);
    if (!lua_isnil(L, 3))
        luaL_checktype(L, 3, LUA_TTABLE);
    SearchOptions o = read_options(L);
    lua_getfield(L, 1, "is_beta");
    lua_getfield(L, 1, "repeats");
    bool is_beta = lua_toboolean(L, -2), repeats = lua_toboolean(L, -1);
    Core *core = lua_newuserdatauv(L, sizeof *core, CORE_VALUES);
    memset(core, 0, sizeof *core);
    core->program.calling = CALL_NONE;
    core->is_beta = is_beta;
    core->repeats = repeats;
    bool ready = search_init(&core->search, api_alloc(L), &o);
    luaL_setmetatable(L, CORE_TYPE);
    lua_replace(L, 1); /* core, initial state, node_meta */
    lua_settop(L, 3);
    SearchTicket root = {.node = SEARCH_NO_NODE};
    if (!ready || search_add(&core->search, &root, 1) != SEARCH_OK)
        return core_no_memory(L);
    for (int value = CORE_STATES; value <= CORE_VALUES; value++) {
        lua_newtable(L);
        lua_setiuservalue(L, 1, value);
    }
    lua_pushvalue(L, 3);
    lua_setiuservalue(L, 1, CORE_NODE_META);
    core_push_table(L, 1, CORE_STATES);
    lua_createtable(L, SEARCH_CHUNK, 0);
    lua_pushvalue(L, 2);
    lua_rawseti(L, -2, core_slot(0));
    lua_rawseti(L, -2, 1);
    lua_settop(L, 1);
    return 1;
}

/* core:begin{callbacks = {name = function}, wants_node = {name = boolean}}. */
static int core_begin(lua_State *L)
{
    Core *core = core_check(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_argcheck(L, !core->started && !core->search.ended, 1, "runs once");
    lua_settop(L, 2);
    lua_getfield(L, 2, "callbacks");
    lua_getfield(L, 2, "wants_node");
    luaL_checktype(L, 3, LUA_TTABLE);
    luaL_checktype(L, 4, LUA_TTABLE);
    lua_createtable(L, CALL_NONE, 0);
    for (int i = 0; i < CALL_NONE; i++) {
        lua_getfield(L, 4, core_callback_names[i]);
        core->wants_node[i] = lua_toboolean(L, -1);
        core->asks[i] = lua_getfield(L, 3, core_callback_names[i]) != LUA_TNIL;
        lua_rawseti(L, 5, i + 1);
        lua_settop(L, 5);
    }
    lua_setiuservalue(L, 1, CORE_CALLBACKS);
    core->stopped_before = task_stop_reason() != STOP_NONE;
    core->started = true;
    return 0;
}

static int core_gc(lua_State *L)
{
    Core *core = luaL_checkudata(L, 1, CORE_TYPE);
    if (api_is_collected(L))
        search_free(&core->search);
    return 0;
}

/* Nil for SEARCH_NO_NODE. */
static int push_id(lua_State *L, uint32_t id)
{
    if (id == SEARCH_NO_NODE)
        lua_pushnil(L);
    else
        lua_pushinteger(L, id);
    return 1;
}

/* ---- the concurrent driver, ask and tell ---- */

/* core:finish(outcome): ends a running search. Of the ticket in turn those nodes count that are
 * scored as they would be one at a time. */
static int core_finish(lua_State *L)
{
    Core *core = luaL_checkudata(L, 1, CORE_TYPE);
    Search *s = &core->search;
    bool late = strcmp(luaL_optstring(L, 2, ""), "max_duration") == 0;
    core->running = false;
    if (s->ended)
        return 0;
    const SearchTicket *t = s->turn < s->tickets.count ? &s->tickets.items[s->turn] : NULL;
    while (t != NULL && !s->options.lazy && s->committed >= t->first && s->committed < t->end &&
           s->committed < s->count && search_node(s, s->committed)->scored)
        search_consider(s, s->committed);
    search_end(s, late ? OUTCOME_MAX_DURATION : OUTCOME_FAILED);
    return 0;
}

/* The node that is the answer, or SEARCH_NO_NODE if nothing is scored. */
static uint32_t best_of(const Search *s)
{
    uint32_t best = s->answer < s->count ? s->answer : s->best;
    return best < s->count ? best : SEARCH_NO_NODE;
}

/* core:outcome() -> why it has ended, "terminal", "stop"...; nil: it is running. */
static int core_outcome(lua_State *L)
{
    static const char *const outcomes[] = {NULL,           "exhausted",      "stop",  "max_nodes",
                                           "max_duration", "max_iterations", "failed"};
    const Search *s = &core_check(L)->search;
    uint32_t best = best_of(s);
    bool found = best != SEARCH_NO_NODE && search_node(s, best)->terminal;
    lua_pushstring(L, !s->ended                             ? NULL
                      : s->outcome == OUTCOME_OVER && found ? "terminal"
                                                            : outcomes[s->outcome]);
    return 1;
}

/* core:pruned() -> the ids that the last round dropped. */
static int core_pruned(lua_State *L)
{
    const IdList *pruned = &core_check(L)->search.pruned;
    lua_createtable(L, (int)pruned->count, 0);
    for (size_t i = 0; i < pruned->count; i++) {
        lua_pushinteger(L, pruned->items[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* core:round() -> number of tickets, ticket in turn (from 0). */
static int core_round(lua_State *L)
{
    const Search *s = &core_check(L)->search;
    lua_pushinteger(L, (lua_Integer)s->tickets.count);
    lua_pushinteger(L, s->turn);
    return 2;
}

/* core:ticket(i) -> its node (nil: it scores the root), whether it expands, k, its first
 * node to score, its first and the one after its last. */
static int core_ticket(lua_State *L)
{
    const Search *s = &core_check(L)->search;
    lua_Integer i = luaL_checkinteger(L, 2);
    luaL_argcheck(L, i >= 0 && (size_t)i < s->tickets.count, 2, "no such ticket");
    const SearchTicket *t = &s->tickets.items[i];
    lua_settop(L, 2);
    push_id(L, t->node);
    lua_pushboolean(L, t->expands);
    push_id(L, t->k); /* SEARCH_ALL: nil */
    lua_pushinteger(L, search_first_to_score(s, t));
    lua_pushinteger(L, t->first);
    lua_pushinteger(L, t->end);
    return 6;
}

/* core:calling([program]) -> name of the callback that runs, id and depth of its node; or nil. */
static int core_calling(lua_State *L)
{
    const Core *core = luaL_checkudata(L, 1, CORE_TYPE);
    const Program *p = lua_isnoneornil(L, 2) ? &core->program : luaL_checkudata(L, 2, PROGRAM_TYPE);
    if (p->calling >= CALL_REFUSE || p->node >= core->search.count) /* not a user's */
        return 0;
    lua_pushstring(L, core_callback_names[p->calling]);
    lua_pushinteger(L, p->node);
    lua_pushinteger(L, search_node(&core->search, p->node)->depth);
    return 3;
}

/* ---- the tree ---- */

/* core:best() -> id, or nil if nothing is scored. */
static int core_best(lua_State *L)
{
    return push_id(L, best_of(&core_check(L)->search));
}

/* For evaluate_all and prior, which have checked them. */
static int core_set_score(lua_State *L)
{
    Core *core = core_check(L);
    search_node(&core->search, core_check_id(L, core))->score = luaL_checknumber(L, 3);
    return 0;
}

static int core_set_prior(lua_State *L)
{
    Core *core = core_check(L);
    uint32_t id = core_check_id(L, core);
    luaL_argcheck(L, core->search.options.prior == PRIOR_ASKED, 1, "does not ask for priors");
    uct_node(&core->search, id)->more->prior = luaL_checknumber(L, 3);
    return 0;
}

/* core:node(id, terminal_known, ticket) -> the node as a table, for expand with a ticket (from 1);
 * nil if it was freed. */
static int core_node(lua_State *L)
{
    const Core *core = core_check(L);
    lua_Integer id = luaL_checkinteger(L, 2);
    luaL_argcheck(L, id >= 0 && id < core->search.count, 2, "no such node");
    if (!search_has(&core->search, (uint32_t)id))
        return 0;
    core_push_node(L, core, 1, (uint32_t)id, luaL_optinteger(L, 4, 0), lua_toboolean(L, 3));
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
        if (search_chunk(s, (uint32_t)id) == NULL) {
            id |= SEARCH_CHUNK - 1;
        } else if (search_has(s, (uint32_t)id)) {
            lua_pushinteger(L, (lua_Integer)id);
            lua_rawseti(L, -2, ++count);
        }
    }
    return 1;
}

/* core:counts() -> expansions, duplicates, pruned, depth_limited, children_dropped, iterations;
 * halving: the child of the root to choose. */
static int core_counts(lua_State *L)
{
    const Search *s = &core_check(L)->search;
    const uint64_t counts[] = {s->expansions,    s->duplicates,       s->pruned_total,
                               s->depth_limited, s->children_dropped, s->iterations};
    int n = sizeof counts / sizeof *counts;
    for (int i = 0; i < n; i++)
        lua_pushinteger(L, (lua_Integer)counts[i]);
    bool has_choice = s->options.is_halving && s->rounds > 1;
    return n + push_id(L, has_choice ? ((const Uct *)s->data)->choice : SEARCH_NO_NODE);
}

PONDER_MODULE(luaopen_ponder_core_search)
{
    static const luaL_Reg methods[] = {{"begin", core_begin},
                                       {"best", core_best},
                                       {"calling", core_calling},
                                       {"counts", core_counts},
                                       {"finish", core_finish},
                                       {"kept_ids", core_kept_ids},
                                       {"next_round", core_next_round},
                                       {"node", core_node},
                                       {"outcome", core_outcome},
                                       {"program", core_new_program},
                                       {"pruned", core_pruned},
                                       {"round", core_round},
                                       {"run", core_run},
                                       {"set_prior", core_set_prior},
                                       {"set_score", core_set_score},
                                       {"ticket", core_ticket},
                                       {"view", core_view},
                                       {"work", core_work},
                                       {NULL, NULL}};
    luaL_newmetatable(L, PROGRAM_TYPE);
    luaL_newmetatable(L, CORE_TYPE);
    lua_pushcfunction(L, core_gc);
    lua_setfield(L, -2, "__gc");
    luaL_newlib(L, methods);
    core_add_fields(L, 0);
    lua_setfield(L, -2, "__index");
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, core_new);
    lua_setfield(L, -2, "new");
    return 1;
}

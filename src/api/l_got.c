/*
 * l_got.c -- ponder.core.got: the Graph of Thoughts machine without its texts (src/core/got.h).
 *
 * lua/ponder/got.lua keeps the ids and texts of nodes and edges, by index from 1. A reply takes two
 * steps: close_call, then the method of its kind, which returns the next step: "wait", "asked" (the
 * open calls are new), "done" and the reason (then call `finish`), or "no_memory", which is not
 * raised so that the texts of new nodes can be stored first.
 */
#include "api/l_got.h"
#include "api/options.h"

#include <math.h>

static const char *const strategies[] = {"synthesis", "voting", "weighted", NULL};
static const char *const reasons[] = {NULL, "success", "max_nodes", "max_depth", "error"};

/* ---- options ---- */

static uint32_t field_count(lua_State *L, const char *name)
{
    return (uint32_t)options_integer(L, 2, name, INT32_MAX);
}

/* core:configure(options), complete and checked, before the first node */
static int m_configure(lua_State *L)
{
    Got *got = got_self(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_argcheck(L, got->graph.node_count == 0, 1, "not fresh");
    GotOptions o = {
        .max_nodes = field_count(L, "max_nodes"),
        .max_depth = field_count(L, "max_depth"),
        .branching_factor = field_count(L, "branching_factor"),
        .max_aggregated = field_count(L, "max_aggregated"),
        .votes = field_count(L, "votes"),
        .refine_rounds = field_count(L, "refine_rounds"),
        .strategy = (GotStrategy)options_name(L, 2, "aggregation_strategy", strategies),
        .score_thoughts = options_flag(L, 2, "score_thoughts"),
        .connect = options_flag(L, 2, "connect"),
        .chain = options_flag(L, 2, "chain"),
    };
    luaL_argcheck(L, o.branching_factor > 0 && o.max_aggregated > 0 && o.votes > 0, 2,
                  "counts must be positive");
    got_configure(got, &o);
    return 0;
}

/* new() -> core */
static int f_new(lua_State *L)
{
    got_init((Got *)machine_new_userdata(L, sizeof(Got), &got_kind));
    return 1;
}

static int m_clone(lua_State *L)
{
    const Got *from = got_self(L);
    Got *to = (Got *)machine_new_copy(L, sizeof *to);
    got_init(to);
    if (!got_copy(to, from))
        luaL_error(L, "not enough memory");
    return 1;
}

static int m_gc(lua_State *L)
{
    got_free(got_self(L));
    return 0;
}

/* ---- moves ---- */

/* Pushes the step and, if it is the last, the reason. */
static int push_step(lua_State *L, const Got *got, GotStep step)
{
    static const char *const names[] = {"wait", "asked", "done", "no_memory"};
    lua_pushstring(L, names[step]);
    lua_pushstring(L, step == GOT_DONE ? reasons[got->reason] : NULL);
    return 2;
}

/* Self, which must have status `from`. */
static Got *moving(lua_State *L, uint8_t from)
{
    Got *got = got_self(L);
    luaL_argcheck(L, got->machine.status == from, 1, "not in that state");
    return got;
}

/* The same for a step with a single call, which must be closed. */
static Got *moving_after_call(lua_State *L, uint8_t from)
{
    Got *got = moving(L, from);
    luaL_argcheck(L, got->machine.call_count == 0, 1, "a call is open");
    return got;
}

/* core:start(call_id, now) */
static int m_start(lua_State *L)
{
    Got *got = got_self(L);
    machine_start_self(L);
    return push_step(L, got, got_begin(got));
}

static uint32_t check_min_nodes(lua_State *L, int arg)
{
    lua_Integer n = luaL_checkinteger(L, arg);
    return n < 0 ? 0 : n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* core:thought(usable, min_nodes) */
static int m_thought(lua_State *L)
{
    Got *got = moving(L, GOT_GENERATING);
    return push_step(L, got, got_thought(got, lua_toboolean(L, 2), check_min_nodes(L, 3)));
}

/* core:scored(scores, min_nodes[, again]): a score, or false, for each pending node; `again` asks
 * once more for missing ones */
static int m_scored(lua_State *L)
{
    Got *got = moving_after_call(L, GOT_SCORING);
    uint32_t min_nodes = check_min_nodes(L, 3);
    luaL_checktype(L, 2, LUA_TTABLE);
    for (uint32_t i = 0; i < got->pending_count; i++) {
        double score = machine_score_at(L, 2, i);
        if (!isnan(score))
            got->graph.nodes[got->pending[i].node].score = score;
    }
    GotStep step = lua_toboolean(L, 4) ? got_unscored(got) : GOT_WAIT;
    return push_step(L, got, step != GOT_WAIT ? step : got_scored(got, min_nodes));
}

/* core:connected(min_nodes) */
static int m_connected(lua_State *L)
{
    Got *got = moving_after_call(L, GOT_CONNECTING);
    return push_step(L, got, got_connected(got, check_min_nodes(L, 2)));
}

/* core:aggregated(usable) */
static int m_aggregated(lua_State *L)
{
    Got *got = moving_after_call(L, GOT_AGGREGATING);
    return push_step(L, got, got_aggregated(got, lua_toboolean(L, 2)));
}

/* core:voted(node or nil) -> step, reason, and the winner after the last vote */
static int m_voted(lua_State *L)
{
    Got *got = moving(L, GOT_AGGREGATING);
    uint32_t node = lua_isnil(L, 2) ? GRAPH_NONE : got_check_node(L, got, 2);
    push_step(L, got, got_voted(got, node));
    machine_push_index(L, got->winner);
    return 3;
}

/* core:refined(usable) */
static int m_refined(lua_State *L)
{
    Got *got = moving_after_call(L, GOT_REFINING);
    return push_step(L, got, got_refined(got, lua_toboolean(L, 2)));
}

/* ---- state ---- */

/* core:state() -> root, current, result, generation_count, refinements */
static int m_state(lua_State *L)
{
    const Got *got = got_self(L);
    machine_push_index(L, got->graph.root);
    machine_push_index(L, got->current);
    machine_push_index(L, got->result);
    lua_pushinteger(L, got->generation_count);
    lua_pushinteger(L, got->refinements);
    return 5;
}

static uint32_t opt_node(lua_State *L, const Got *got, int arg)
{
    return lua_isnoneornil(L, arg) ? GRAPH_NONE : got_check_node(L, got, arg);
}

static void load_pending(lua_State *L, Got *got, int nodes, int votes)
{
    uint32_t count = (uint32_t)lua_rawlen(L, nodes);
    luaL_argcheck(L, lua_rawlen(L, nodes) <= got->graph.node_count, nodes, "too many");
    if (!got_set_pending(got, 0, count))
        luaL_error(L, "not enough memory");
    for (uint32_t i = 0; i < count; i++) {
        lua_rawgeti(L, nodes, (lua_Integer)i + 1);
        lua_rawgeti(L, votes, (lua_Integer)i + 1); /* [..., node, votes] */
        got->pending[i].node = got_check_node(L, got, lua_gettop(L) - 1);
        got->pending[i].votes = machine_check_count(L, lua_gettop(L));
        lua_pop(L, 2);
    }
}

/*
 * core:restore_state(root, current, result, generation_count, refinements, thoughts_in, pending,
 * votes), after restore and the graph -> the name of a field that cannot be right, or nil
 */
static int m_restore_state(lua_State *L)
{
    Got *got = got_self(L);
    luaL_checktype(L, 8, LUA_TTABLE);
    luaL_checktype(L, 9, LUA_TTABLE);
    got->graph.root = opt_node(L, got, 2);
    got->current = opt_node(L, got, 3);
    got->result = opt_node(L, got, 4);
    got->generation_count = machine_check_count(L, 5);
    got->refinements = machine_check_count(L, 6);
    got->thoughts_in = machine_check_count(L, 7);
    load_pending(L, got, 8, 9);
    lua_pushstring(L, got_incoherence(got));
    return 1;
}

/* core:pending() -> nodes, votes: two lists of the same length */
static int m_pending(lua_State *L)
{
    const Got *got = got_self(L);
    lua_createtable(L, (int)got->pending_count, 0);
    lua_createtable(L, (int)got->pending_count, 0); /* [nodes, votes] */
    for (uint32_t i = 0; i < got->pending_count; i++) {
        machine_push_index(L, got->pending[i].node);
        lua_rawseti(L, -3, (lua_Integer)i + 1);
        lua_pushinteger(L, got->pending[i].votes);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 2;
}

/* core:open_calls() -> ids, kind, subjects; open calls are all of one kind */
static int m_open_calls(lua_State *L)
{
    const Machine *m = machine_self(L);
    int kind = m->call_count > 0 ? (int)m->calls[0].kind : -1;
    machine_push_calls(L, m); /* [ids] */
    lua_pushstring(L, kind < 0 ? NULL : m->kind->calls[kind]);
    lua_createtable(L, (int)m->call_count, 0); /* [ids, kind, subjects] */
    for (uint32_t i = 0; i < m->call_count; i++) {
        lua_pushinteger(L, m->calls[i].subject);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 3;
}

/* core:rank(node) -> its score, or the neutral one */
static int m_rank(lua_State *L)
{
    const Got *got = got_self(L);
    lua_pushnumber(L, got_rank(got, got_check_node(L, got, 2)));
    return 1;
}

PONDER_MODULE(luaopen_ponder_core_got)
{
    static const luaL_Reg methods[] = {
        {"configure", m_configure},
        {"clone", m_clone},
        {"start", m_start},
        {"thought", m_thought},
        {"scored", m_scored},
        {"connected", m_connected},
        {"aggregated", m_aggregated},
        {"voted", m_voted},
        {"refined", m_refined},
        {"state", m_state},
        {"restore_state", m_restore_state},
        {"pending", m_pending},
        {"open_calls", m_open_calls},
        {"rank", m_rank},
        {NULL, NULL},
    };
    machine_new_class(L, &got_kind, methods, got_graph_methods, f_new, m_gc);
    return 1;
}

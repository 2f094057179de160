/*
 * l_got.c -- ponder.core.got: the Graph of Thoughts machine without its texts (src/core/got.h).
 *
 * lua/ponder/got.lua keeps the ids and texts of nodes and edges, by index from 1. A reply takes two
 * steps: close_call, then the method of its kind, which returns the next step: "wait", "asked" (the
 * open calls are new), "done" and the reason (then call `finish`), or "no_memory", which is not
 * raised so that the texts of new nodes can be stored first.
 */
#include <math.h>

#include "api/l_machine.h"
#include "api/options.h"
#include "core/got.h"

/* Argument `arg`, which must be the index of a node. */
static uint32_t check_node(lua_State *L, const Got *got, int arg)
{
    return machine_check_index(L, arg, got->graph.node_count);
}

static const char *const strategies[] = {"synthesis", "voting", "weighted", NULL};
static const char *const reasons[] = {NULL, "success", "max_nodes", "max_depth", "error"};

/* ---- options ---- */

static uint32_t field_count(lua_State *L, const char *name)
{
    return (uint32_t)options_integer(L, 1, name, INT32_MAX);
}

/* new(options), complete and checked -> core */
static int f_new(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    GotOptions o = {
        .max_nodes = field_count(L, "max_nodes"),
        .max_depth = field_count(L, "max_depth"),
        .branching_factor = field_count(L, "branching_factor"),
        .max_aggregated = field_count(L, "max_aggregated"),
        .votes = field_count(L, "votes"),
        .refine_rounds = field_count(L, "refine_rounds"),
        .strategy = (GotStrategy)options_name(L, 1, "aggregation_strategy", strategies),
        .score_thoughts = options_flag(L, 1, "score_thoughts"),
        .connect = options_flag(L, 1, "connect"),
        .chain = options_flag(L, 1, "chain"),
    };
    luaL_argcheck(L, o.branching_factor > 0 && o.max_aggregated > 0 && o.votes > 0, 1,
                  "counts must be positive");
    got_init(machine_new_userdata(L, sizeof(Got), &got_kind), &o);
    return 1;
}

static int m_clone(lua_State *L)
{
    const Got *from = machine_self(L);
    Got *to = machine_new_copy(L, sizeof *to);
    got_init(to, &from->options);
    if (!got_copy(to, from))
        luaL_error(L, "not enough memory");
    return 1;
}

static int m_gc(lua_State *L)
{
    Got *got = machine_self(L);
    if (machine_is_collected(L, &got->machine))
        got_free(got);
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
    Got *got = machine_self(L);
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
    Got *got = machine_self(L);
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
        double score = machine_score_at(L, 2, i, NAN);
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
    uint32_t node = lua_isnil(L, 2) ? GRAPH_NONE : check_node(L, got, 2);
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
    const Got *got = machine_self(L);
    machine_push_index(L, got->graph.root);
    machine_push_index(L, got->current);
    machine_push_index(L, got->result);
    lua_pushinteger(L, got->generation_count);
    lua_pushinteger(L, got->refinements);
    return 5;
}

static uint32_t opt_node(lua_State *L, const Got *got, int arg)
{
    return lua_isnoneornil(L, arg) ? GRAPH_NONE : check_node(L, got, arg);
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
        got->pending[i].node = check_node(L, got, lua_gettop(L) - 1);
        got->pending[i].votes = machine_check_count(L, lua_gettop(L));
        lua_pop(L, 2);
    }
}

/*
 * core:restore_state(root, current, result, generation_count, refinements, thoughts_in, pending,
 * votes), after restore and the graph -> the name of an inconsistent field, or nil
 */
static int m_restore_state(lua_State *L)
{
    Got *got = machine_self(L);
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
    const Got *got = machine_self(L);
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
    const Got *got = machine_self(L);
    lua_pushnumber(L, got_rank(got, check_node(L, got, 2)));
    return 1;
}

/* ---- the graph (src/core/graph.h) ---- */

static const char *const edge_types[] = {"generates", "refines", "aggregates", "connects", NULL};

static int m_node_count(lua_State *L)
{
    const Got *got = machine_self(L);
    lua_pushinteger(L, got->graph.node_count);
    return 1;
}

static int m_edge_count(lua_State *L)
{
    const Got *got = machine_self(L);
    lua_pushinteger(L, got->graph.edge_count);
    return 1;
}

/* core:add_node(score or nil, depth) -> index */
static int m_add_node(lua_State *L)
{
    Got *got = machine_self(L);
    double score = lua_isnil(L, 2) ? NAN : luaL_checknumber(L, 2);
    uint32_t index = graph_add_node(&got->graph, score, machine_check_count(L, 3));
    if (index == GRAPH_NONE)
        luaL_error(L, "not enough memory");
    machine_push_index(L, index);
    return 1;
}

/* core:add_edge(from, to, type) -> index */
static int m_add_edge(lua_State *L)
{
    Got *got = machine_self(L);
    uint32_t from = check_node(L, got, 2), to = check_node(L, got, 3);
    GraphEdgeType type = (GraphEdgeType)luaL_checkoption(L, 4, NULL, edge_types);
    if (!graph_add_edge(&got->graph, from, to, type))
        luaL_error(L, "not enough memory");
    machine_push_index(L, got->graph.edge_count - 1);
    return 1;
}

/* core:node(index) -> score or nil, depth */
static int m_node(lua_State *L)
{
    const Got *got = machine_self(L);
    const GraphNode *n = &got->graph.nodes[check_node(L, got, 2)];
    machine_push_score(L, n->score);
    lua_pushinteger(L, n->depth);
    return 2;
}

/* core:edge(index) -> from, to, type */
static int m_edge(lua_State *L)
{
    const Got *got = machine_self(L);
    const GraphEdge *e = &got->graph.edges[machine_check_index(L, 2, got->graph.edge_count)];
    machine_push_index(L, e->end[GRAPH_OUT]);
    machine_push_index(L, e->end[GRAPH_IN]);
    lua_pushstring(L, edge_types[e->type]);
    return 3;
}

static GraphDirection check_direction(lua_State *L, int arg)
{
    static const char *const names[] = {"out", "in", NULL};
    return luaL_checkoption(L, arg, NULL, names) == 0 ? GRAPH_OUT : GRAPH_IN;
}

/* core:edges(node, "out"|"in") -> the edges at a node, oldest first; with a third argument the
 * nodes at their other ends, newest edge first */
static int m_edges(lua_State *L)
{
    const Got *got = machine_self(L);
    const Graph *g = &got->graph;
    const GraphNode *n = &g->nodes[check_node(L, got, 2)];
    GraphDirection direction = check_direction(L, 3);
    bool ends = lua_toboolean(L, 4);
    lua_Integer count = n->degree[direction], i = 0;
    uint32_t at = n->newest[direction];
    lua_createtable(L, (int)count, 0);
    for (; i < count; i++, at = g->edges[at].older[direction]) {
        machine_push_index(L, ends ? g->edges[at].end[direction == GRAPH_OUT ? GRAPH_IN : GRAPH_OUT]
                                   : at);
        lua_rawseti(L, -2, ends ? i + 1 : count - i);
    }
    return 1;
}

/* core:reach(node, "out"|"in") -> descendants or ancestors, in order of creation */
static int m_reach(lua_State *L)
{
    Got *got = machine_self(L);
    uint32_t node = check_node(L, got, 2);
    GraphDirection direction = check_direction(L, 3);
    uint32_t *found = machine_push_room(L, got->graph.node_count);
    machine_push_indexes(L, found, graph_reach(&got->graph, node, direction, found));
    return 1;
}

/* core:trace_path(node[, limit]) -> nodes from the root, or the last `limit` of them */
static int m_trace_path(lua_State *L)
{
    Got *got = machine_self(L);
    uint32_t node = check_node(L, got, 2);
    lua_Integer length = graph_path_length(&got->graph, node);
    lua_Integer limit = luaL_optinteger(L, 3, length);
    if (length > limit)
        length = limit;
    lua_createtable(L, (int)length, 0);
    for (lua_Integer i = length; i >= 1; i--) {
        machine_push_index(L, node);
        lua_rawseti(L, -2, i);
        node = got->graph.nodes[node].parent;
    }
    return 1;
}

static int m_leaves(lua_State *L)
{
    Got *got = machine_self(L);
    Graph *g = &got->graph;
    lua_Integer n = 0;
    lua_newtable(L);
    for (uint32_t i = graph_next_leaf(g, 0); i != GRAPH_NONE; i = graph_next_leaf(g, i + 1)) {
        machine_push_index(L, i);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

static int m_has_cycle(lua_State *L)
{
    const Got *got = machine_self(L);
    uint32_t *work = machine_push_room(L, 2 * (size_t)got->graph.node_count);
    lua_pushboolean(L, graph_has_cycle(&got->graph, work));
    return 1;
}

PONDER_MODULE(luaopen_ponder_core_got)
{
    static const luaL_Reg methods[] = {
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
        {"node_count", m_node_count},
        {"edge_count", m_edge_count},
        {"add_node", m_add_node},
        {"add_edge", m_add_edge},
        {"node", m_node},
        {"edge", m_edge},
        {"edges", m_edges},
        {"reach", m_reach},
        {"trace_path", m_trace_path},
        {"leaves", m_leaves},
        {"has_cycle", m_has_cycle},
        {NULL, NULL},
    };
    machine_new_class(L, &got_kind, methods, f_new, m_gc);
    return 1;
}

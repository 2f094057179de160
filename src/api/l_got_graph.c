/* l_got_graph.c -- ponder.core.got: the graph behind the machine (src/core/graph.h). */
#include "api/l_got.h"

#include <math.h>

static const char *const edge_types[] = {"generates", "refines", "aggregates", "connects", NULL};

static int m_node_count(lua_State *L)
{
    lua_pushinteger(L, got_self(L)->graph.node_count);
    return 1;
}

static int m_edge_count(lua_State *L)
{
    lua_pushinteger(L, got_self(L)->graph.edge_count);
    return 1;
}

/* core:add_node(score or nil, depth) -> index */
static int m_add_node(lua_State *L)
{
    Got *got = got_self(L);
    double score = lua_isnil(L, 2) ? NAN : luaL_checknumber(L, 2);
    uint32_t index = graph_add_node(&got->graph, score, machine_check_count(L, 3));
    if (index == GRAPH_NONE)
        luaL_error(L, "not enough memory");
    machine_push_index(L, index);
    return 1;
}

/* core:add_edge(from, to, type) -> index, or nil for a link that is a loop or a duplicate */
static int m_add_edge(lua_State *L)
{
    Got *got = got_self(L);
    uint32_t from = got_check_node(L, got, 2), to = got_check_node(L, got, 3);
    GraphEdgeType type = (GraphEdgeType)luaL_checkoption(L, 4, NULL, edge_types);
    bool added = true;
    if (type == GRAPH_CONNECTS ? !got_link(got, from, to, &added)
                               : !graph_add_edge(&got->graph, from, to, type))
        luaL_error(L, "not enough memory");
    machine_push_index(L, added ? got->graph.edge_count - 1 : GRAPH_NONE);
    return 1;
}

/* core:node(index) -> score or nil, depth */
static int m_node(lua_State *L)
{
    const Got *got = got_self(L);
    const GraphNode *n = &got->graph.nodes[got_check_node(L, got, 2)];
    machine_push_score(L, n->score);
    lua_pushinteger(L, n->depth);
    return 2;
}

/* core:edge(index) -> from, to, type */
static int m_edge(lua_State *L)
{
    const Got *got = got_self(L);
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
    const Got *got = got_self(L);
    const Graph *g = &got->graph;
    const GraphNode *n = &g->nodes[got_check_node(L, got, 2)];
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
    Got *got = got_self(L);
    uint32_t node = got_check_node(L, got, 2);
    GraphDirection direction = check_direction(L, 3);
    uint32_t *found = machine_push_room(L, got->graph.node_count);
    machine_push_indexes(L, found, graph_reach(&got->graph, node, direction, found));
    return 1;
}

/* core:trace_path(node[, limit]) -> nodes from the root, or the last `limit` of them */
static int m_trace_path(lua_State *L)
{
    Got *got = got_self(L);
    uint32_t node = got_check_node(L, got, 2);
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
    Graph *g = &got_self(L)->graph;
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
    const Got *got = got_self(L);
    uint32_t *work = machine_push_room(L, 2 * (size_t)got->graph.node_count);
    lua_pushboolean(L, graph_has_cycle(&got->graph, work));
    return 1;
}

const luaL_Reg got_graph_methods[] = {
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

/*
 * l_got.h -- what l_got.c (the machine) and l_got_graph.c (its graph) share.
 *
 * Indexes of nodes and edges count from 1 in Lua, and from 0 in the core.
 */
#ifndef PONDER_API_L_GOT_H
#define PONDER_API_L_GOT_H

#include "api/l_machine.h"
#include "core/got.h"

static inline Got *got_self(lua_State *L)
{
    return (Got *)machine_self(L);
}

/* Argument `arg`, which must be the index of a node. */
uint32_t got_check_node(lua_State *L, const Got *got, int arg);

/* Pushes an index; nil for GRAPH_NONE. */
void got_push_index(lua_State *L, uint32_t index);

/* The methods that query the graph or add to it: see l_got_graph.c. */
int got_graph_node_count(lua_State *L);
int got_graph_edge_count(lua_State *L);
int got_graph_add_node(lua_State *L);
int got_graph_add_edge(lua_State *L);
int got_graph_node(lua_State *L);
int got_graph_edge(lua_State *L);
int got_graph_outgoing(lua_State *L);
int got_graph_incoming(lua_State *L);
int got_graph_children(lua_State *L);
int got_graph_parents(lua_State *L);
int got_graph_ancestors(lua_State *L);
int got_graph_descendants(lua_State *L);
int got_graph_trace_path(lua_State *L);
int got_graph_path_length(lua_State *L);
int got_graph_leaves(lua_State *L);
int got_graph_best_leaf(lua_State *L);
int got_graph_has_cycle(lua_State *L);

#endif

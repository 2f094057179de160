/*
 * l_got.h -- what l_got.c (the machine) and l_got_graph.c (its graph) share.
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
static inline uint32_t got_check_node(lua_State *L, const Got *got, int arg)
{
    return machine_check_index(L, arg, got->graph.node_count);
}

/* The methods that query the graph or add to it. */
extern const luaL_Reg got_graph_methods[];

#endif

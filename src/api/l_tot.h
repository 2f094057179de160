/* l_tot.h -- what the files of ponder.core.tot share. */
#ifndef PONDER_API_L_TOT_H
#define PONDER_API_L_TOT_H

#include "api/l_machine.h"
#include "core/tot.h"

static inline Tot *tot_self(lua_State *L)
{
    return (Tot *)machine_self(L);
}

/* The node whose number, counted from 1, is argument `arg`. */
static inline uint32_t tot_check_node(lua_State *L, const Tot *t, int arg)
{
    return machine_check_index(L, arg, t->node_count);
}

/* The slot whose number, counted from 1, is argument `arg`. */
static inline const TotSlot *tot_check_slot(lua_State *L, const Tot *t, int arg)
{
    return &t->slots[machine_check_index(L, arg, t->slot_count)];
}

/* The list of node numbers at `arg`, copied to a userdata that is pushed; other values become
 * TOT_NONE. */
uint32_t *tot_check_nodes(lua_State *L, int arg, uint32_t *count);

/* Item i (from 0) of the list of scores at `list`, clamped; 0.5 if missing. */
double tot_check_score(lua_State *L, int list, uint32_t i);

/* Methods: see l_tot_load.c. */
int l_tot_recent(lua_State *L);
int l_tot_expansions(lua_State *L);
int l_tot_retries(lua_State *L);
int l_tot_slot(lua_State *L);
int l_tot_load_node(lua_State *L);
int l_tot_load_slot(lua_State *L);
int l_tot_load_frontier(lua_State *L);
int l_tot_load_recent(lua_State *L);
int l_tot_load_expansion(lua_State *L);
int l_tot_load_end(lua_State *L);

#endif

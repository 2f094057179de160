/*
 * l_tot_load.c -- ponder.core.tot: a saved machine, read part by part. Each function returns
 * whether the part fits to what is there; see src/core/tot_load.c.
 */
#include "api/l_tot.h"

#include <math.h>

static int loaded(lua_State *L, TotOutcome outcome)
{
    if (outcome == TOT_NO_MEMORY)
        return luaL_error(L, "not enough memory");
    lua_pushboolean(L, outcome == TOT_DONE);
    return 1;
}

static Tot *check_loading(lua_State *L)
{
    Tot *t = tot_self(L);
    luaL_argcheck(L, !t->loaded, 1, "not being loaded");
    return t;
}

/* load_node(parent, score): 0 and nil for the root */
int l_tot_load_node(lua_State *L)
{
    Tot *t = check_loading(L);
    lua_Integer parent = luaL_checkinteger(L, 2);
    double score = luaL_optnumber(L, 3, NAN);
    if (parent < 0 || parent > t->node_count)
        return loaded(L, TOT_REFUSED);
    return loaded(L, tot_load_node(t, parent == 0 ? TOT_NONE : (uint32_t)(parent - 1), score));
}

/* load_slot(node, phase, number of thoughts, retries, list of scores or nil) */
int l_tot_load_slot(lua_State *L)
{
    Tot *t = check_loading(L);
    TotSlot slot = {.node = tot_check_node(L, t, 2)};
    slot.phase = (TotPhase)luaL_checkoption(L, 3, NULL, tot_phases);
    lua_Integer count = luaL_checkinteger(L, 4), retries = luaL_checkinteger(L, 5);
    luaL_argcheck(L, count >= 0 && count < TOT_NONE, 4, "out of range");
    luaL_argcheck(L, retries >= 0 && retries < TOT_NONE, 5, "out of range");
    slot.thought_count = (uint32_t)count;
    slot.retries = (uint32_t)retries;
    double *scores = NULL;
    if (slot.phase == TOT_SLOT_DONE) {
        luaL_checktype(L, 6, LUA_TTABLE);
        if ((lua_Integer)lua_rawlen(L, 6) != count)
            return loaded(L, TOT_REFUSED);
        scores = lua_newuserdatauv(L, (size_t)count * sizeof *scores + 1, 0);
        for (uint32_t i = 0; i < slot.thought_count; i++)
            scores[i] = tot_check_score(L, 6, i);
    }
    return loaded(L, tot_load_slot(t, &slot, scores));
}

int l_tot_load_frontier(lua_State *L)
{
    Tot *t = check_loading(L);
    uint32_t count, *ids = tot_check_nodes(L, 2, &count);
    return loaded(L, t->waiting_count > 0 ? TOT_REFUSED : tot_load_frontier(t, ids, count));
}

int l_tot_load_recent(lua_State *L)
{
    return loaded(L, tot_load_recent(check_loading(L), luaL_checknumber(L, 2)));
}

/* load_end(answer or nil, generation retries, evaluation retries) */
int l_tot_load_end(lua_State *L)
{
    Tot *t = check_loading(L);
    uint32_t answer = lua_isnil(L, 2) ? TOT_NONE : tot_check_node(L, t, 2);
    lua_Integer generation = luaL_checkinteger(L, 3), evaluation = luaL_checkinteger(L, 4);
    luaL_argcheck(L, generation >= 0 && evaluation >= 0, 3, "out of range");
    t->generation_retries = (uint64_t)generation;
    t->evaluation_retries = (uint64_t)evaluation;
    return loaded(L, tot_load_end(t, answer));
}

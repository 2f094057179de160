/*
 * l_tot_load.c -- ponder.core.tot: reading the parts that only a saved machine needs, and loading
 * them. A load_ method returns whether the part is consistent with the rest; see core/tot_load.c.
 */
#include "api/l_search.h"
#include "api/l_tot.h"

#include <math.h>

static const char *const tot_phases[] = {"generating", "evaluating", "done", NULL};

/* recent() -> list of the measures in the convergence window */
int l_tot_recent(lua_State *L)
{
    const Tot *t = tot_self(L);
    lua_createtable(L, (int)(t->recent_end - t->recent_start), 0);
    for (uint32_t i = t->recent_start; i < t->recent_end; i++) {
        lua_pushnumber(L, t->recent[i]);
        lua_rawseti(L, -2, (lua_Integer)(i - t->recent_start) + 1);
    }
    return 1;
}

/* expansions() -> the number of children of each slot of earlier rounds; nothing if there is a
 * frontier */
int l_tot_expansions(lua_State *L)
{
    const Tot *t = tot_self(L);
    if (tot_has_frontier(t))
        return 0;
    core_push_ids(L, t->expansions.items, t->expansions.count);
    return 1;
}

/* retries() -> repairs asked for generations, for evaluations */
int l_tot_retries(lua_State *L)
{
    const Tot *t = tot_self(L);
    lua_pushinteger(L, (lua_Integer)t->generation_retries);
    lua_pushinteger(L, (lua_Integer)t->evaluation_retries);
    return 2;
}

/* slot(i) -> node, phase, number of thoughts, retries, list of scores or nil */
int l_tot_slot(lua_State *L)
{
    const Tot *t = tot_self(L);
    const TotSlot *slot = tot_check_slot(L, t, 2);
    lua_pushinteger(L, (lua_Integer)slot->node + 1);
    lua_pushstring(L, tot_phases[slot->phase]);
    lua_pushinteger(L, slot->thought_count);
    lua_pushinteger(L, slot->retries);
    if (slot->phase != TOT_SLOT_DONE)
        return 4;
    lua_createtable(L, (int)slot->thought_count, 0);
    for (uint32_t i = 0; i < slot->thought_count; i++) {
        lua_pushnumber(L, slot->scores[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 5;
}

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
    slot.thought_count = machine_check_count(L, 4);
    slot.retries = machine_check_count(L, 5);
    double *scores = NULL;
    if (slot.phase == TOT_SLOT_DONE) {
        luaL_checktype(L, 6, LUA_TTABLE);
        if (lua_rawlen(L, 6) != slot.thought_count)
            return loaded(L, TOT_REFUSED);
        scores = lua_newuserdatauv(L, slot.thought_count * sizeof *scores + 1, 0);
        for (uint32_t i = 0; i < slot.thought_count; i++)
            scores[i] = tot_check_score(L, 6, i);
    }
    return loaded(L, tot_load_slot(t, &slot, scores));
}

int l_tot_load_frontier(lua_State *L)
{
    Tot *t = check_loading(L);
    uint32_t count, *ids = tot_check_nodes(L, 2, &count);
    return loaded(L, tot_load_frontier(t, ids, count));
}

int l_tot_load_recent(lua_State *L)
{
    return loaded(L, tot_load_recent(check_loading(L), luaL_checknumber(L, 2)));
}

int l_tot_load_expansion(lua_State *L)
{
    return loaded(L, tot_load_expansion(check_loading(L), machine_check_count(L, 2)));
}

/* load_end(answer or nil, generation retries, evaluation retries) */
int l_tot_load_end(lua_State *L)
{
    Tot *t = check_loading(L);
    uint32_t answer = lua_isnil(L, 2) ? TOT_NONE : tot_check_node(L, t, 2);
    t->generation_retries = machine_check_count(L, 3);
    t->evaluation_retries = machine_check_count(L, 4);
    return loaded(L, tot_load_end(t, answer));
}

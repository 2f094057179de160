/*
 * l_trm.c -- ponder.core.trm: the state of a TRM machine (src/core/trm.h), for lua/ponder/trm.lua.
 */
#include "api/l_machine.h"
#include "core/trm.h"

static const char *const halt_checks[] = {"after_supervision", "after_improvement", NULL};

static Trm *self(lua_State *L)
{
    return (Trm *)machine_self(L);
}

static void check_outcome(lua_State *L, TrmOutcome outcome, const char *what)
{
    if (outcome == TRM_NO_MEMORY)
        luaL_error(L, "not enough memory");
    if (outcome == TRM_REFUSED)
        luaL_error(L, "trm: %s does not fit the state", what);
}

static uint32_t check_count(lua_State *L, int arg)
{
    lua_Integer n = luaL_checkinteger(L, arg);
    luaL_argcheck(L, n >= 0 && n < UINT32_MAX, arg, "out of range");
    return (uint32_t)n;
}

/* new{max_supervision_steps=, act_threshold=, halt_check=}, which lua/ponder/trm.lua has checked */
static int trm_new(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_getfield(L, 1, "max_supervision_steps");
    lua_getfield(L, 1, "act_threshold");
    lua_getfield(L, 1, "halt_check");
    TrmOptions options = {
        .max_steps = check_count(L, 2),
        .act_threshold = luaL_checknumber(L, 3),
        .halt_check = (uint8_t)luaL_checkoption(L, 4, halt_checks[0], halt_checks),
    };
    Trm *t = (Trm *)machine_new_userdata(L, sizeof *t, &trm_kind);
    trm_init(t, &options);
    return 1;
}

static int m_gc(lua_State *L)
{
    trm_free(self(L));
    return 0;
}

static int m_clone(lua_State *L)
{
    const Trm *from = self(L);
    Trm *t = (Trm *)machine_new_copy(L, sizeof *t);
    check_outcome(L, trm_copy(t, from), "clone");
    return 1;
}

/* start(call_id, now) */
static int m_start(lua_State *L)
{
    Trm *t = self(L);
    machine_start_with(L, &t->machine, 2, TRM_REASONING, TRM_CALL_REASON, 0,
                       luaL_checknumber(L, 3));
    t->step = 1;
    return 0;
}

/* reasoned(call_id) -> call_id of the supervision */
static int m_reasoned(lua_State *L)
{
    Trm *t = self(L);
    uint64_t next = 0;
    check_outcome(L, trm_reasoned(t, machine_check_id(L, 2), &next), "reasoning");
    machine_push_id(L, &t->machine, next);
    return 1;
}

/* -> call_id of the next call, or nil and why the run ends */
static int push_next(lua_State *L, const Trm *t, TrmReason reason, uint64_t next)
{
    static const char *const names[] = {NULL, "act_threshold", "convergence_detected", "max_steps"};
    if (reason == TRM_GOES_ON) {
        machine_push_id(L, &t->machine, next);
        return 1;
    }
    lua_pushnil(L);
    lua_pushstring(L, names[reason]);
    return 2;
}

/* graded(call_id, score) -> whether it is the best so far, then as push_next */
static int m_graded(lua_State *L)
{
    Trm *t = self(L);
    bool better = false;
    TrmReason reason = TRM_GOES_ON;
    uint64_t next = 0;
    double score = luaL_checknumber(L, 3);
    check_outcome(L, trm_graded(t, machine_check_id(L, 2), score, &better, &reason, &next),
                  "grade");
    lua_pushboolean(L, better);
    return 1 + push_next(L, t, reason, next);
}

/* ungraded(call_id) -> call_id of another supervision */
static int m_ungraded(lua_State *L)
{
    Trm *t = self(L);
    uint64_t next = 0;
    check_outcome(L, trm_ungraded(t, machine_check_id(L, 2), &next), "grade");
    machine_push_id(L, &t->machine, next);
    return 1;
}

/* improved(call_id) -> as push_next */
static int m_improved(lua_State *L)
{
    Trm *t = self(L);
    TrmReason reason = TRM_GOES_ON;
    uint64_t next = 0;
    check_outcome(L, trm_improved(t, machine_check_id(L, 2), &reason, &next), "improvement");
    return push_next(L, t, reason, next);
}

static int m_step(lua_State *L)
{
    lua_pushinteger(L, self(L)->step);
    return 1;
}

static int m_improvements(lua_State *L)
{
    lua_pushinteger(L, self(L)->improvements);
    return 1;
}

static int m_confidence(lua_State *L)
{
    lua_pushnumber(L, trm_confidence(self(L)));
    return 1;
}

static int m_best_score(lua_State *L)
{
    lua_pushnumber(L, self(L)->best_score);
    return 1;
}

static int m_scores(lua_State *L)
{
    const Trm *t = self(L);
    lua_createtable(L, (int)t->score_count, 0);
    for (uint32_t i = 0; i < t->score_count; i++) {
        lua_pushnumber(L, t->scores[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* load(step, improvements, scores) -> whether they fit the status; after restore */
static int m_load(lua_State *L)
{
    Trm *t = self(L);
    uint32_t step = check_count(L, 2), improvements = check_count(L, 3);
    luaL_checktype(L, 4, LUA_TTABLE);
    lua_Unsigned count = lua_rawlen(L, 4);
    luaL_argcheck(L, count < UINT32_MAX / sizeof(double), 4, "too long");
    double *scores = lua_newuserdatauv(L, (size_t)count * sizeof *scores + 1, 0);
    for (lua_Unsigned i = 0; i < count; i++) {
        lua_rawgeti(L, 4, (lua_Integer)i + 1);
        scores[i] = luaL_checknumber(L, -1);
        luaL_argcheck(L, scores[i] >= 0.0 && scores[i] <= 1.0, 4, "scores are within 0..1");
        lua_pop(L, 1);
    }
    TrmOutcome outcome = trm_load(t, step, improvements, scores, (uint32_t)count);
    if (outcome == TRM_NO_MEMORY)
        return luaL_error(L, "not enough memory");
    lua_pushboolean(L, outcome == TRM_DONE);
    return 1;
}

PONDER_MODULE int luaopen_ponder_core_trm(lua_State *L);
int luaopen_ponder_core_trm(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"clone", m_clone},
        {"start", m_start},
        {"reasoned", m_reasoned},
        {"graded", m_graded},
        {"ungraded", m_ungraded},
        {"improved", m_improved},
        {"step", m_step},
        {"improvements", m_improvements},
        {"confidence", m_confidence},
        {"best_score", m_best_score},
        {"scores", m_scores},
        {"load", m_load},
        {NULL, NULL},
    };
    static const luaL_Reg functions[] = {{"new", trm_new}, {NULL, NULL}};
    machine_new_class(L, &trm_kind, methods, functions, m_gc);
    return 1;
}

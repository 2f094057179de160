/*
 * l_act.c -- ponder.core.act: the halting arithmetic of src/core/act.h, offered as `trm.act`.
 *
 * A history is a list of scores, oldest first. It is copied into a userdata that the collector
 * owns, so that a mistake in its middle may raise.
 */
#include "api/api.h"
#include "core/act.h"

#include <math.h>

typedef struct Scores {
    const double *at;
    size_t n;
} Scores;

static int bad_argument(lua_State *L, const char *what, const char *wanted, int got)
{
    int type = lua_type(L, got);
    bool plain = type == LUA_TNUMBER || type == LUA_TNIL || type == LUA_TBOOLEAN;
    const char *shown =
        plain ? luaL_tolstring(L, got, NULL) : lua_pushfstring(L, "a %s", lua_typename(L, type));
    return luaL_error(L, "trm.act.%s must be %s (got %s)", what, wanted, shown);
}

static double check_number(lua_State *L, int arg, const char *what)
{
    double x = lua_type(L, arg) == LUA_TNUMBER ? lua_tonumber(L, arg) : NAN;
    if (isnan(x))
        bad_argument(L, what, "a number", arg);
    return x;
}

/* Pushes the block that holds the copy. */
static Scores check_scores(lua_State *L, int arg, const char *what)
{
    if (!lua_istable(L, arg))
        bad_argument(L, what, "a list of numbers", arg);
    size_t n = lua_rawlen(L, arg);
    double *at = lua_newuserdatauv(L, (n > 0 ? n : 1) * sizeof *at, 0);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, arg, (lua_Integer)i + 1); /* block, score */
        at[i] = check_number(L, -1, what);
        lua_pop(L, 1);
    }
    return (Scores){at, n};
}

/* make_decision{threshold=, current_confidence=, history=} */
static int l_make_decision(lua_State *L)
{
    lua_settop(L, 1);
    if (!lua_istable(L, 1))
        return bad_argument(L, "make_decision: state", "a table", 1);
    lua_getfield(L, 1, "threshold");
    lua_getfield(L, 1, "current_confidence");
    lua_getfield(L, 1, "history");
    double threshold = check_number(L, 2, "make_decision: threshold");
    double confidence = check_number(L, 3, "make_decision: current_confidence");
    Scores s = check_scores(L, 4, "make_decision: history");
    ActDecision d = act_decide(threshold, confidence, s.at, s.n);
    lua_pushstring(L, d == ACT_CONTINUE ? "continue" : "halt");
    if (d == ACT_CONTINUE)
        lua_pushnumber(L, act_expected_improvement(s.at, s.n));
    else
        lua_pushstring(L,
                       d == ACT_THRESHOLD_EXCEEDED ? "threshold_exceeded" : "convergence_detected");
    return 2;
}

static int l_detect_convergence(lua_State *L)
{
    lua_settop(L, 3);
    int is_integer = 1;
    lua_Integer window = lua_isnil(L, 2) ? ACT_WINDOW : lua_tointegerx(L, 2, &is_integer);
    if (!is_integer || lua_type(L, 2) == LUA_TSTRING || window < 1)
        bad_argument(L, "detect_convergence: window", "an integer >= 1", 2);
    double epsilon =
        lua_isnil(L, 3) ? ACT_EPSILON : check_number(L, 3, "detect_convergence: epsilon");
    Scores s = check_scores(L, 1, "detect_convergence: history");
    lua_pushboolean(L, act_converged(s.at, s.n, (size_t)window, epsilon));
    return 1;
}

static int l_calculate_expected_improvement(lua_State *L)
{
    Scores s = check_scores(L, 1, "calculate_expected_improvement: history");
    lua_pushnumber(L, act_expected_improvement(s.at, s.n));
    return 1;
}

static int l_improvement_rate(lua_State *L)
{
    Scores s = check_scores(L, 1, "improvement_rate: history");
    lua_pushnumber(L, act_improvement_rate(s.at, s.n));
    return 1;
}

static int l_total_improvement(lua_State *L)
{
    Scores s = check_scores(L, 1, "total_improvement: history");
    lua_pushnumber(L, act_total_improvement(s.at, s.n));
    return 1;
}

/* A whole number where it fits one, else a float: math.huge stands for "never". */
static int l_estimated_steps_remaining(lua_State *L)
{
    lua_settop(L, 3);
    double current = check_number(L, 1, "estimated_steps_remaining: current");
    double target = check_number(L, 2, "estimated_steps_remaining: target");
    Scores s = check_scores(L, 3, "estimated_steps_remaining: history");
    double steps = act_steps_remaining(current, target, s.at, s.n);
    lua_Integer whole;
    if (lua_numbertointeger(steps, &whole))
        lua_pushinteger(L, whole);
    else
        lua_pushnumber(L, steps);
    return 1;
}

/* The first argument is a latent state, or the confidence in it. */
static int l_calculate_confidence(lua_State *L)
{
    lua_settop(L, 2);
    if (lua_istable(L, 1)) {
        lua_getfield(L, 1, "confidence_score");
        lua_replace(L, 1);
    }
    double latent =
        lua_isnil(L, 1) ? 0.0 : check_number(L, 1, "calculate_confidence: confidence_score");
    double quality = check_number(L, 2, "calculate_confidence: quality");
    lua_pushnumber(L, act_confidence(latent, quality));
    return 1;
}

static const luaL_Reg functions[] = {
    {"make_decision", l_make_decision},
    {"detect_convergence", l_detect_convergence},
    {"calculate_expected_improvement", l_calculate_expected_improvement},
    {"improvement_rate", l_improvement_rate},
    {"total_improvement", l_total_improvement},
    {"estimated_steps_remaining", l_estimated_steps_remaining},
    {"calculate_confidence", l_calculate_confidence},
    {NULL, NULL},
};

PONDER_MODULE int luaopen_ponder_core_act(lua_State *L);
int luaopen_ponder_core_act(lua_State *L)
{
    luaL_newlib(L, functions);
    return 1;
}

/*
 * l_task.c -- ponder.core.task: what the scheduler of ponder.task needs from C: resuming, parking
 * and closing a task's coroutine (task_coroutine.h), and stopping a run (task_stop.h). Lua decides
 * which task runs when.
 */

#include "api/api.h"
#include "api/task_coroutine.h"
#include "api/task_stop.h"

static const char late_key; /* its address is the error of a task whose time is up */

static bool lost_function; /* task_error could not name a task's function */

/* Pushes "in the function at file:line" of a function of the script that is a local variable of the
 * innermost of ponder's functions from `level` on, which may have called it; pushes nothing and
 * returns 0 if a function of the script comes first, or there is none. *all says whether there is
 * nothing on the stack. */
static int push_function_place(lua_State *L, int level, bool *all)
{
    lua_Debug frame, function;
    for (*all = true; lua_getstack(L, level, &frame); level++) {
        *all = false;
        lua_getinfo(L, "S", &frame);
        if (*frame.what == 'C')
            continue;
        if (!stop_is_own(frame.source))
            return 0;
        for (int i = 1; lua_getlocal(L, &frame, i) != NULL; i++) {
            bool is_given = false;
            if (lua_isfunction(L, -1) && !lua_iscfunction(L, -1)) {
                lua_pushvalue(L, -1);
                lua_getinfo(L, ">S", &function);
                is_given = !stop_is_own(function.source);
            }
            lua_pop(L, 1);
            if (is_given) {
                lua_pushfstring(L, "in the function at %s:%d", function.short_src,
                                function.linedefined);
                return 1;
            }
        }
    }
    return 0;
}

/* is_own(source): whether a chunk name is of one of ponder's own files; of a protected one */
static int task_is_own(lua_State *L)
{
    const char *source = luaL_checkstring(L, 1);
    lua_pushboolean(L, stop_is_own(source));
    lua_pushboolean(L, stop_is_protected(source));
    return 2;
}

/* error(message, [level]): Lua's, but names the closest place that is known of a lost caller: one
 * that called by `return`, so that Lua keeps nothing of it. */
static int task_error(lua_State *L)
{
    int level = (int)luaL_optinteger(L, 2, 1);
    lua_settop(L, 1);
    if (lua_type(L, 1) == LUA_TSTRING && level > 0) {
        bool all = false;
        lua_Debug frame; /* of ponder's own function that blames its caller, which may be lost */
        bool is_lost = level > 1 && lua_getstack(L, level - 1, &frame) &&
                       lua_getinfo(L, "St", &frame) && frame.istailcall &&
                       stop_is_own(frame.source);
        if (!is_lost || !push_function_place(L, level, &all))
            luaL_where(L, level);
        else
            lua_pushliteral(L, ": ");
        const Frame *f = frame_running();
        lost_function = all && f != NULL && f->L == L && f->kind == FRAME_TASK;
        lua_pushvalue(L, 1);
        lua_concat(L, lua_gettop(L) - 1);
    }
    return lua_error(L);
}

/* create(limit, f, ...) -> a coroutine that will call f(...); see limit_set */
static int task_create(lua_State *L)
{
    int n = lua_gettop(L) - 1;
    double limit = luaL_checknumber(L, 1);
    lua_State *co;
    luaL_checkany(L, 2);
    co = lua_newthread(L);
    if (!lua_checkstack(co, n + 1))
        return luaL_error(L, "too many arguments");
    limit_set(co, limit);
    lua_replace(L, 1);
    lua_xmove(L, co, n);
    return 1;
}

/* resume(co, ...) -> true, results... | false, error, traceback, whether the error lacks the place
 * of the task's function, which called the function that it blames by `return` | nothing: it waits
 * | false, LATE, error|nothing: its time is up, and it can only be closed, which returns that error
 */
static int task_resume(lua_State *L)
{
    lua_State *co = coroutine_check(L);
    CoStatus was = coroutine_status(L, co);
    int n;
    if (was != CO_SUSPENDED && was != CO_WAITING)
        return luaL_error(L, "this coroutine is not a waiting task");
    if (was == CO_WAITING)
        lua_pop(co, 1);
    lost_function = false;
    n = coroutine_step(L, co, lua_gettop(L) - 1, FRAME_TASK, 1);
    if (n == STEP_WAITS)
        return 0;
    if (n == STEP_LATE) {
        lua_pushboolean(L, 0);
        lua_pushlightuserdata(L, (void *)&late_key);
        if (lua_status(co) == LUA_OK || lua_status(co) == LUA_YIELD)
            return 2;
        lua_pushvalue(co, -1);
        lua_xmove(co, L, 1);
        return 3;
    }
    if (n != STEP_FAILED && lua_status(co) == LUA_YIELD) {
        lua_settop(L, 1);
        lua_pushliteral(L, "attempt to yield from outside a coroutine");
        n = STEP_FAILED;
    }
    lua_pushboolean(L, n != STEP_FAILED);
    lua_replace(L, 1);
    if (n == STEP_FAILED) {
        luaL_traceback(L, co, NULL, 0);
        lua_pushboolean(L, lost_function);
    }
    return lua_gettop(L);
}

/* close(co) -> true | false, error; co must wait, have raised, or not have begun */
static int task_close(lua_State *L)
{
    lua_State *co = coroutine_check(L);
    CoStatus was = coroutine_status(L, co);
    if (was == CO_RUNNING || was == CO_NORMAL)
        return luaL_error(L, "cannot close a running coroutine");
    lua_pushboolean(L, 0);
    if (!coroutine_close(L, co))
        return 2;
    lua_pushboolean(L, 1);
    return 1;
}

/* cannot_wait() -> why park would fail, or nil */
static int task_cannot_wait(lua_State *L)
{
    lua_pushstring(L, coroutine_cannot_wait(L));
    return 1;
}

static int park_continue(lua_State *L, int status, lua_KContext ctx)
{
    (void)status, (void)ctx;
    return lua_gettop(L);
}

/* park() -> the values with which the scheduler resumes the task */
static int task_park(lua_State *L)
{
    return coroutine_wait(L, park_continue);
}

/* inner(co) -> the coroutine within `co` that it waits for, or nil */
static int task_inner(lua_State *L)
{
    lua_State *inner = coroutine_inner(coroutine_check(L));
    if (inner == NULL)
        return 0;
    lua_pushthread(inner);
    lua_xmove(inner, L, 1);
    return 1;
}

/* loop(f) -> true | false, error: calls the scheduler's loop f, in which no stop is raised */
static int task_loop(lua_State *L)
{
    Frame f;
    int status;
    lua_settop(L, 1);
    frame_enter(&f, L, FRAME_LOOP, 0);
    status = lua_pcall(L, 0, 0, 0);
    frame_leave(&f);
    lua_pushboolean(L, status == LUA_OK);
    lua_insert(L, 1);
    return lua_gettop(L);
}

/* begin(): a run begins */
static int task_begin(lua_State *L)
{
    (void)L;
    stop_begin_run();
    return 0;
}

static const char *const reasons[] = {"interrupt", "terminate", "hangup", "timeout",
                                      "steps",     "detach",    NULL};

/* stop(["interrupt"|...]): requests a stop as the signal handlers do */
static int task_lua_stop(lua_State *L)
{
    task_stop((StopReason)(STOP_INTERRUPT + luaL_checkoption(L, 1, "interrupt", reasons)));
    return 0;
}

/* stop_reason() -> "interrupt", "terminate", "hangup", "timeout", "steps", "detach" or nil */
static int task_lua_stop_reason(lua_State *L)
{
    StopReason why = task_stop_reason();
    if (why == STOP_NONE)
        return 0;
    lua_pushstring(L, reasons[why - STOP_INTERRUPT]);
    return 1;
}

/* take_stop() -> nil | "pending" (not raised yet), "raised" (in running code) or "again" (that code
 * continues nevertheless), and the error message */
static int task_take_stop(lua_State *L)
{
    static const char *const names[] = {NULL, "pending", "raised", "again"};
    StopNews news = stop_take();
    if (news == STOP_NO_NEWS)
        return 0;
    lua_pushstring(L, names[news]);
    lua_pushstring(L, task_stop_message());
    return 2;
}

/* stop_obeyed(): the run is ending; no further stop is raised */
static int task_stop_obeyed(lua_State *L)
{
    (void)L;
    stop_obeyed();
    return 0;
}

/* raise_stop(): raises the error of a stop that is pending, also in protected code */
static int task_raise_stop(lua_State *L)
{
    stop_raise_pending(L);
    return 0;
}

/* limit_steps([n]): see task_stop.h; nil: no more */
static int task_limit_steps(lua_State *L)
{
    lua_Integer steps = luaL_optinteger(L, 1, -1);
    luaL_argcheck(L, steps >= 0 || lua_isnoneornil(L, 1), 1, "out of range");
    stop_limit_steps(steps);
    return 0;
}

/* protect(source): see task_stop.h */
static int task_protect(lua_State *L)
{
    luaL_argcheck(L, stop_protect(luaL_checkstring(L, 1)), 1, "path too long, or too many");
    return 0;
}

static const luaL_Reg functions[] = {{"create", task_create},
                                     {"resume", task_resume},
                                     {"close", task_close},
                                     {"cannot_wait", task_cannot_wait},
                                     {"park", task_park},
                                     {"inner", task_inner},
                                     {"loop", task_loop},
                                     {"begin", task_begin},
                                     {"stop", task_lua_stop},
                                     {"stop_reason", task_lua_stop_reason},
                                     {"take_stop", task_take_stop},
                                     {"stop_obeyed", task_stop_obeyed},
                                     {"raise_stop", task_raise_stop},
                                     {"limit_steps", task_limit_steps},
                                     {"protect", task_protect},
                                     {"is_own", task_is_own},
                                     {NULL, NULL}};

PONDER_MODULE(luaopen_ponder_core_task)
{
    stop_open();
    lua_pushcfunction(L, task_error);
    lua_setglobal(L, "error");
    coroutine_guard_calls(L);
    luaL_newlib(L, functions);
    coroutine_push_library(L);
    lua_setfield(L, -2, "coroutine");
    lua_pushlightuserdata(L, (void *)&late_key);
    lua_setfield(L, -2, "LATE");
    return 1;
}

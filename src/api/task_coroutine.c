/* task_coroutine.c -- see task_coroutine.h. */
#include "api/task_coroutine.h"

#include <lauxlib.h>

#include "api/task_stop.h"

static const char mark; /* its address is what a waiting coroutine yields */

const char *coroutine_cannot_wait(lua_State *L)
{
    const Frame *f = frame_running();
    if (f == NULL || f->L != L)
        return "cannot wait in a coroutine that was resumed by the coroutine.resume or "
               "coroutine.wrap of before ponder.task was loaded";
    if (f->kind == FRAME_CLOSING)
        return "cannot wait while a coroutine is being closed";
    if (!f->can_wait || !lua_isyieldable(L))
        return "cannot wait inside a function that was called back from C (table.sort, "
               "string.gsub, require, a finalizer, ...)";
    return NULL;
}

static int has_mark(lua_State *co)
{
    return lua_status(co) == LUA_YIELD && lua_gettop(co) > 0 && lua_touserdata(co, -1) == &mark;
}

CoStatus coroutine_status(lua_State *L, lua_State *co)
{
    lua_Debug ar;
    if (L == co)
        return CO_RUNNING;
    switch (lua_status(co)) {
    case LUA_YIELD: return has_mark(co) ? CO_WAITING : CO_SUSPENDED;
    case LUA_OK:
        if (lua_getstack(co, 0, &ar))
            return CO_NORMAL;
        return lua_gettop(co) > 0 ? CO_SUSPENDED : CO_DEAD;
    default: return CO_DEAD;
    }
}

lua_State *coroutine_inner(lua_State *co)
{
    lua_State *inner = has_mark(co) ? lua_tothread(co, 1) : NULL;
    return inner != NULL && inner != co && has_mark(inner) ? inner : NULL;
}

lua_State *coroutine_check(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    luaL_argexpected(L, co != NULL, 1, "thread");
    return co;
}

int coroutine_close(lua_State *L, lua_State *co)
{
    lua_State *inner = coroutine_inner(co);
    int ok = 1;
    int status;
    Frame f;
    luaL_checkstack(L, 3, "too many nested coroutines");
    if (inner != NULL)
        ok = coroutine_close(L, inner);
    frame_enter(&f, co, FRAME_CLOSING, 0);
    status = lua_resetthread(co);
    frame_leave(&f);
    if (status != LUA_OK) {
        if (!ok)
            lua_pop(L, 1);
        lua_xmove(co, L, 1);
        ok = 0;
    }
    return ok;
}

int coroutine_step(lua_State *L, lua_State *co, int nargs, FrameKind kind, int can_wait)
{
    Frame f;
    int status;
    int nresults;
    if (frame_stack_is_short() || !lua_checkstack(co, nargs + 1)) {
        lua_pop(L, nargs);
        lua_pushstring(L, frame_stack_is_short() ? "C stack overflow"
                                                 : "too many arguments to resume");
        return STEP_FAILED;
    }
    lua_xmove(L, co, nargs);
    if (lua_status(co) == LUA_OK) /* not begun: its stack has the function and its arguments */
        nargs = lua_gettop(co) - 1;
    frame_enter(&f, co, kind, can_wait);
    status = lua_resume(co, L, nargs, &nresults);
    frame_leave(&f);
    if (f.raised > 0)
        return STEP_LATE;
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_xmove(co, L, 1);
        return STEP_FAILED;
    }
    if (status == LUA_YIELD && has_mark(co))
        return STEP_WAITS;
    if (!lua_checkstack(L, nresults + 1)) {
        lua_pop(co, nresults);
        lua_pushliteral(L, "too many results to resume");
        return STEP_FAILED;
    }
    lua_xmove(co, L, nresults);
    return nresults;
}

/* How a script resumes a coroutine. */
enum { BY_RESUME, BY_WRAP };

static int raise_from_wrap(lua_State *L, lua_State *co)
{
    int status = lua_status(co);
    if (status != LUA_OK && status != LUA_YIELD) { /* it raised; else it could not be resumed */
        if (!coroutine_close(L, co))
            lua_remove(L, -2); /* an error of closing replaces the first */
    }
    if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int inner_continue(lua_State *L, int status, lua_KContext how);

/* Returns the results of a step of the coroutine at index 1, which are above it. */
static int inner_done(lua_State *L, int n, int how)
{
    if (n == STEP_WAITS) {
        lua_pushlightuserdata(L, (void *)&mark);
        return lua_yieldk(L, 1, how, inner_continue);
    }
    if (n == STEP_FAILED && how == BY_RESUME && stop_must_raise(L))
        return lua_error(L);
    if (how == BY_WRAP)
        return n == STEP_FAILED ? raise_from_wrap(L, lua_tothread(L, 1)) : n;
    lua_pushboolean(L, n != STEP_FAILED);
    if (n == STEP_FAILED)
        n = 1;
    lua_insert(L, -(n + 1));
    return n + 1;
}

/* Resumes the coroutine at index 1 with everything above it. */
static int inner_step(lua_State *L, int how)
{
    int n = coroutine_step(L, lua_tothread(L, 1), lua_gettop(L) - 1, FRAME_INNER,
                           coroutine_cannot_wait(L) == NULL);
    return inner_done(L, n, how);
}

static int inner_continue(lua_State *L, int status, lua_KContext how)
{
    (void)status;
    lua_pop(lua_tothread(L, 1), 1); /* its mark */
    return inner_step(L, (int)how);
}

static int inner_start(lua_State *L, int how)
{
    const char *why;
    switch (coroutine_status(L, lua_tothread(L, 1))) {
    case CO_SUSPENDED: return inner_step(L, how);
    case CO_WAITING: why = "cannot resume a coroutine that is waiting in a task"; break;
    case CO_DEAD: why = "cannot resume dead coroutine"; break;
    default: why = "cannot resume non-suspended coroutine"; break;
    }
    lua_settop(L, 1);
    lua_pushstring(L, why);
    return inner_done(L, STEP_FAILED, how);
}

static int co_resume(lua_State *L)
{
    coroutine_check(L);
    return inner_start(L, BY_RESUME);
}

static int co_wrapped(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    return inner_start(L, BY_WRAP);
}

static int co_wrap(lua_State *L)
{
    lua_State *co;
    luaL_checktype(L, 1, LUA_TFUNCTION);
    co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    lua_pushcclosure(L, co_wrapped, 1);
    return 1;
}

static int co_close(lua_State *L)
{
    lua_State *co = coroutine_check(L);
    switch (coroutine_status(L, co)) {
    case CO_SUSPENDED:
    case CO_DEAD: break;
    case CO_WAITING: return luaL_error(L, "cannot close a coroutine that is waiting in a task");
    case CO_NORMAL: return luaL_error(L, "cannot close a normal coroutine");
    default: return luaL_error(L, "cannot close a running coroutine");
    }
    if (frame_stack_is_short())
        return luaL_error(L, "C stack overflow");
    if (coroutine_close(L, co)) {
        lua_pushboolean(L, 1);
        return 1;
    }
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
}

static int co_name_status(lua_State *L)
{
    static const char *const name[] = {"running", "normal", "suspended", "normal", "dead"};
    lua_pushstring(L, name[coroutine_status(L, coroutine_check(L))]);
    return 1;
}

static int runs_task(lua_State *L)
{
    const Frame *f = frame_running();
    return f != NULL && f->L == L && f->kind == FRAME_TASK;
}

static int co_yield (lua_State *L)
{
    if (runs_task(L))
        return luaL_error(L, "attempt to yield from outside a coroutine");
    return lua_yield(L, lua_gettop(L));
}

static int co_isyieldable(lua_State *L)
{
    lua_State *co = lua_isnone(L, 1) ? L : coroutine_check(L);
    lua_pushboolean(L, lua_isyieldable(co) && !(co == L && runs_task(L)));
    return 1;
}

/* ---- pcall and xpcall ---- */

/* Returns the results of a protected call, which begin at stack index `first`. */
static int end_protected(lua_State *L, int status, lua_KContext first)
{
    if (status == LUA_OK || status == LUA_YIELD)
        return lua_gettop(L) - (int)first + 1;
    if (stop_must_raise(L))
        return lua_error(L);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
}

static int co_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 1, end_protected);
    return end_protected(L, status, 1);
}

static int co_xpcall(lua_State *L)
{
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2); /* function, handler, true, function, arguments... */
    int status = lua_pcallk(L, lua_gettop(L) - 4, LUA_MULTRET, 2, 3, end_protected);
    return end_protected(L, status, 3);
}

void coroutine_guard_calls(lua_State *L)
{
    lua_register(L, "pcall", co_pcall);
    lua_register(L, "xpcall", co_xpcall);
}

/* ---- the coroutine library ---- */

static const luaL_Reg functions[] = {{"resume", co_resume}, {"wrap", co_wrap},
                                     {"close", co_close},   {"status", co_name_status},
                                     {"yield", co_yield },  {"isyieldable", co_isyieldable},
                                     {NULL, NULL}};

void coroutine_push_library(lua_State *L)
{
    luaL_newlib(L, functions);
}

int coroutine_wait(lua_State *L, lua_KFunction go_on)
{
    lua_settop(L, 0);
    lua_pushlightuserdata(L, (void *)&mark);
    return lua_yieldk(L, 1, 0, go_on);
}

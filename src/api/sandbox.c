/* sandbox.c -- see sandbox.h. */
#include "api/sandbox.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdatomic.h>
#include <time.h>

#include "api/alarm.h"
#include "api/task_stop.h"

enum { STEP_INTERVAL = 1000 };

struct SandboxBlock {
    LIST_ENTRY(SandboxBlock) link;
    size_t size; /* including this header */
    max_align_t bytes[];
};

static Sandbox *volatile running; /* that an alarm may leave */

/* ---- leaving ---- */

static void leave(Sandbox *s, SandboxEnd end)
{
    if (!s->can_leave)
        return;
    s->can_leave = 0;
    s->left = (int)end;
    siglongjmp(s->out, 1);
}

/* In a signal handler. */
static void leave_running(SandboxEnd end)
{
    Sandbox *s = running;
    if (s == NULL)
        return;
    if (s->allocating)
        s->wanted = (int)end;
    else
        leave(s, end);
}

static void on_alarm(void)
{
    leave_running(SANDBOX_TIMEOUT);
}

static void on_stop(void)
{
    leave_running(SANDBOX_STOPPED);
}

/* ---- memory ---- */

static size_t whole_size(size_t size)
{
    return size > 0 ? sizeof(SandboxBlock) + size : 0;
}

/* Unlinks the block while it may move. */
static void *resize(Sandbox *s, void *ptr, size_t old_size, size_t size)
{
    SandboxBlock *block = NULL;
    if (ptr != NULL) {
        block = (SandboxBlock *)((char *)ptr - offsetof(SandboxBlock, bytes));
        LIST_REMOVE(block, link);
    }
    SandboxBlock *made =
        size > 0 || block != NULL
            ? alloc_resize(&s->alloc, block, whole_size(old_size), whole_size(size))
            : NULL;
    if (made == NULL && size > 0) {
        if (block != NULL)
            LIST_INSERT_HEAD(&s->blocks, block, link);
        return NULL;
    }
    s->bytes += size - old_size;
    if (made == NULL)
        return NULL;
    made->size = whole_size(size);
    LIST_INSERT_HEAD(&s->blocks, made, link);
    return made->bytes;
}

/* Lua runs an emergency collection when an allocation fails, and tries once more: a second refusal
 * of the same size ends the program. */
static void *allocate(void *ud, void *ptr, size_t old_size, size_t size)
{
    Sandbox *s = ud;
    if (ptr == NULL)
        old_size = 0; /* Lua passes the kind of object here */
    void *made = NULL;
    s->allocating = 1;
    atomic_signal_fence(memory_order_seq_cst);
    if (size <= old_size || size - old_size <= s->limits.memory - s->bytes)
        made = resize(s, ptr, old_size, size);
    atomic_signal_fence(memory_order_seq_cst);
    s->allocating = 0;
    if (s->wanted)
        leave(s, (SandboxEnd)s->wanted);
    if (made == NULL && size > 0) {
        if (s->refused == size)
            leave(s, SANDBOX_MEMORY);
        s->refused = size;
    } else if (size > old_size) {
        s->refused = 0;
    }
    return made;
}

void sandbox_close(Sandbox *s)
{
    s->S = NULL;
    for (SandboxBlock *block = LIST_FIRST(&s->blocks), *next; block != NULL; block = next) {
        next = LIST_NEXT(block, link);
        alloc_free(&s->alloc, block, block->size);
    }
    LIST_INIT(&s->blocks);
}

static Sandbox *to_sandbox(lua_State *S)
{
    void *ud;
    lua_getallocf(S, &ud);
    return ud;
}

/* Counts instructions against the limit. */
static void charge(Sandbox *s, lua_Integer steps)
{
    s->steps -= steps;
    if (s->steps < 0)
        leave(s, SANDBOX_STEPS);
}

/* ---- the library ----
 *
 *   base          without print, warn, collectgarbage, dofile, loadfile; load accepts text only
 *   coroutine     a new one is charged the steps that it may run uncounted
 *   string        without dump
 *   math          random always starts with the same seed
 *   os            only time (now), clock, difftime
 *   table, utf8
 */

/* Calls the function that this one has replaced. */
static int call_original(lua_State *S)
{
    lua_pushvalue(S, lua_upvalueindex(1));
    lua_insert(S, 1);
    lua_call(S, lua_gettop(S) - 1, LUA_MULTRET);
    return lua_gettop(S);
}

static int load_text(lua_State *S)
{
    if (lua_gettop(S) < 3)
        lua_settop(S, 3);
    lua_pushliteral(S, "t");
    lua_replace(S, 3);
    return call_original(S);
}

/* Each coroutine starts its own count, so the steps up to its first hook are charged in advance. */
static int charge_coroutine(lua_State *S)
{
    Sandbox *s = to_sandbox(S);
    charge(s, s->interval);
    return call_original(S);
}

static int os_time_now(lua_State *S)
{
    if (!lua_isnoneornil(S, 1))
        return luaL_argerror(S, 1, "a sandbox has os.time only without arguments");
    lua_pushinteger(S, (lua_Integer)time(NULL));
    return 1;
}

/* Sets field `name` of the table on top to a function that has the old one as its upvalue. */
static void wrap(lua_State *S, const char *name, lua_CFunction function)
{
    lua_getfield(S, -1, name);
    lua_pushcclosure(S, function, 1);
    lua_setfield(S, -2, name);
}

static void open_base(lua_State *S)
{
    static const char *const removed[] = {"print",  "warn",     "collectgarbage",
                                          "dofile", "loadfile", NULL};
    luaL_requiref(S, LUA_GNAME, luaopen_base, 1);
    for (int i = 0; removed[i] != NULL; i++) {
        lua_pushnil(S);
        lua_setfield(S, -2, removed[i]);
    }
    wrap(S, "load", load_text);
    lua_pop(S, 1);
}

static void open_string(lua_State *S)
{
    luaL_requiref(S, LUA_STRLIBNAME, luaopen_string, 1);
    lua_pushnil(S);
    lua_setfield(S, -2, "dump");
    lua_pop(S, 1);
}

static void open_math(lua_State *S)
{
    luaL_requiref(S, LUA_MATHLIBNAME, luaopen_math, 1);
    lua_getfield(S, -1, "randomseed");
    lua_pushinteger(S, 0);
    lua_call(S, 1, 0);
    lua_pop(S, 1);
}

static void open_coroutine(lua_State *S)
{
    luaL_requiref(S, LUA_COLIBNAME, luaopen_coroutine, 1);
    wrap(S, "create", charge_coroutine);
    wrap(S, "wrap", charge_coroutine);
    lua_pop(S, 1);
}

static void open_os(lua_State *S)
{
    static const char *const kept[] = {"clock", "difftime"};
    lua_createtable(S, 0, 3); /* [os] */
    luaL_requiref(S, LUA_OSLIBNAME, luaopen_os, 0);
    for (int i = 0; i < 2; i++) {
        lua_getfield(S, -1, kept[i]);
        lua_setfield(S, -3, kept[i]);
    }
    lua_pop(S, 1);
    lua_pushcfunction(S, os_time_now);
    lua_setfield(S, -2, "time");
    lua_setglobal(S, LUA_OSLIBNAME);
}

static void open_library(lua_State *S)
{
    open_base(S);
    open_coroutine(S);
    open_string(S);
    open_math(S);
    open_os(S);
    luaL_requiref(S, LUA_TABLIBNAME, luaopen_table, 1);
    luaL_requiref(S, LUA_UTF8LIBNAME, luaopen_utf8, 1);
    lua_pop(S, 2);
    lua_pushnil(S); /* package.loaded, made by luaL_requiref */
    lua_setfield(S, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
}

/* ---- running ---- */

static void on_count(lua_State *S, lua_Debug *ar)
{
    (void)ar;
    Sandbox *s = to_sandbox(S);
    charge(s, s->interval);
}

/* An unprotected error: out of memory outside any call. */
static int on_panic(lua_State *S)
{
    leave(to_sandbox(S), SANDBOX_MEMORY);
    return 0;
}

static void begin(Sandbox *s)
{
    alarm_open(ALARM_SANDBOX, on_alarm);
    running = s;
    task_stop_preempt(on_stop);
    alarm_set(ALARM_SANDBOX, s->limits.seconds);
    if (task_stop_is_pending())
        leave_running(SANDBOX_STOPPED);
}

static void end(Sandbox *s)
{
    s->can_leave = 0;
    running = NULL;
    task_stop_preempt(NULL);
    alarm_set(ALARM_SANDBOX, 0);
}

static SandboxEnd run(Sandbox *s, const char *code, size_t size, SandboxFill *fill, void *arg)
{
    lua_State *S = s->S;
    lua_atpanic(S, on_panic);
    open_library(S);
    if (!fill(S, arg))
        return SANDBOX_REFUSED;
    lua_sethook(S, on_count, LUA_MASKCOUNT, s->interval);
    begin(s);
    int status = luaL_loadbufferx(S, code, size, "=sandbox", "t");
    if (status == LUA_OK)
        status = lua_pcall(S, 0, LUA_MULTRET, 0);
    return status == LUA_OK ? SANDBOX_DONE : status == LUA_ERRMEM ? SANDBOX_MEMORY : SANDBOX_FAILED;
}

SandboxEnd sandbox_run(Sandbox *s, const char *code, size_t size, SandboxFill *fill, void *arg)
{
    s->steps = s->limits.steps;
    s->interval = s->steps < STEP_INTERVAL ? (int)s->steps + 1 : STEP_INTERVAL;
    s->S = lua_newstate(allocate, s);
    if (s->S == NULL)
        return SANDBOX_MEMORY;
    if (sigsetjmp(s->out, 1) == 0) {
        s->can_leave = 1;
        s->left = (int)run(s, code, size, fill, arg);
    }
    end(s);
    return (SandboxEnd)s->left;
}

/*
 * l_sandbox.c -- ponder.core.sandbox: runs a program in a sandbox (sandbox.h), for ponder.sandbox.
 */
#include <lauxlib.h>
#include <string.h>

#include "api/api.h"
#include "api/sandbox.h"
#include "api/task_stop.h"

#define CLASS "ponder.Sandbox"

/* Stack indexes: the arguments of run, then the Sandbox and the memo of sandbox_copy. */
enum { CODE = 1, MEMORY, STEPS, SECONDS, GLOBALS, BOX, MEMO };

enum { MAX_RESULTS = 1000 };

typedef struct Filling {
    lua_State *L;
    char problem[SANDBOX_PROBLEM];
} Filling;

/* Copies the fields of the table at GLOBALS into the globals of S. */
static int fill(lua_State *S, void *arg)
{
    Filling *f = arg;
    if (lua_isnil(f->L, GLOBALS))
        return 1;
    lua_newtable(S); /* the memo */
    int memo = lua_gettop(S);
    if (!sandbox_copy(f->L, GLOBALS, S, memo, f->problem))
        return 0;
    lua_pushglobaltable(S);
    lua_pushnil(S);
    while (lua_next(S, memo + 1)) {
        lua_pushvalue(S, -2);
        lua_insert(S, -2);
        lua_rawset(S, memo + 2);
    }
    lua_settop(S, memo - 1);
    return 1;
}

static int sandbox_finish(lua_State *L)
{
    sandbox_close(luaL_checkudata(L, 1, CLASS));
    return 0;
}

/* The first nil says that the globals could be copied. */
static int fail(lua_State *L, const char *message, const char *code)
{
    lua_pushnil(L);
    lua_pushnil(L);
    lua_pushstring(L, message);
    lua_pushstring(L, code);
    return 4;
}

/* Fails with the error that was raised in S, as text. */
static int fail_with_error(lua_State *L, lua_State *S)
{
    if (lua_type(S, -1) == LUA_TSTRING)
        return fail(L, lua_tostring(S, -1), "ERROR");
    return fail(L, lua_pushfstring(L, "the program raised a %s value", luaL_typename(S, -1)),
                "ERROR");
}

static int copy_results(lua_State *L, lua_State *S)
{
    char problem[SANDBOX_PROBLEM];
    int n = lua_gettop(S);
    lua_newtable(L); /* at MEMO */
    if (n > MAX_RESULTS || !lua_checkstack(L, n + 1))
        return fail(L, "too many results (more than 1000)", "ERROR");
    lua_pushnil(L);
    for (int i = 1; i <= n; i++)
        if (!sandbox_copy(S, i, L, MEMO, problem))
            return fail(L, lua_pushfstring(L, "result %d%s", i, problem), "ERROR");
    return n + 1;
}

static const char *describe_limit(lua_State *L, SandboxEnd how)
{
    if (how == SANDBOX_MEMORY)
        return lua_pushfstring(L, "the program needs more than %I MiB",
                               (LUAI_UACINT)lua_tointeger(L, MEMORY));
    if (how == SANDBOX_STEPS)
        return lua_pushfstring(L, "the program takes more than %I steps",
                               (LUAI_UACINT)lua_tointeger(L, STEPS));
    return lua_pushfstring(L, "the program takes more than %f s", lua_tonumber(L, SECONDS));
}

static int finish(lua_State *L, Sandbox *s, SandboxEnd how, const Filling *f)
{
    lua_settop(L, BOX);
    switch (how) {
    case SANDBOX_DONE: return copy_results(L, s->S);
    case SANDBOX_FAILED: return fail_with_error(L, s->S);
    case SANDBOX_REFUSED: lua_pushstring(L, f->problem); return 1;
    case SANDBOX_MEMORY: return fail(L, describe_limit(L, how), "MEMORY");
    case SANDBOX_STEPS: return fail(L, describe_limit(L, how), "STEPS");
    case SANDBOX_TIMEOUT: return fail(L, describe_limit(L, how), "TIMEOUT");
    default: return task_stop_raise(L);
    }
}

/* run(code, memory_mb, steps, seconds, globals|nil) -> nil, results... | nil, nil, message, code |
 * why the globals cannot be copied */
static int sandbox_l_run(lua_State *L)
{
    size_t size;
    const char *code = luaL_checklstring(L, CODE, &size);
    SandboxLimits limits = {.memory = (size_t)luaL_checkinteger(L, MEMORY) << 20,
                            .steps = luaL_checkinteger(L, STEPS),
                            .seconds = luaL_checknumber(L, SECONDS)};
    lua_settop(L, GLOBALS);
    if (!lua_isnil(L, GLOBALS))
        luaL_checktype(L, GLOBALS, LUA_TTABLE);
    Sandbox *s = lua_newuserdatauv(L, sizeof *s, 0); /* at BOX */
    memset(s, 0, sizeof *s);
    luaL_setmetatable(L, CLASS);
    s->limits = limits;
    s->alloc = api_alloc(L);
    Filling f = {.L = L};
    SandboxEnd how = sandbox_run(s, code, size, fill, &f);
    int results = finish(L, s, how, &f);
    sandbox_close(s);
    return results;
}

PONDER_MODULE(luaopen_ponder_core_sandbox)
{
    static const luaL_Reg functions[] = {{"run", sandbox_l_run}, {NULL, NULL}};
    api_new_class(L, CLASS, no_methods, sandbox_finish);
    luaL_newlib(L, functions);
    return 1;
}

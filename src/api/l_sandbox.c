/*
 * l_sandbox.c -- ponder.core.sandbox: runs a program in a sandbox (sandbox.h), for ponder.sandbox.
 */
#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/sandbox.h"
#include "api/task_stop.h"

#define CLASS "ponder.Sandbox"

/* Stack indexes: the arguments of run, then the Sandbox. */
enum { CODE = 1, MEMORY, STEPS, SECONDS, GLOBALS, BOX };

enum { MAX_RESULTS = 1000, PROBLEM_SIZE = 300 };

/* ---- copying values: nil, booleans, numbers, strings, tables of these without metatables ---- */

enum { MAX_DEPTH = 100, SHORT_STRING = 40, MAX_NAME = 40, MAX_PATH = 150, STACK = 8 };

typedef struct Copy {
    lua_State *from, *to;
    int memo;      /* table of `to`: copies by address of the original; true: being copied */
    char *problem; /* "a.b.c: a function", written backwards */
} Copy;

/* Prepends text to the problem. */
static void prepend(Copy *c, const char *text)
{
    char rest[PROBLEM_SIZE];
    if (strlen(c->problem) > MAX_PATH)
        return;
    snprintf(rest, sizeof rest, "%s", c->problem);
    snprintf(c->problem, PROBLEM_SIZE, "%.80s%.200s",
             strlen(rest) + strlen(text) > MAX_PATH ? "..." : text, rest);
}

static int refuse(Copy *c, const char *what)
{
    snprintf(c->problem, PROBLEM_SIZE, ": %.200s", what);
    return 0;
}

/* Prepends the key at `index` to the path. */
static void prepend_key(Copy *c, int index)
{
    char text[MAX_NAME + 8];
    switch (lua_type(c->from, index)) {
    case LUA_TSTRING:
        snprintf(text, sizeof text, ".%.*s", MAX_NAME, lua_tostring(c->from, index));
        break;
    case LUA_TNUMBER:
        if (lua_isinteger(c->from, index))
            snprintf(text, sizeof text, "[%lld]", (long long)lua_tointeger(c->from, index));
        else
            snprintf(text, sizeof text, "[%.14g]", lua_tonumber(c->from, index));
        break;
    default: snprintf(text, sizeof text, "[%s]", luaL_typename(c->from, index)); break;
    }
    prepend(c, text);
}

static int copy_value(Copy *c, int index, int depth);

/* Pushes the copy of the value at that address, if there is one. */
static int find_copy(Copy *c, const void *address)
{
    if (lua_rawgetp(c->to, c->memo, address) != LUA_TNIL)
        return 1;
    lua_pop(c->to, 1);
    return 0;
}

static void note_copy(Copy *c, const void *address)
{
    lua_pushvalue(c->to, -1);
    lua_rawsetp(c->to, c->memo, address);
}

/* Long strings are copied once: a table may hold a megabyte a million times. */
static int copy_string(Copy *c, int index)
{
    size_t size;
    const char *text = lua_tolstring(c->from, index, &size);
    if (size <= SHORT_STRING) {
        lua_pushlstring(c->to, text, size);
    } else if (!find_copy(c, text)) {
        lua_pushlstring(c->to, text, size);
        note_copy(c, text);
    }
    return 1;
}

/* Copies the pair on top of `from` into the table on top of `to`. */
static int copy_pair(Copy *c, int depth)
{
    int value = lua_gettop(c->from), key = value - 1;
    if (!copy_value(c, key, depth)) {
        prepend(c, " (a key)");
        return 0;
    }
    if (!copy_value(c, value, depth)) {
        prepend_key(c, key);
        return 0;
    }
    lua_rawset(c->to, -3);
    return 1;
}

static int copy_table(Copy *c, int index, int depth)
{
    const void *address = lua_topointer(c->from, index);
    if (find_copy(c, address))
        return lua_istable(c->to, -1) ? 1 : refuse(c, "the table contains itself");
    if (depth == MAX_DEPTH)
        return refuse(c, "tables are nested too deeply (more than 100)");
    if (!lua_checkstack(c->from, STACK) || !lua_checkstack(c->to, STACK))
        return refuse(c, "not enough memory");
    index = lua_absindex(c->from, index);
    lua_pushboolean(c->to, 1);
    lua_rawsetp(c->to, c->memo, address);
    lua_newtable(c->to); /* grows with what is there: the length may be anything */
    lua_pushnil(c->from);
    while (lua_next(c->from, index)) {
        if (!copy_pair(c, depth + 1))
            return 0;
        lua_pop(c->from, 1);
    }
    note_copy(c, address);
    return 1;
}

static int copy_value(Copy *c, int index, int depth)
{
    char what[64];
    switch (lua_type(c->from, index)) {
    case LUA_TNIL: lua_pushnil(c->to); return 1;
    case LUA_TBOOLEAN: lua_pushboolean(c->to, lua_toboolean(c->from, index)); return 1;
    case LUA_TNUMBER:
        if (lua_isinteger(c->from, index))
            lua_pushinteger(c->to, lua_tointeger(c->from, index));
        else
            lua_pushnumber(c->to, lua_tonumber(c->from, index));
        return 1;
    case LUA_TSTRING: return copy_string(c, index);
    case LUA_TTABLE: return copy_table(c, index, depth);
    default:
        snprintf(what, sizeof what, "a %s cannot be copied", luaL_typename(c->from, index));
        return refuse(c, what);
    }
}

/* Copies the value at `index` of one state to the top of another. The table at `memo` of the latter
 * maps what has been copied, so that shared values stay shared. Returns 0 if it cannot, and writes
 * to `problem` what and where in the value. */
static int copy_to(lua_State *from, int index, lua_State *to, int memo, char *problem)
{
    Copy c = {.from = from, .to = to, .memo = memo, .problem = problem};
    if (!lua_checkstack(to, STACK) || !lua_checkstack(from, STACK))
        return refuse(&c, "not enough memory");
    return copy_value(&c, lua_absindex(from, index), 0);
}

/* ---- running a program ---- */

typedef struct LuaSandbox {
    Box box;
    Sandbox sandbox;
} LuaSandbox;

typedef struct Filling {
    lua_State *L;
    char problem[PROBLEM_SIZE];
} Filling;

/* Copies the fields of the table at GLOBALS into the globals of S. */
static int fill(lua_State *S, void *arg)
{
    Filling *f = arg;
    if (lua_isnil(f->L, GLOBALS))
        return 1;
    lua_newtable(S); /* the memo */
    int memo = lua_gettop(S);
    if (!copy_to(f->L, GLOBALS, S, memo, f->problem))
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

static void close_sandbox(void *sandbox)
{
    sandbox_close(sandbox);
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

typedef struct Results {
    lua_State *from;
    size_t left;        /* bytes that their copies may still take */
    bool refused;       /* for good, though Lua then collects all garbage and tries again */
    lua_Alloc allocate; /* of the state that they are copied to */
    void *ud;
} Results;

static void *allocate_copies(void *ud, void *ptr, size_t old_size, size_t size)
{
    Results *r = ud;
    size_t before = ptr != NULL ? old_size : 0;
    if (size > before && size - before > r->left)
        r->refused = true;
    void *made = r->refused && size > before ? NULL : r->allocate(r->ud, ptr, old_size, size);
    if (made != NULL || size == 0)
        r->left += before - size;
    return made;
}

static int push_results(lua_State *L)
{
    char problem[PROBLEM_SIZE];
    lua_State *from = ((Results *)lua_touserdata(L, 1))->from;
    int n = lua_gettop(from);
    lua_settop(L, 0);
    if (n > MAX_RESULTS || !lua_checkstack(L, n + 2))
        return fail(L, "too many results (more than 1000)", "ERROR");
    lua_newtable(L); /* the memo of copy_to */
    lua_pushnil(L);
    for (int i = 1; i <= n; i++)
        if (!copy_to(from, i, L, 1, problem))
            return fail(L, lua_pushfstring(L, "result %d%s", i, problem), "ERROR");
    return n + 1;
}

/* Copies may take as much memory as the program itself. No finalizer runs meanwhile, which might
 * use the allocator of the state. */
static int copy_results(lua_State *L, const Sandbox *s)
{
    Results r = {.from = s->S, .left = s->limits.memory};
    int collects = lua_gc(L, LUA_GCISRUNNING);
    lua_gc(L, LUA_GCSTOP);
    lua_pushcfunction(L, push_results);
    lua_pushlightuserdata(L, &r);
    r.allocate = lua_getallocf(L, &r.ud);
    lua_setallocf(L, allocate_copies, &r);
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    lua_setallocf(L, r.allocate, r.ud);
    if (collects)
        lua_gc(L, LUA_GCRESTART);
    if (status == LUA_OK)
        return lua_gettop(L) - BOX;
    if (!r.refused)
        return lua_error(L);
    return fail(L,
                lua_pushfstring(L, "the program's results need more than %I MiB",
                                (LUAI_UACINT)lua_tointeger(L, MEMORY)),
                "MEMORY");
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
    case SANDBOX_DONE: return copy_results(L, s);
    case SANDBOX_FAILED: return fail_with_error(L, s->S);
    case SANDBOX_REFUSED: lua_pushstring(L, f->problem); return 1;
    case SANDBOX_MEMORY: return fail(L, describe_limit(L, how), "MEMORY");
    case SANDBOX_STEPS: return fail(L, describe_limit(L, how), "STEPS");
    case SANDBOX_TIMEOUT: return fail(L, describe_limit(L, how), "TIMEOUT");
    default: return task_stop_raise(L);
    }
}

/* The arguments of run, then the box. */
static int run(lua_State *L)
{
    size_t size;
    const char *code = lua_tolstring(L, CODE, &size);
    Sandbox *s = ((const Box *)lua_touserdata(L, BOX))->held;
    Filling f = {.L = L};
    SandboxEnd how = sandbox_run(s, code, size, fill, &f);
    return finish(L, s, how, &f);
}

/* run(code, memory_mb, steps, seconds, globals|nil) -> nil, results... | nil, nil, message, code |
 * why the globals cannot be copied */
static int sandbox_l_run(lua_State *L)
{
    luaL_checkstring(L, CODE);
    SandboxLimits limits = {.memory = (size_t)luaL_checkinteger(L, MEMORY) << 20,
                            .steps = luaL_checkinteger(L, STEPS),
                            .seconds = luaL_checknumber(L, SECONDS)};
    lua_settop(L, GLOBALS);
    if (!lua_isnil(L, GLOBALS))
        luaL_checktype(L, GLOBALS, LUA_TTABLE);
    LuaSandbox *s = api_new_box(L, CLASS, sizeof *s, close_sandbox); /* at BOX */
    s->sandbox.limits = limits;
    s->sandbox.alloc = api_alloc(L);
    s->box.held = &s->sandbox;
    s->box.closing = true;
    return api_use_box(L, BOX, run);
}

PONDER_MODULE(luaopen_ponder_core_sandbox)
{
    static const luaL_Reg functions[] = {{"run", sandbox_l_run}, {NULL, NULL}};
    api_new_class(L, CLASS, no_methods);
    luaL_newlib(L, functions);
    return 1;
}

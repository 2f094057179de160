/*
 * sandbox_copy.c -- copies values from one Lua state to another (sandbox.h): nil, booleans,
 * numbers, strings, and tables of these without metatables.
 */
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "api/sandbox.h"

enum { MAX_DEPTH = 100, SHORT_STRING = 40, MAX_NAME = 40, MAX_PATH = 150, STACK = 8 };

typedef struct Copy {
    lua_State *from, *to;
    int memo;      /* table of `to`: copies by address of the original; true: being copied */
    char *problem; /* "a.b.c: a function", written backwards */
} Copy;

/* Prepends text to the problem. */
static void prepend(Copy *c, const char *text)
{
    char rest[SANDBOX_PROBLEM];
    if (strlen(c->problem) > MAX_PATH)
        return;
    snprintf(rest, sizeof rest, "%s", c->problem);
    snprintf(c->problem, SANDBOX_PROBLEM, "%.80s%.200s",
             strlen(rest) + strlen(text) > MAX_PATH ? "..." : text, rest);
}

static int refuse(Copy *c, const char *what)
{
    snprintf(c->problem, SANDBOX_PROBLEM, ": %.200s", what);
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
    size_t length = (size_t)lua_rawlen(c->from, index);
    lua_createtable(c->to, length < 1 << 16 ? (int)length : 1 << 16, 0);
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

int sandbox_copy(lua_State *from, int index, lua_State *to, int memo, char *problem)
{
    Copy c = {.from = from, .to = to, .memo = memo, .problem = problem};
    if (!lua_checkstack(to, STACK) || !lua_checkstack(from, STACK))
        return refuse(&c, "not enough memory");
    return copy_value(&c, lua_absindex(from, index), 0);
}

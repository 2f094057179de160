/*
 * l_json.c -- ponder.core.json, behind ponder.json (lua/ponder/json.lua), which checks arguments.
 *
 * It does not use lua-cjson, which loses 64-bit integers and digits beyond the 14th, has no empty
 * lists, no sorted keys and no positions in its errors, and rejects lone surrogates. json.null is
 * the same value as cjson.null, so both can be used side by side.
 */
#include <math.h>
#include <string.h>

#include "api/l_json.h"
#include "core/json.h"

/* ---- decode and get: tokens of the reader become Lua values ----
 *
 * Each open container has its table on the Lua stack, and an object above that the key whose value
 * is read. There is no recursion.
 */

typedef struct Builder {
    lua_State *L;
    JsonReader reader;
    bool finite;   /* refuses NaN and infinities */
    uint64_t cost; /* estimated bytes of memory of the values so far */
    uint64_t max_cost;
} Builder;

static void builder_open(Builder *b, lua_State *L, const char *text, size_t length, size_t depth)
{
    b->L = L;
    b->finite = false;
    b->cost = 0;
    b->max_cost = UINT64_MAX;
    json_open(&b->reader, text, length, depth);
}

static void push_string(lua_State *L, const JsonString *s)
{
    if (s->plain) {
        lua_pushlstring(L, s->text, s->length);
    } else {
        luaL_Buffer buffer;
        char *room = luaL_buffinitsize(L, &buffer, s->room);
        luaL_pushresultsize(&buffer, json_unescape(s, room));
    }
}

static void push_scalar(Builder *b, JsonToken token)
{
    lua_State *L = b->L;
    switch (token) {
    case JSON_STRING:
    case JSON_KEY: push_string(L, &b->reader.string); break;
    case JSON_INTEGER: lua_pushinteger(L, b->reader.integer); break;
    case JSON_DOUBLE: lua_pushnumber(L, b->reader.number); break;
    case JSON_TRUE: lua_pushboolean(L, 1); break;
    case JSON_FALSE: lua_pushboolean(L, 0); break;
    default: lua_pushlightuserdata(L, NULL); break;
    }
}

/* What Lua 5.4 takes on a 64-bit machine for a value with its place in a table: a header and the
 * bytes of a string, a table, an item of a list, a node of an object. */
static size_t cost_of(const Builder *b, JsonToken token)
{
    enum { HEADER = 25, TABLE = 56, ITEM = 16, NODE = 40 };
    switch (token) {
    case JSON_OPEN_LIST:
    case JSON_OPEN_OBJECT: return TABLE + ITEM;
    case JSON_KEY: return NODE - ITEM + HEADER + b->reader.string.room;
    case JSON_STRING: return ITEM + HEADER + b->reader.string.room;
    case JSON_CLOSE_LIST:
    case JSON_CLOSE_OBJECT: return 0;
    default: return ITEM;
    }
}

static bool is_refused(Builder *b, JsonToken token)
{
    b->cost += cost_of(b, token);
    if (b->cost > b->max_cost)
        b->reader.problem = "the value takes more than max_memory_bytes";
    else if (b->finite && token == JSON_DOUBLE && !isfinite(b->reader.number))
        b->reader.problem = "expected a finite number";
    else
        return false;
    b->reader.fault = JSON_BAD;
    return true;
}

/* Reads one value and pushes it; false: an error, which the reader describes. */
static bool build(Builder *b)
{
    lua_State *L = b->L;
    JsonReader *r = &b->reader;
    size_t outside = r->depth;
    do {
        JsonToken token = json_next(r);
        if (token == JSON_ERROR || token == JSON_END || is_refused(b, token))
            return false;
        switch (token) {
        case JSON_OPEN_LIST:
        case JSON_OPEN_OBJECT:
            luaL_checkstack(L, LUA_MINSTACK, "json: nested too deeply");
            lua_newtable(L);
            if (token == JSON_OPEN_LIST) {
                lua_pushvalue(L, JSON_LIST_MARK);
                lua_setmetatable(L, -2);
            }
            continue;
        case JSON_KEY: push_scalar(b, token); continue;
        case JSON_CLOSE_LIST:
        case JSON_CLOSE_OBJECT: break; /* it is on top */
        default: push_scalar(b, token); break;
        }
        if (r->depth > outside && json_in_object(r))
            lua_rawset(L, -3);
        else if (r->depth > outside)
            lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    } while (r->depth > outside);
    return true;
}

/* nil, message, code */
static int push_fault(Builder *b, const char *where)
{
    JsonPlace place = json_place(&b->reader);
    const char *message = lua_pushfstring(b->L, "%s: %s at byte %I (line %I, column %I)", where,
                                          b->reader.problem, (LUAI_UACINT)place.byte,
                                          (LUAI_UACINT)place.line, (LUAI_UACINT)place.column);
    return api_fail(b->L, message,
                    b->cost > b->max_cost              ? "TOO_LARGE"
                    : b->reader.fault == JSON_TOO_DEEP ? "TOO_DEEP"
                                                       : "BAD_JSON");
}

/* text, max_depth, max_bytes, max_memory_bytes (integers or nil), finite -> as json.decode */
static int json_decode(lua_State *L)
{
    size_t length;
    const char *text = luaL_checklstring(L, 1, &length);
    lua_Integer max_depth = luaL_optinteger(L, 2, JSON_DEFAULT_DEPTH);
    lua_Integer max_bytes = luaL_optinteger(L, 3, JSON_DEFAULT_BYTES);
    lua_Integer max_cost = luaL_optinteger(L, 4, LUA_MAXINTEGER);
    luaL_argcheck(L, max_depth >= 1 && max_depth <= JSON_DEPTH_CEILING, 2, "max_depth");
    Builder b;
    if (length > (lua_Unsigned)max_bytes)
        return api_fail(
            L,
            lua_pushfstring(L, "json.decode: the text has %I bytes, more than max_bytes = %I",
                            (LUAI_UACINT)length, (LUAI_UACINT)max_bytes),
            "TOO_LARGE");
    bool finite = lua_toboolean(L, 5);
    builder_open(&b, L, text, length, (size_t)max_depth);
    b.finite = finite;
    b.max_cost = (uint64_t)max_cost;
    if (!build(&b) || json_next(&b.reader) != JSON_END)
        return push_fault(&b, "json.decode");
    return 1;
}

/* Goes to the value of the key, or of the index, at `arg`; false if there is none or the reader has
 * a fault. */
static bool enter(JsonReader *r, lua_State *L, int arg)
{
    size_t length;
    const char *key = lua_type(L, arg) == LUA_TSTRING ? lua_tolstring(L, arg, &length) : NULL;
    if (json_next(r) != (key != NULL ? JSON_OPEN_OBJECT : JSON_OPEN_LIST))
        return false;
    for (lua_Integer i = 1; key != NULL ? json_next(r) == JSON_KEY : json_item(r); i++) {
        bool found = key == NULL && i == lua_tointeger(L, arg);
        const JsonString *s = &r->string;
        if (key != NULL && s->plain) {
            found = s->length == length && memcmp(s->text, key, length) == 0;
        } else if (key != NULL) {
            push_string(L, s);
            found = lua_rawequal(L, -1, arg);
            lua_pop(L, 1);
        }
        if (found)
            return true;
        if (!json_skip(r))
            return false;
    }
    return false;
}

static void check_path(lua_State *L, int last)
{
    for (int arg = 2; arg <= last; arg++) {
        int is_integer = lua_type(L, arg) == LUA_TNUMBER;
        if (is_integer)
            lua_tointegerx(L, arg, &is_integer);
        if (!is_integer && lua_type(L, arg) != LUA_TSTRING)
            luaL_error(L, "json.get: step %d of the path must be a string or an integer (got %s)",
                       arg - 1, luaL_typename(L, arg));
    }
}

static int json_get(lua_State *L)
{
    size_t length;
    int last = lua_gettop(L);
    Builder b;
    if (lua_type(L, 1) != LUA_TSTRING) /* numbers are not accepted */
        return luaL_error(L, "json.get: text must be a string (got %s)", luaL_typename(L, 1));
    const char *text = lua_tolstring(L, 1, &length);
    check_path(L, last);
    builder_open(&b, L, text, length, JSON_DEFAULT_DEPTH);
    for (int arg = 2; arg <= last; arg++) {
        if (!enter(&b.reader, L, arg)) {
            if (b.reader.fault != JSON_OK)
                return push_fault(&b, "json.get");
            lua_pushnil(L);
            return 1;
        }
    }
    return build(&b) ? 1 : push_fault(&b, "json.get");
}

/* ---- the module ---- */

static const luaL_Reg FUNCTIONS[] = {
    {"encode", json_lua_encode}, {"decode", json_decode}, {"get", json_get}, {NULL, NULL}};

PONDER_MODULE(luaopen_ponder_core_json)
{
    luaL_newlibtable(L, FUNCTIONS);
    /* In the registry, so that marks are the same for every instance of the module. */
    luaL_newmetatable(L, "ponder.json.array");
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "LIST");
    luaL_newmetatable(L, "ponder.json.object");
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, "OBJECT");
    lua_pushvalue(L, -3);
    luaL_setfuncs(L, FUNCTIONS, 3);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    return 1;
}

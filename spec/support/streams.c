/*
 * streams.c -- a Lua module for specs: the parts of ponder.core.net that need no connection.
 *
 *   reader(format, [max_line_bytes, max_event_bytes])   "sse" or "ndjson": core/sse.h
 *     reader:feed(bytes) -> {name, data, ...} | nil, code; reader:finish() -> the same
 *     reader:done() -> whether [DONE] was read
 *   is_public(address) -> boolean
 */
#include <lauxlib.h>
#include <lua.h>
#include <stdlib.h>
#include <string.h>

#include "net/pump.h"

#define READER "streams.Reader"

typedef struct Reader {
    Alloc alloc;
    SseReader reader;
    EventList events;
} Reader;

int luaopen_streams(lua_State *L);

static int new_reader(lua_State *L)
{
    static const char *const formats[] = {"sse", "ndjson", NULL};
    SseFormat format = luaL_checkoption(L, 1, NULL, formats) == 0 ? SSE_EVENTS : SSE_JSON_LINES;
    lua_Integer max_line = luaL_optinteger(L, 2, 1 << 20),
                max_event = luaL_optinteger(L, 3, 4 << 20);
    Reader *r = lua_newuserdatauv(L, sizeof *r, 0);
    memset(r, 0, sizeof *r);
    r->alloc.fn = lua_getallocf(L, &r->alloc.ud);
    sse_start(&r->reader, format, (size_t)max_line, (size_t)max_event);
    luaL_setmetatable(L, READER);
    return 1;
}

static int free_reader(lua_State *L)
{
    Reader *r = luaL_checkudata(L, 1, READER);
    sse_free(&r->reader, &r->alloc);
    event_list_free(&r->events, &r->alloc);
    return 0;
}

static int push_events(lua_State *L, Reader *r, SseStatus status)
{
    if (status != SSE_OK) {
        lua_pushnil(L);
        lua_pushstring(L, status == SSE_NO_MEMORY ? "NO_MEMORY" : "TOO_LARGE");
        return 2;
    }
    lua_newtable(L);
    for (size_t i = 0; i < r->events.count; i++) {
        const StreamEvent *e = &r->events.list[i];
        lua_pushlstring(L, r->events.bytes.data + e->name, e->name_size);
        lua_rawseti(L, -2, 2 * (lua_Integer)i + 1);
        lua_pushlstring(L, r->events.bytes.data + e->data, e->data_size);
        lua_rawseti(L, -2, 2 * (lua_Integer)i + 2);
    }
    return 1;
}

static int feed(lua_State *L)
{
    size_t n;
    Reader *r = luaL_checkudata(L, 1, READER);
    const char *bytes = luaL_checklstring(L, 2, &n);
    event_list_reset(&r->events, &r->alloc);
    return push_events(L, r, sse_feed(&r->reader, &r->alloc, bytes, n, &r->events, 1));
}

static int finish(lua_State *L)
{
    Reader *r = luaL_checkudata(L, 1, READER);
    event_list_reset(&r->events, &r->alloc);
    return push_events(L, r, sse_finish(&r->reader, &r->alloc, &r->events, 1));
}

static int is_done(lua_State *L)
{
    const Reader *r = luaL_checkudata(L, 1, READER);
    lua_pushboolean(L, r->reader.done);
    return 1;
}

static int is_public(lua_State *L)
{
    lua_pushboolean(L, address_is_public(luaL_checkstring(L, 1)));
    return 1;
}

int luaopen_streams(lua_State *L)
{
    static const luaL_Reg methods[] = {{"feed", feed},           {"finish", finish},
                                       {"done", is_done},        {"__gc", free_reader},
                                       {"__close", free_reader}, {NULL, NULL}};
    static const luaL_Reg functions[] = {
        {"is_public", is_public}, {"reader", new_reader}, {NULL, NULL}};
    luaL_newmetatable(L, READER);
    luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    luaL_newlib(L, functions);
    return 1;
}

/* net_batch.c -- see net_batch.h. */
#include "api/net_batch.h"

#include <string.h>

#include "api/api.h"

/* Consecutive events mostly have the same name: they share one string. */
typedef struct NameCache {
    const char *name;
    size_t size;
    int index; /* of its string on the stack */
} NameCache;

static void push_name(lua_State *L, NameCache *cache, const char *name, size_t size)
{
    if (cache->name == NULL || cache->size != size || memcmp(cache->name, name, size) != 0) {
        lua_pushlstring(L, name, size);
        lua_replace(L, cache->index);
        cache->name = name;
        cache->size = size;
    }
    lua_pushvalue(L, cache->index);
}

lua_Integer net_put_events(lua_State *L, int batch, lua_Integer n, const EventList *events,
                           bool with_source)
{
    lua_pushnil(L);
    NameCache cache = {NULL, 0, lua_gettop(L)};
    const char *bytes = events->bytes.data;
    for (size_t i = 0; i < events->count; i++) {
        const StreamEvent *e = &events->list[i];
        if (with_source && e->source == 0)
            continue; /* of a cancelled call */
        if (with_source) {
            lua_pushinteger(L, e->source);
            lua_rawseti(L, batch, ++n);
        }
        push_name(L, &cache, bytes + e->name, e->name_size);
        lua_rawseti(L, batch, ++n);
        lua_pushlstring(L, bytes + e->data, e->data_size);
        lua_rawseti(L, batch, ++n);
    }
    lua_pop(L, 1);
    return n;
}

void net_clear_rest(lua_State *L, int batch, lua_Integer n)
{
    while (lua_rawgeti(L, batch, ++n) != LUA_TNIL) {
        lua_pop(L, 1);
        lua_pushnil(L);
        lua_rawseti(L, batch, n);
    }
    lua_pop(L, 1);
}

static void set_time(lua_State *L, const char *name, double ms)
{
    if (ms >= 0)
        api_set_number(L, name, ms);
}

static void set_flag(lua_State *L, const char *name, bool value)
{
    if (value)
        api_set_boolean(L, name, true);
}

/* name NUL value NUL... -> table; a repeated name's values are joined by ", " */
static void push_headers(lua_State *L, const Buffer *headers, int count)
{
    lua_createtable(L, 0, count);
    const char *end = headers->data + headers->size;
    for (const char *at = headers->data; at < end;) {
        const char *value = at + strlen(at) + 1;
        lua_pushstring(L, at);
        lua_pushvalue(L, -1);
        if (lua_rawget(L, -3) == LUA_TNIL) { /* table, name, nil */
            lua_pop(L, 1);
            lua_pushstring(L, value);
        } else {
            lua_pushfstring(L, "%s, %s", lua_tostring(L, -1), value);
            lua_remove(L, -2);
        }
        lua_rawset(L, -3);
        at = value + strlen(value) + 1;
    }
}

static void push_result(lua_State *L, const Result *r)
{
    lua_createtable(L, 0, 16);
    push_headers(L, &r->headers, r->header_count);
    lua_setfield(L, -2, "headers");
    if (r->status != 0)
        api_set_integer(L, "status", r->status);
    if (r->code == NULL && !r->streamed) {
        lua_pushlstring(L, r->body.size > 0 ? r->body.data : "", r->body.size);
        lua_setfield(L, -2, "body");
    }
    if (r->code != NULL) {
        api_set_string(L, "code", r->code);
        api_set_string(L, "error", r->error);
        api_set_string(L, "timeout", r->timeout);
    }
    set_flag(L, "streamed", r->streamed);
    set_flag(L, "done", r->done);
    set_flag(L, "malformed", r->malformed);
    api_set_integer(L, "events", (lua_Integer)r->events);
    if (r->event_id != NULL) {
        lua_pushlstring(L, r->event_id->data, r->event_id->size);
        lua_setfield(L, -2, "event_id");
    }
    if (r->retry_ms >= 0)
        api_set_integer(L, "retry_ms", r->retry_ms);
    api_set_integer(L, "new_connections", r->new_connections);
    api_set_integer(L, "redirects", r->redirects);
    set_time(L, "queue_ms", r->queue_ms);
    set_time(L, "connect_ms", r->connect_ms);
    set_time(L, "first_byte_ms", r->first_byte_ms);
    set_time(L, "first_event_ms", r->first_event_ms);
    set_time(L, "total_ms", r->total_ms);
    api_set_string(L, "http_version", r->http_version);
}

lua_Integer net_put_results(lua_State *L, int batch, lua_Integer n, Pump *pump)
{
    for (const Result *r; (r = pump_first_result(pump)) != NULL;) {
        lua_pushinteger(L, r->id);
        lua_rawseti(L, batch, ++n);
        lua_pushboolean(L, 0);
        lua_rawseti(L, batch, ++n);
        push_result(L, r);
        lua_rawseti(L, batch, ++n);
        pump_drop_result(pump);
    }
    return n;
}

/* net_tables.c -- see net_tables.h. */
#include "api/net_tables.h"

#include <string.h>

#include "api/api.h"

/* ---- headers ---- */

/* The characters of an RFC 9110 token. */
static bool is_token(const char *s, size_t n)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return n > 0;
}

static bool is_header_value(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] == '\r' || s[i] == '\n' || s[i] == '\0')
            return false;
    return true;
}

/* Pushes the table at `index`, names to strings or numbers, as lines "name: value" NUL. To libcurl
 * "name;" is a header without a value. Errors do not show values: they may be keys. */
static void push_headers(lua_State *L, int index)
{
    int lines = 0;
    if (!lua_istable(L, index))
        luaL_error(L, "net.submit: headers must be a table (got %s)", luaL_typename(L, index));
    for (lua_pushnil(L); lua_next(L, index) != 0; lines++) {
        size_t name_size, size;
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &name_size) : NULL;
        if (name == NULL || !is_token(name, name_size))
            luaL_error(L, "net.submit: headers has an invalid header name");
        const char *value = lua_tolstring(L, -1, &size); /* a copy: the table keeps its number */
        if (value == NULL)
            luaL_error(L, "net.submit: headers[\"%s\"] must be a string or a number (got %s)", name,
                       luaL_typename(L, -1));
        if (!is_header_value(value, size))
            luaL_error(L, "net.submit: headers[\"%s\"] must not contain a line break or NUL", name);
        luaL_checkstack(L, LUA_MINSTACK, "headers");
        lua_pushfstring(L, "%s%s%s%c", name, size > 0 ? ": " : ";", value, '\0');
        lua_replace(L, -2);
        lua_insert(L, -2); /* below the name */
    }
    lua_concat(L, lines);
}

/* ---- whole tables ---- */

static void read_limits(lua_State *L, int arg, CallLimits *l)
{
    const int64_t max_ms = INT32_MAX /* 24 days */, max_bytes = (int64_t)1 << 40;
    api_read_integer(L, arg, "timeout_ms", 1, max_ms, &l->timeout_ms);
    api_read_integer(L, arg, "connect_timeout_ms", 1, max_ms, &l->connect_timeout_ms);
    api_read_integer(L, arg, "idle_timeout_ms", 1, max_ms, &l->idle_timeout_ms);
    api_read_integer(L, arg, "max_body_bytes", 1, max_bytes, &l->max_body_bytes);
    api_read_integer(L, arg, "max_line_bytes", 1, max_bytes, &l->max_line_bytes);
    api_read_integer(L, arg, "max_event_bytes", 1, max_bytes, &l->max_event_bytes);
    api_read_integer(L, arg, "max_header_bytes", 1, max_bytes, &l->max_header_bytes);
    api_read_integer(L, arg, "max_redirects", 0, 100, &l->max_redirects);
    api_read_boolean(L, arg, "cross_host_redirects", &l->cross_host_redirects);
    api_read_boolean(L, arg, "public_only", &l->public_only);
}

void net_open_options(lua_State *L, int arg, NetOptions *o)
{
    const int64_t max_calls = 65536;
    *o = (NetOptions){
        .pump = {.max_in_flight_per_host = 64, .max_total = 256, .max_queued = 100000},
        .request = {.limits = net_default_limits},
    };
    if (lua_isnil(L, arg))
        return;
    luaL_checktype(L, arg, LUA_TTABLE);
    api_read_integer(L, arg, "max_in_flight_per_host", 1, max_calls,
                     &o->pump.max_in_flight_per_host);
    api_read_integer(L, arg, "max_total", 1, max_calls, &o->pump.max_total);
    api_read_integer(L, arg, "max_queued", 1, INT64_MAX, &o->pump.max_queued);
    api_read_string(L, arg, "ca_file", &o->request.ca_file);
    api_read_string(L, arg, "proxy", &o->request.proxy);
    read_limits(L, arg, &o->request.limits);
}

static bool is_method(const char *s)
{
    size_t n = strlen(s);
    return n <= 16 && is_token(s, n);
}

void net_submit_options(lua_State *L, int arg, NetOptions *o)
{
    Request *r = &o->request;
    luaL_checktype(L, arg, LUA_TTABLE);
    api_read_string(L, arg, "url", &r->url);
    if (r->url == NULL)
        luaL_error(L, "net.submit: url must be a string (got nil)");
    api_read_string(L, arg, "method", &r->method);
    if (r->method != NULL && !is_method(r->method))
        luaL_error(L, "net.submit: method is not the name of a method");
    api_read_string(L, arg, "ca_file", &r->ca_file);
    api_read_string(L, arg, "proxy", &r->proxy);
    read_limits(L, arg, &r->limits);
    int body = lua_getfield(L, arg, "body");
    if (body != LUA_TNIL && body != LUA_TSTRING)
        luaL_error(L, "net.submit: body must be a string (got %s)", luaL_typename(L, -1));
    r->body = lua_tolstring(L, -1, &r->body_size);
    const char *stream = NULL;
    api_read_string(L, arg, "stream", &stream);
    r->stream = stream == NULL                  ? SSE_NONE
                : strcmp(stream, "ndjson") == 0 ? SSE_JSON_LINES
                                                : SSE_EVENTS;
    if (r->stream == SSE_EVENTS && strcmp(stream, "sse") != 0)
        luaL_error(L, "net.submit: stream must be \"sse\" or \"ndjson\" (got %s)", stream);
    if (lua_getfield(L, arg, "headers") != LUA_TNIL) {
        push_headers(L, lua_gettop(L));
        r->headers = lua_tolstring(L, -1, &r->headers_size);
    }
}

/* ---- batches ---- */

lua_Integer net_put_events(lua_State *L, int batch, lua_Integer n, const EventList *events)
{
    const char *bytes = events->bytes.data;
    for (size_t i = 0; i < events->count; i++) {
        const StreamEvent *e = &events->list[i];
        if (e->source == 0)
            continue; /* of a cancelled call */
        lua_pushinteger(L, e->source);
        lua_rawseti(L, batch, ++n);
        lua_pushlstring(L, bytes + e->name, e->name_size);
        lua_rawseti(L, batch, ++n);
        lua_pushlstring(L, bytes + e->data, e->data_size);
        lua_rawseti(L, batch, ++n);
    }
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

static void push_result(lua_State *L, const Result *r)
{
    lua_createtable(L, 0, 16);
    api_push_pairs(L, &r->headers, r->header_count, true);
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

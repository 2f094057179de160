/* net_tables.c -- see net_tables.h. */
#include "api/net_tables.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/options.h"

#define FIELD(kind, of, name, min, max)                                                            \
    {                                                                                              \
#name, kind, offsetof(NetOptions, of.name), min, max, NULL                                 \
    }
#define LIMIT(name, min, max) FIELD(OPTION_INTEGER, request.limits, name, min, max)
#define PUMP_LIMIT(name, max) FIELD(OPTION_INTEGER, pump, name, 1, max)
#define STRING(of, name)      FIELD(OPTION_LINE, of, name, 0, 0)

#define MAX_MS    ((lua_Integer)INT32_MAX) /* 24 days; libcurl takes a long */
#define MAX_BYTES ((lua_Integer)1 << 40)
#define MAX_CALLS 65536

#define CALL_FIELDS                                                                                \
    LIMIT(timeout_ms, 1, MAX_MS), LIMIT(connect_timeout_ms, 1, MAX_MS),                            \
        LIMIT(idle_timeout_ms, 1, MAX_MS), LIMIT(max_body_bytes, 1, MAX_BYTES),                    \
        LIMIT(max_line_bytes, 1, MAX_BYTES), LIMIT(max_event_bytes, 1, MAX_BYTES),                 \
        LIMIT(max_header_bytes, 1, MAX_BYTES), LIMIT(max_redirects, 0, 100),                       \
        FIELD(OPTION_BOOLEAN, request.limits, cross_host_redirects, 0, 0),                         \
        FIELD(OPTION_BOOLEAN, request.limits, public_only, 0, 0)

static const Option open_fields[] = {
    PUMP_LIMIT(max_in_flight_per_host, MAX_CALLS),
    PUMP_LIMIT(max_total, MAX_CALLS),
    PUMP_LIMIT(max_queued, MAX_BYTES),
    STRING(pump, user_agent),
    STRING(pump, ca_file),
    STRING(pump, proxy),
    CALL_FIELDS,
    {0},
};

static const Option submit_fields[] = {
    STRING(request, url),
    STRING(request, method),
    {.name = "headers", .kind = OPTION_OTHER},
    {.name = "body", .kind = OPTION_OTHER},
    {.name = "stream", .kind = OPTION_OTHER},
    STRING(request, ca_file),
    STRING(request, proxy),
    CALL_FIELDS,
    {0},
};

static const Option reader_fields[] = {
    LIMIT(max_line_bytes, 1, MAX_BYTES),
    LIMIT(max_event_bytes, 1, MAX_BYTES),
    {0},
};

SseFormat net_stream_format(lua_State *L, int index, const char *where, const char *name)
{
    const char *s = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : "";
    if (strcmp(s, "sse") == 0)
        return SSE_EVENTS;
    if (strcmp(s, "ndjson") != 0)
        luaL_error(L, "%s: %s must be \"sse\" or \"ndjson\" (got %s)", where, name,
                   *s != '\0' ? s : luaL_typename(L, index));
    return SSE_JSON_LINES;
}

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

/* Appends "name: value" NUL. To libcurl "name;" is a header without a value. */
static bool put_header(Buffer *b, const Alloc *a, const char *name, size_t name_size,
                       const char *value, size_t size)
{
    return buffer_append(b, a, name, name_size) &&
           buffer_append(b, a, size > 0 ? ": " : ";", size > 0 ? 2 : 1) &&
           buffer_append(b, a, value, size) && buffer_append(b, a, "", 1);
}

enum { NUMBER_SIZE = 48 };

/* The string or number on top of the stack. Converting it in place could run the collector, and a
 * finalizer could remove strings from the table. */
static const char *header_text(lua_State *L, char digits[NUMBER_SIZE], size_t *size)
{
    if (lua_type(L, -1) == LUA_TSTRING)
        return lua_tolstring(L, -1, size);
    int n = lua_isinteger(L, -1)
                ? snprintf(digits, NUMBER_SIZE, LUA_INTEGER_FMT, lua_tointeger(L, -1))
                : snprintf(digits, NUMBER_SIZE, "%.14g", lua_tonumber(L, -1));
    *size = (size_t)n;
    return digits;
}

/* The table at `index`: names to strings or numbers. Errors do not show values: they may be keys.
 */
static bool read_headers(lua_State *L, int index, const char *where, Buffer *b, const Alloc *a)
{
    if (!lua_istable(L, index))
        luaL_error(L, "%s: opts.headers must be a table (got %s)", where, luaL_typename(L, index));
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        size_t name_size = 0, size;
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &name_size) : NULL;
        if (name == NULL || !is_token(name, name_size))
            luaL_error(L, "%s: opts.headers has an invalid header name", where);
        if (lua_type(L, -1) != LUA_TSTRING && lua_type(L, -1) != LUA_TNUMBER)
            luaL_error(L, "%s: opts.headers[\"%s\"] must be a string or a number (got %s)", where,
                       name, luaL_typename(L, -1));
        char digits[NUMBER_SIZE];
        const char *value = header_text(L, digits, &size);
        if (!is_header_value(value, size))
            luaL_error(L, "%s: opts.headers[\"%s\"] must not contain a line break or NUL", where,
                       name);
        if (!put_header(b, a, name, name_size, value, size))
            return false;
    }
    return true;
}

/* ---- whole tables ---- */

void net_open_options(lua_State *L, int arg, NetOptions *o)
{
    *o = (NetOptions){
        .pump = {.max_in_flight_per_host = 64,
                 .max_total = 256,
                 .max_queued = 100000,
                 .user_agent = "ponder/" PONDER_VERSION},
        .request = {.limits = net_default_limits},
    };
    options_read(L, arg, "net.open", open_fields, o);
}

void net_reader_options(lua_State *L, int arg, NetOptions *o)
{
    *o = (NetOptions){.request = {.limits = net_default_limits}};
    options_read(L, arg, "net.reader", reader_fields, o);
}

static bool is_method(const char *s)
{
    size_t n = strlen(s);
    return n <= 16 && is_token(s, n);
}

bool net_submit_options(lua_State *L, int arg, NetOptions *o, Buffer *headers, const Alloc *a)
{
    Request *r = &o->request;
    headers->size = 0;
    options_read(L, arg, "net.submit", submit_fields, o);
    if (r->url == NULL)
        luaL_error(L, "net.submit: opts.url must be a string (got nil)");
    if (r->method != NULL && !is_method(r->method))
        luaL_error(L, "net.submit: opts.method is not the name of a method");
    int body = lua_getfield(L, arg, "body");
    if (body != LUA_TNIL && body != LUA_TSTRING)
        luaL_error(L, "net.submit: opts.body must be a string (got %s)", options_describe(L, -1));
    r->body = lua_tolstring(L, -1, &r->body_size);
    if (lua_getfield(L, arg, "stream") != LUA_TNIL)
        r->stream = net_stream_format(L, -1, "net.submit", "opts.stream");
    if (lua_getfield(L, arg, "headers") != LUA_TNIL &&
        !read_headers(L, lua_gettop(L), "net.submit", headers, a))
        return false;
    r->headers = headers->data;
    r->headers_size = headers->size;
    return true;
}

/* ---- batches ---- */

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

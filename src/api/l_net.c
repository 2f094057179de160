/* l_net.c -- ponder.core.net: pumps. Described in lua/ponder/meta/net.lua. */
#include <curl/curl.h>
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "loop/loop.h"
#include "net/pump.h"

#define PUMP "ponder.net.Pump"

enum { CA_FILE = 1, PROXY }; /* user values of a pump: defaults of a call, or nil */

typedef struct LuaPump {
    Box box;
    CallLimits limits; /* defaults of a call */
} LuaPump;

/* ---- options: mistakes raise; strings stay on the stack ---- */

typedef struct NetOptions {
    PumpOptions pump;
    Request request;
} NetOptions;

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

/* Defaults, and the options of net.open in the table at `arg` (or nil). */
static void read_open_options(lua_State *L, int arg, NetOptions *o)
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

/* Options of a call, over the defaults in `o`. */
static void read_call_options(lua_State *L, int arg, NetOptions *o)
{
    Request *r = &o->request;
    luaL_checktype(L, arg, LUA_TTABLE);
    api_read_string(L, arg, "url", &r->url);
    if (r->url == NULL)
        luaL_error(L, "net.submit: url must be a string (got nil)");
    api_read_string(L, arg, "method", &r->method);
    if (r->method != NULL && (strlen(r->method) > 16 || !is_token(r->method, strlen(r->method))))
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

/* ---- pumps ---- */

static Pump *to_pump(lua_State *L)
{
    return api_check_box(L, PUMP, "pump");
}

static int push_failure(lua_State *L, PumpStatus status)
{
    static const struct {
        const char *message, *code;
    } failures[] = {
        [PUMP_OK] = {"", ""},
        [PUMP_NO_MEMORY] = {"not enough memory for the call", "NO_MEMORY"},
        [PUMP_BAD_URL] = {"url is not a valid http or https URL", "BAD_REQUEST"},
        [PUMP_QUEUE_FULL] = {"max_queued calls are already waiting", "QUEUE_FULL"},
        [PUMP_CURL] = {"libcurl could not start", "SERVER"},
        [PUMP_NO_LOOP] = {"cannot open the event loop: ", "SERVER"},
    };
    int error = status == PUMP_NO_LOOP ? errno : 0;
    const char *message =
        lua_pushfstring(L, "%s%s%s", failures[status].message, error != 0 ? strerror(error) : "",
                        loop_descriptor_hint(error));
    return api_fail(L, message, failures[status].code);
}

static void close_pump(void *pump)
{
    pump_close(pump);
}

/* opts (table or nil) -> Pump */
static int net_open(lua_State *L)
{
    lua_settop(L, 1);
    LuaPump *p = api_new_box(L, PUMP, sizeof *p, close_pump);
    Alloc alloc = api_alloc(L);
    NetOptions o;
    Pump *pump;
    read_open_options(L, 1, &o);
    p->limits = o.request.limits;
    lua_pushstring(L, o.request.ca_file);
    lua_setiuservalue(L, 2, CA_FILE);
    lua_pushstring(L, o.request.proxy);
    lua_setiuservalue(L, 2, PROXY);
    PumpStatus status = pump_open(&alloc, &o.pump, &pump);
    if (status != PUMP_OK)
        return push_failure(L, status);
    p->box.held = pump;
    lua_settop(L, 2);
    return 1;
}

/* self, opts -> id | nil, message, code */
static int pump_l_submit(lua_State *L)
{
    int64_t id;
    offline_refuse(L, "net.submit");
    lua_settop(L, 2);
    to_pump(L);
    NetOptions o = {.request.limits = ((LuaPump *)lua_touserdata(L, 1))->limits};
    lua_getiuservalue(L, 1, CA_FILE);
    lua_getiuservalue(L, 1, PROXY);
    o.request.ca_file = lua_tostring(L, 3);
    o.request.proxy = lua_tostring(L, 4);
    read_call_options(L, 2, &o);
    PumpStatus status = pump_submit(to_pump(L), &o.request, &id); /* if no finalizer closed it */
    if (status == PUMP_NO_MEMORY) { /* retry after a collection, as Lua does */
        lua_gc(L, LUA_GCCOLLECT);
        status = pump_submit(to_pump(L), &o.request, &id);
    }
    if (status != PUMP_OK)
        return push_failure(L, status);
    lua_pushinteger(L, id);
    return 1;
}

/* self, id -> boolean */
static int pump_l_cancel(lua_State *L)
{
    lua_pushboolean(L, pump_cancel(to_pump(L), luaL_checkinteger(L, 2)));
    return 1;
}

/* self, url, max_in_flight -> true | nil, message, code */
static int pump_l_limit(lua_State *L)
{
    const char *url = luaL_checkstring(L, 2);
    lua_Integer limit = luaL_checkinteger(L, 3);
    luaL_argcheck(L, limit >= 1, 3, "must be >= 1");
    PumpStatus status = pump_limit(to_pump(L), url, limit);
    if (status != PUMP_OK)
        return push_failure(L, status);
    lua_pushboolean(L, 1);
    return 1;
}

static int pump_l_pending(lua_State *L)
{
    lua_pushinteger(L, pump_pending(to_pump(L)));
    return 1;
}

static int pump_l_stats(lua_State *L)
{
    PumpStats s = pump_stats(to_pump(L));
    lua_createtable(L, 0, 7);
    api_set_integer(L, "queued", s.queued);
    api_set_integer(L, "in_flight", s.in_flight);
    api_set_integer(L, "submitted", s.submitted);
    api_set_integer(L, "completed", s.completed);
    api_set_integer(L, "cancelled", s.cancelled);
    api_set_integer(L, "connections", s.connections);
    api_set_integer(L, "hosts", s.hosts);
    return 1;
}

/* ---- batches: each function takes the number of filled slots and returns the new one ---- */

/* Appends events, each as source, name, data. */
static lua_Integer put_events(lua_State *L, int batch, lua_Integer n, const EventList *events)
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

/* Clears the slots after the first `n`, which an earlier batch may have filled. */
static void clear_rest(lua_State *L, int batch, lua_Integer n)
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

/* Appends the results of ended calls, each as id, false, result, and drops them. */
static lua_Integer put_results(lua_State *L, int batch, lua_Integer n, Pump *pump)
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

static int take_batch(lua_State *L)
{
    Pump *p = api_held(L);
    if (pump_take(p) != PUMP_OK)
        return luaL_error(L, "not enough memory for replies");
    pump_resume(p);
    lua_Integer n = put_events(L, 2, 0, pump_events(p));
    n = put_results(L, 2, n, p);
    clear_rest(L, 2, n);
    lua_pushinteger(L, n);
    return 1;
}

/* self, batch -> n: fills the list with new events and results */
static int pump_l_take(lua_State *L)
{
    to_pump(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    return api_use_box(L, 1, take_batch);
}

/* text, a date as in HTTP -> seconds since 1970, or nil */
static int net_parse_date(lua_State *L)
{
    time_t at = curl_getdate(luaL_checkstring(L, 1), NULL);
    if (at == -1)
        return 0;
    lua_pushinteger(L, (lua_Integer)at);
    return 1;
}

/* ---- the module ---- */

static const luaL_Reg pump_methods[] = {
    {"submit", pump_l_submit},   {"cancel", pump_l_cancel}, {"limit", pump_l_limit},
    {"pending", pump_l_pending}, {"stats", pump_l_stats},   {"take", pump_l_take},
    {"port", api_port},          {"close", api_close},      {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"open", net_open}, {"parse_date", net_parse_date}, {NULL, NULL}};

PONDER_MODULE(luaopen_ponder_core_net)
{
    api_new_class(L, PUMP, pump_methods);
    luaL_newlib(L, functions);
    api_set_string(L, "curl_version", net_curl_version());
    return 1;
}

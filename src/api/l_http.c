/* l_http.c -- ponder.core.http: an HTTP server for Lua. Described in lua/ponder/meta/http.lua. */
#include <string.h>

#include "api/api.h"
#include "http/server.h"

#define SERVER "ponder.http.Server"

enum { PAIRS = 8 /* headers of a usual request */ };

static HttpServer *to_server(lua_State *L)
{
    return api_check_box(L, SERVER, "server");
}

/* ---- opening ---- */

static HttpOptions read_options(lua_State *L, int arg)
{
    const int64_t many = (int64_t)1 << 40;
    HttpOptions o = {
        .max_connections = 10000,
        .max_connections_per_address = 10000,
        .max_header_bytes = 16384,
        .max_body_bytes = 16 << 20,
        .max_total_body_bytes = 256 << 20,
        .max_unsent_bytes = 4 << 20,
        .header_timeout_ms = 10000,
        .body_timeout_ms = 60000,
        .idle_timeout_ms = 75000,
    };
    api_read_integer(L, arg, "max_connections", 1, INT32_MAX, &o.max_connections);
    api_read_integer(L, arg, "max_connections_per_address", 1, INT32_MAX,
                     &o.max_connections_per_address);
    api_read_integer(L, arg, "max_header_bytes", 1024, many, &o.max_header_bytes);
    api_read_integer(L, arg, "max_body_bytes", 0, many, &o.max_body_bytes);
    api_read_integer(L, arg, "max_total_body_bytes", 0, many, &o.max_total_body_bytes);
    api_read_integer(L, arg, "max_unsent_bytes", 1024, many, &o.max_unsent_bytes);
    api_read_integer(L, arg, "header_timeout_ms", 1, many, &o.header_timeout_ms);
    api_read_integer(L, arg, "body_timeout_ms", 1, many, &o.body_timeout_ms);
    api_read_integer(L, arg, "idle_timeout_ms", 1, many, &o.idle_timeout_ms);
    api_read_string(L, arg, "keys", &o.keys);
    return o;
}

static void close_server(void *server)
{
    http_close(server);
}

/* opts -> Server, address; or nil, message. */
static int http_l_listen(lua_State *L)
{
    char shown[300], error[200];
    offline_refuse(L, "http.listen");
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    HttpOptions options = read_options(L, 1);
    lua_getfield(L, 1, "address");
    const char *address = luaL_checkstring(L, -1);
    Box *box = api_new_box(L, SERVER, sizeof *box, close_server);
    Alloc alloc = api_alloc(L);
    options.listen_fd = http_listen(address, shown, error);
    if (options.listen_fd < 0)
        return api_fail(L, error, NULL);
    box->held = http_open(&alloc, &options);
    if (box->held == NULL)
        return api_fail(L, "the server could not start: not enough memory or descriptors", NULL);
    lua_pushstring(L, shown);
    return 2;
}

static int server_stop_listening(lua_State *L)
{
    http_stop_listening(to_server(L));
    return 0;
}

/* ---- receiving ---- */

static void push_request(lua_State *L, const HttpRequest *r)
{
    lua_createtable(L, 0, 16); /* ponder.serve adds as many fields */
    api_set_integer(L, "id", r->id);
    api_set_string(L, "method", r->method);
    api_set_string(L, "path", r->path);
    api_push_pairs(L, r->query, PAIRS, false);
    lua_setfield(L, -2, "query");
    api_push_pairs(L, r->headers, PAIRS, false);
    lua_setfield(L, -2, "headers");
    lua_pushlstring(L, r->body->size > 0 ? r->body->data : "", r->body->size);
    lua_setfield(L, -2, "body");
    api_set_string(L, "address", r->address);
    if (r->problem != NULL)
        api_set_string(L, "problem", r->problem);
    if (r->key != 0)
        api_set_integer(L, "key", r->key);
}

static int take_request(lua_State *L)
{
    HttpServer *s = api_held(L);
    const HttpRequest *r = http_first_request(s);
    if (r == NULL)
        return 0;
    push_request(L, r);
    http_drop_request(s);
    return 1;
}

/* server:take() -> the next request, or nil. */
static int server_take(lua_State *L)
{
    to_server(L);
    return api_use_box(L, 1, take_request);
}

/* server:take_news() -> the id of a request whose client has disconnected, true; or of a stream
 * that has room again, false; or nil. */
static int server_take_news(lua_State *L)
{
    bool is_gone;
    int64_t id = http_take_news(to_server(L), &is_gone);
    if (id == 0)
        return 0;
    lua_pushinteger(L, id);
    lua_pushboolean(L, is_gone);
    return 2;
}

/* ---- answering ---- */

/* Pushes the headers in the table at `index` as one string of "name NUL value NUL" pairs. */
static const char *pack_headers(lua_State *L, int index, size_t *size)
{
    luaL_Buffer b;
    if (lua_isnoneornil(L, index)) {
        *size = 0;
        return "";
    }
    luaL_checktype(L, index, LUA_TTABLE);
    lua_Integer n = luaL_len(L, index);
    luaL_argcheck(L, n % 2 == 0, index, "must alternate names and values");
    luaL_buffinit(L, &b);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_geti(L, index, i);
        const char *text = lua_tostring(L, -1);
        if (text == NULL || strpbrk(text, "\r\n") != NULL)
            luaL_argerror(L, index, "headers must be strings without line breaks");
        luaL_addvalue(&b);
        luaL_addchar(&b, '\0');
    }
    luaL_pushresult(&b);
    return lua_tolstring(L, -1, size);
}

static int checked_status(lua_State *L)
{
    lua_Integer status = luaL_checkinteger(L, 3);
    luaL_argcheck(L, status >= 200 && status <= 599, 3, "must be an HTTP status from 200 to 599");
    return (int)status;
}

/* server:respond(id, status, headers, body) -> whether the request was still waiting for it */
static int server_respond(lua_State *L)
{
    size_t size, headers_size;
    lua_Integer id = luaL_checkinteger(L, 2);
    int status = checked_status(L);
    const char *body = luaL_optlstring(L, 5, "", &size);
    const char *headers = pack_headers(L, 4, &headers_size);
    bool waited = http_respond(to_server(L), id, status, headers, headers_size, body, size);
    lua_pushboolean(L, waited);
    return 1;
}

static int server_begin(lua_State *L)
{
    size_t headers_size;
    lua_Integer id = luaL_checkinteger(L, 2);
    int status = checked_status(L);
    const char *headers = pack_headers(L, 4, &headers_size);
    lua_pushboolean(L, http_begin(to_server(L), id, status, headers, headers_size));
    return 1;
}

/* server:write(id, text) -> whether it was written; nil: there is no room for it now */
static int server_write(lua_State *L)
{
    size_t size;
    lua_Integer id = luaL_checkinteger(L, 2);
    const char *text = luaL_checklstring(L, 3, &size);
    HttpWritten written = http_write(to_server(L), id, text, size);
    if (written == HTTP_FULL)
        lua_pushnil(L);
    else
        lua_pushboolean(L, written == HTTP_WRITTEN);
    return 1;
}

static int server_finish(lua_State *L)
{
    lua_pushboolean(L, http_end(to_server(L), luaL_checkinteger(L, 2)));
    return 1;
}

static int server_abort(lua_State *L)
{
    http_abort(to_server(L), luaL_checkinteger(L, 2));
    return 0;
}

static int server_stats(lua_State *L)
{
    HttpStats stats = http_stats(to_server(L));
    lua_createtable(L, 0, 6);
    api_set_integer(L, "body_bytes", stats.body_bytes);
    api_set_integer(L, "unsent_bytes", stats.unsent_bytes);
    api_set_integer(L, "connections", stats.connections);
    api_set_integer(L, "requests", stats.requests);
    api_set_integer(L, "running", stats.running);
    api_set_integer(L, "gone", stats.gone);
    return 1;
}

PONDER_MODULE(luaopen_ponder_core_http)
{
    static const luaL_Reg methods[] = {
        {"abort", server_abort}, {"begin", server_begin},
        {"close", api_close},    {"finish", server_finish},
        {"port", api_port},      {"respond", server_respond},
        {"stats", server_stats}, {"stop_listening", server_stop_listening},
        {"take", server_take},   {"take_news", server_take_news},
        {"write", server_write}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"listen", http_l_listen}, {NULL, NULL}};
    api_new_class(L, SERVER, methods);
    luaL_newlib(L, functions);
    return 1;
}

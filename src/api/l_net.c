/* l_net.c -- ponder.core.net: pumps. Described in lua/ponder/meta/net.lua. */
#include <curl/curl.h>
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/net_tables.h"
#include "api/offline.h"
#include "loop/loop.h"
#include "net/pump.h"

#define PUMP "ponder.net.Pump"

enum { CA_FILE = 1, PROXY }; /* user values of a pump: defaults of a call, or nil */

typedef struct LuaPump {
    Box box;
    Pump *pump;
    CallLimits limits; /* defaults of a call */
} LuaPump;

/* ---- pumps ---- */

static LuaPump *to_pump(lua_State *L, const char *where)
{
    LuaPump *p = luaL_testudata(L, 1, PUMP);
    if (p == NULL)
        luaL_error(L, "%s: self must be a pump (got %s)", where, luaL_typename(L, 1));
    const char *problem = api_box_problem(&p->box);
    if (problem != NULL)
        luaL_error(L, "%s: the pump %s", where, problem);
    return p;
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

static void close_pump(void *held)
{
    pump_close(((LuaPump *)held)->pump);
}

/* opts (table or nil) -> Pump */
static int net_open(lua_State *L)
{
    lua_settop(L, 1);
    LuaPump *p = api_new_box(L, PUMP, sizeof *p, close_pump);
    Alloc alloc = api_alloc(L);
    NetOptions o;
    net_open_options(L, 1, &o);
    p->limits = o.request.limits;
    lua_pushstring(L, o.request.ca_file);
    lua_setiuservalue(L, 2, CA_FILE);
    lua_pushstring(L, o.request.proxy);
    lua_setiuservalue(L, 2, PROXY);
    PumpStatus status = pump_open(&alloc, &o.pump, &p->pump);
    if (status != PUMP_OK)
        return push_failure(L, status);
    p->box.held = p;
    lua_settop(L, 2);
    return 1;
}

/* self, opts -> id | nil, message, code */
static int pump_l_submit(lua_State *L)
{
    int64_t id;
    offline_refuse(L, "net.submit");
    lua_settop(L, 2);
    NetOptions o = {.request.limits = to_pump(L, "net.submit")->limits};
    lua_getiuservalue(L, 1, CA_FILE);
    lua_getiuservalue(L, 1, PROXY);
    o.request.ca_file = lua_tostring(L, 3);
    o.request.proxy = lua_tostring(L, 4);
    net_submit_options(L, 2, &o);
    LuaPump *p = to_pump(L, "net.submit"); /* a finalizer may have closed it */
    PumpStatus status = pump_submit(p->pump, &o.request, &id);
    if (status == PUMP_NO_MEMORY) { /* retry after a collection, as Lua does */
        lua_gc(L, LUA_GCCOLLECT);
        status = pump_submit(to_pump(L, "net.submit")->pump, &o.request, &id);
    }
    if (status != PUMP_OK)
        return push_failure(L, status);
    lua_pushinteger(L, id);
    return 1;
}

/* self, id -> boolean */
static int pump_l_cancel(lua_State *L)
{
    LuaPump *p = to_pump(L, "net.cancel");
    int ok;
    lua_Integer id = lua_tointegerx(L, 2, &ok);
    if (!ok)
        return luaL_error(L, "net.cancel: id must be an integer (got %s)", luaL_typename(L, 2));
    lua_pushboolean(L, pump_cancel(p->pump, id));
    return 1;
}

/* self, url, max_in_flight -> true | nil, message, code */
static int pump_l_limit(lua_State *L)
{
    LuaPump *p = to_pump(L, "net.limit");
    if (lua_type(L, 2) != LUA_TSTRING)
        return luaL_error(L, "net.limit: url must be a string (got %s)", luaL_typename(L, 2));
    int ok;
    lua_Integer limit = lua_tointegerx(L, 3, &ok);
    if (!ok || limit < 1)
        return luaL_error(L, "net.limit: max_in_flight must be an integer >= 1 (got %s)",
                          luaL_tolstring(L, 3, NULL));
    PumpStatus status = pump_limit(p->pump, lua_tostring(L, 2), limit);
    if (status != PUMP_OK)
        return push_failure(L, status);
    lua_pushboolean(L, 1);
    return 1;
}

static int pump_l_pending(lua_State *L)
{
    lua_pushinteger(L, pump_pending(to_pump(L, "net.pending")->pump));
    return 1;
}

static int pump_l_stats(lua_State *L)
{
    PumpStats s = pump_stats(to_pump(L, "net.stats")->pump);
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

/* ---- batches ---- */

/* self, batch -> n */
static int hand_over(lua_State *L)
{
    const LuaPump *p = api_held(L);
    int batch = lua_gettop(L);
    lua_Integer n = net_put_events(L, batch, 0, pump_events(p->pump));
    n = net_put_results(L, batch, n, p->pump);
    net_clear_rest(L, batch, n);
    lua_pushinteger(L, n);
    return 1;
}

/* self, batch -> n: fills the list with new events and results */
static int pump_l_take(lua_State *L)
{
    LuaPump *p = to_pump(L, "net.take");
    if (!lua_istable(L, 2))
        luaL_error(L, "net.take: batch must be a table (got %s)", luaL_typename(L, 2));
    if (p->box.uses > 0)
        luaL_error(L, "net.take: a batch is being delivered");
    if (pump_take(p->pump) != PUMP_OK)
        return luaL_error(L, "net.take: not enough memory");
    pump_resume(p->pump);
    lua_settop(L, 2);
    return api_use_box(L, 1, hand_over);
}

/* self -> the number of its port */
static int pump_l_port(lua_State *L)
{
    const LoopPort *port = (const LoopPort *)to_pump(L, "net.port")->pump;
    lua_pushinteger(L, port->number);
    return 1;
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
    {"port", pump_l_port},       {"close", api_close},      {NULL, NULL},
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

/*
 * l_loop.c -- ponder.core.loop: the event loop of the process for the scheduler of ponder.task.
 *
 * Lua hears of what has come as numbers of ports; described in lua/ponder/meta/loop.lua.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "api/api.h"
#include "api/l_task.h"
#include "loop/loop.h"

#define PORT   "ponder.loop.Port"
#define SIGNAL "ponder.loop.Signal"

enum { BATCH = 256 }; /* ports that one wait gives at most */

static int loop_l_now(lua_State *L)
{
    lua_pushnumber(L, loop_now());
    return 1;
}

/* Milliseconds: the seconds that are argument 1; < 0: no limit. */
static double wait_time(lua_State *L)
{
    double seconds = luaL_optnumber(L, 1, HUGE_VAL);
    if (!(seconds > 0) || task_stop_is_pending()) /* NaN too */
        return 0;
    return seconds < HUGE_VAL ? seconds * 1e3 : -1;
}

static int loop_l_wait(lua_State *L)
{
    int64_t numbers[BATCH];
    double ms = wait_time(L);
    int error = loop_wait(ms);
    if (error != 0)
        return luaL_error(L, "the event loop cannot open: %s%s", strerror(error),
                          api_descriptor_hint(error));
    size_t n = lua_istable(L, 2) ? loop_take(numbers, BATCH) : 0;
    for (size_t i = 0; i < n; i++) {
        lua_pushinteger(L, numbers[i]);
        lua_rawseti(L, 2, (lua_Integer)i + 1);
    }
    lua_pushinteger(L, (lua_Integer)n);
    return 1;
}

static int loop_l_stats(lua_State *L)
{
    LoopStats s = loop_stats();
    lua_createtable(L, 0, 4);
    lua_pushinteger(L, s.waits);
    lua_setfield(L, -2, "waits");
    lua_pushinteger(L, s.callbacks);
    lua_setfield(L, -2, "callbacks");
    lua_pushinteger(L, s.posts);
    lua_setfield(L, -2, "posts");
    lua_pushinteger(L, s.handles);
    lua_setfield(L, -2, "handles");
    return 1;
}

static int loop_l_port(lua_State *L)
{
    LoopPort *p = lua_newuserdatauv(L, sizeof *p, 0);
    loop_port_open(p);
    luaL_setmetatable(L, PORT);
    return 1;
}

static int port_number(lua_State *L)
{
    const LoopPort *p = luaL_checkudata(L, 1, PORT);
    lua_pushinteger(L, p->number);
    return 1;
}

static int port_post(lua_State *L)
{
    loop_post(luaL_checkudata(L, 1, PORT));
    return 0;
}

static int port_close(lua_State *L)
{
    loop_port_close(luaL_checkudata(L, 1, PORT));
    return 0;
}

/* ---- signals ---- */

/* A port that a signal posts. */
typedef struct SignalPort {
    LoopPort port;
    LoopSignal *signal; /* NULL: closed */
} SignalPort;

static void on_signal(void *port)
{
    loop_post(&((SignalPort *)port)->port);
}

static int loop_l_signal(lua_State *L)
{
    static const char *const names[] = {"interrupt", "terminate", "hangup", NULL};
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    int number = numbers[luaL_checkoption(L, 1, NULL, names)];
    SignalPort *s = lua_newuserdatauv(L, sizeof *s, 0);
    *s = (SignalPort){.signal = NULL};
    loop_port_open(&s->port);
    luaL_setmetatable(L, SIGNAL);
    s->signal = loop_signal(number, on_signal, s);
    if (s->signal == NULL)
        return luaL_error(L, "loop.signal: %s%s", strerror(errno), api_descriptor_hint(errno));
    return 1;
}

static int signal_number(lua_State *L)
{
    const SignalPort *s = luaL_checkudata(L, 1, SIGNAL);
    lua_pushinteger(L, s->port.number);
    return 1;
}

static int signal_close(lua_State *L)
{
    SignalPort *s = luaL_checkudata(L, 1, SIGNAL);
    loop_signal_end(s->signal);
    s->signal = NULL;
    loop_port_close(&s->port);
    return 0;
}

PONDER_MODULE int luaopen_ponder_core_loop(lua_State *L);

PONDER_MODULE int luaopen_ponder_core_loop(lua_State *L)
{
    static const luaL_Reg methods[] = {{"number", port_number}, {"post", port_post}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"now", loop_l_now},       {"port", loop_l_port},
                                         {"signal", loop_l_signal}, {"stats", loop_l_stats},
                                         {"wait", loop_l_wait},     {NULL, NULL}};
    static const luaL_Reg signal_methods[] = {
        {"number", signal_number}, {"close", signal_close}, {NULL, NULL}};
    api_new_class(L, PORT, methods, port_close);
    api_new_class(L, SIGNAL, signal_methods, signal_close);
    luaL_newlib(L, functions);
    return 1;
}

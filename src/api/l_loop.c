/*
 * l_loop.c -- ponder.core.loop: the event loop for the scheduler of ponder.task. Lua gets events as
 * numbers of ports. Described in lua/ponder/meta/loop.lua.
 */
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "api/api.h"
#include "api/task_stop.h"
#include "loop/loop.h"

#define PORT "ponder.loop.Port"

enum { BATCH = 256 }; /* ports that one wait returns at most */

static int loop_l_now(lua_State *L)
{
    lua_pushnumber(L, loop_now());
    return 1;
}

/* Argument 1, in seconds, as milliseconds; < 0: no limit. */
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
        return luaL_error(L, "cannot open the event loop: %s%s", strerror(error),
                          loop_descriptor_hint(error));
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
    api_set_integer(L, "waits", s.waits);
    api_set_integer(L, "callbacks", s.callbacks);
    api_set_integer(L, "posts", s.posts);
    api_set_integer(L, "handles", s.handles);
    return 1;
}

/* ---- ports ---- */

/* That of a signal or a directory is posted on each of its events. */
typedef struct Port {
    Box box;
    LoopPort port;
    LoopHandle *source; /* NULL: none */
} Port;

static void close_port(void *port)
{
    Port *p = port;
    loop_end(p->source);
    loop_unpost(&p->port);
}

static Port *new_port(lua_State *L)
{
    Port *p = api_new_box(L, PORT, sizeof *p, close_port);
    loop_port_open(&p->port);
    p->box.held = p;
    return p;
}

static int loop_l_port(lua_State *L)
{
    new_port(L);
    return 1;
}

/* Gives free memory back to the system: malloc itself does so only at the end of the heap. */
static int loop_l_trim(lua_State *L)
{
    (void)L;
    malloc_trim(0);
    return 0;
}

static void on_event(void *port)
{
    loop_post(&((Port *)port)->port);
}

static int loop_l_signal(lua_State *L)
{
    static const char *const names[] = {"interrupt", "terminate", "hangup", "continue", NULL};
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGCONT};
    int number = numbers[luaL_checkoption(L, 1, NULL, names)];
    Port *p = new_port(L);
    p->source = loop_signal(number, on_event, p);
    if (p->source == NULL)
        return luaL_error(L, "loop.signal: %s%s", strerror(errno), loop_descriptor_hint(errno));
    return 1;
}

static int loop_l_directory(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    Port *p = new_port(L);
    p->source = loop_directory(path, on_event, p);
    if (p->source != NULL)
        return 1;
    return api_fail(L,
                    lua_pushfstring(L, "%s: cannot watch it: %s%s", path, strerror(errno),
                                    loop_descriptor_hint(errno)),
                    NULL);
}

static int port_number(lua_State *L)
{
    const Port *p = api_check_box(L, PORT, "port");
    lua_pushinteger(L, p->port.number);
    return 1;
}

static int port_post(lua_State *L)
{
    Port *p = api_check_box(L, PORT, "port");
    loop_post(&p->port);
    return 0;
}

PONDER_MODULE(luaopen_ponder_core_loop)
{
    static const luaL_Reg methods[] = {
        {"close", api_close}, {"number", port_number}, {"post", port_post}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"directory", loop_l_directory}, {"now", loop_l_now},
                                         {"port", loop_l_port},           {"signal", loop_l_signal},
                                         {"stats", loop_l_stats},         {"trim", loop_l_trim},
                                         {"wait", loop_l_wait},           {NULL, NULL}};
    api_new_class(L, PORT, methods);
    luaL_newlib(L, functions);
    return 1;
}

/*
 * l_loop.c -- ponder.core.loop: the event loop for the scheduler of ponder.task. Lua gets events as
 * numbers of ports. Described in lua/ponder/meta/loop.lua.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "api/api.h"
#include "api/task_stop.h"
#include "loop/loop.h"
#include "loop/system.h"

#define PORT "ponder.loop.Port"

enum { BATCH = 256 }; /* ports that one wait returns at most */

static int loop_l_now(lua_State *L)
{
    lua_pushnumber(L, loop_now());
    return 1;
}

static int loop_l_wait(lua_State *L)
{
    int64_t numbers[BATCH];
    double seconds = luaL_optnumber(L, 1, HUGE_VAL);
    if (!(seconds > 0) || task_stop_is_pending()) /* NaN too */
        seconds = 0;
    int error = loop_wait(seconds < HUGE_VAL ? seconds * 1e3 : -1);
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
typedef struct Source {
    LoopPort port;
    LoopHandle *handle; /* NULL: none */
} Source;

typedef struct LuaPort {
    Box box;
    Source source;
} LuaPort;

static void close_port(void *source)
{
    Source *s = source;
    loop_end(s->handle);
    loop_unpost(&s->port);
}

static Source *new_port(lua_State *L)
{
    LuaPort *p = api_new_box(L, PORT, sizeof *p, close_port);
    loop_port_open(&p->source.port);
    return p->box.held = &p->source;
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
    system_trim();
    return 0;
}

static void on_event(void *source)
{
    loop_post(&((Source *)source)->port);
}

static int loop_l_signal(lua_State *L)
{
    static const char *const names[] = {"interrupt", "terminate", "hangup", "continue", NULL};
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGCONT};
    int number = numbers[luaL_checkoption(L, 1, NULL, names)];
    Source *s = new_port(L);
    s->handle = loop_signal(number, on_event, s);
    if (s->handle == NULL)
        return luaL_error(L, "loop.signal: %s%s", strerror(errno), loop_descriptor_hint(errno));
    return 1;
}

static int loop_l_directory(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    Source *s = new_port(L);
    s->handle = loop_directory(path, on_event, s);
    if (s->handle != NULL)
        return 1;
    return api_fail(L,
                    lua_pushfstring(L, "%s: cannot watch it: %s%s", path, strerror(errno),
                                    loop_descriptor_hint(errno)),
                    NULL);
}

static int port_post(lua_State *L)
{
    loop_post(api_check_box(L, PORT, "port"));
    return 0;
}

PONDER_MODULE(luaopen_ponder_core_loop)
{
    static const luaL_Reg methods[] = {
        {"close", api_close}, {"number", api_port}, {"post", port_post}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"directory", loop_l_directory}, {"now", loop_l_now},
                                         {"port", loop_l_port},           {"signal", loop_l_signal},
                                         {"stats", loop_l_stats},         {"trim", loop_l_trim},
                                         {"wait", loop_l_wait},           {NULL, NULL}};
    api_new_class(L, PORT, methods);
    luaL_newlib(L, functions);
    return 1;
}

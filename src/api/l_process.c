/*
 * l_process.c -- ponder.core.process: child processes, for ponder.process. Described in
 * lua/ponder/meta/process.lua.
 */
#define _GNU_SOURCE /* environ */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "loop/process.h"
#include "loop/system.h"

#define PROCESS "ponder.process.Child"

enum { MAX_STRINGS = 1 << 19 /* Lua's stack takes a million values */ };

static Process *to_process(lua_State *L)
{
    return api_check_box(L, PROCESS, "child");
}

static void drop_process(void *process)
{
    process_drop(process);
}

/* The list of strings at `arg` as an argv, in a userdata that is pushed with the strings: numbers
 * are converted, and finalizers may change the table. */
static char **to_strings(lua_State *L, int arg)
{
    luaL_checktype(L, arg, LUA_TTABLE);
    size_t n = lua_rawlen(L, arg);
    luaL_argcheck(L, n < MAX_STRINGS, arg, "too many");
    luaL_checkstack(L, (int)n + LUA_MINSTACK, NULL);
    char **list = lua_newuserdatauv(L, (n + 1) * sizeof *list, 0);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, arg, (lua_Integer)i + 1);
        list[i] = (char *)(size_t)luaL_checkstring(L, -1); /* exec lacks a const */
    }
    list[n] = NULL;
    return list;
}

/* start(arguments, environment, cwd | nil, max_buffered) -> child | nil, message, code */
static int process_l_start(lua_State *L)
{
    offline_refuse(L, "process.start");
    lua_settop(L, 4);
    ProcessOptions o = {.cwd = luaL_optstring(L, 3, NULL),
                        .max_buffered = (size_t)luaL_checkinteger(L, 4)};
    Box *box = api_new_box(L, PROCESS, sizeof *box, drop_process);
    o.arguments = to_strings(L, 1);
    o.environment = to_strings(L, 2);
    luaL_argcheck(L, o.arguments[0] != NULL, 1, "no program");
    box->held = process_start(&o);
    if (box->held == NULL) {
        int error = errno;
        const char *message = lua_pushfstring(L, "cannot start %s: %s%s", o.arguments[0],
                                              strerror(error), loop_descriptor_hint(error));
        return api_fail(L, message, error == ENOENT ? "NOT_FOUND" : "SPAWN");
    }
    lua_pushvalue(L, 5); /* the box */
    return 1;
}

/* environment() -> {"NAME=value", ...} of this process */
static int process_l_environment(lua_State *L)
{
    lua_newtable(L);
    for (lua_Integer i = 0; environ != NULL && environ[i] != NULL; i++) {
        lua_pushstring(L, environ[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static ProcessStream to_stream(lua_State *L, int arg)
{
    static const char *const names[] = {"stdout", "stderr", NULL};
    return luaL_checkoption(L, arg, NULL, names) == 0 ? PROCESS_STDOUT : PROCESS_STDERR;
}

static int read_output(lua_State *L)
{
    Process *p = api_held(L);
    ProcessStream which = to_stream(L, 2);
    bool ended;
    size_t n;
    const char *bytes = process_output(p, which, &n, &ended);
    if (n == 0 && ended)
        return 0;
    lua_pushlstring(L, bytes, n);
    process_consume(p, which, n);
    return 1;
}

/* child:read(stream) -> new output, or nil after the end */
static int child_read(lua_State *L)
{
    to_process(L);
    return api_use_box(L, 1, read_output);
}

static int read_line(lua_State *L)
{
    Process *p = api_held(L);
    ProcessStream which = to_stream(L, 2);
    bool ended;
    size_t size;
    const char *bytes = process_output(p, which, &size, &ended), *end = memchr(bytes, '\n', size);
    if (end == NULL && (size == 0 || !ended))
        return api_fail(L, ended ? "end" : process_is_full(p, which) ? "long" : "", NULL);
    size_t n = end != NULL ? (size_t)(end - bytes) : size;
    lua_pushlstring(L, bytes, n);
    process_consume(p, which, end != NULL ? n + 1 : n);
    return 1;
}

/* child:line(stream) -> a line without its end | nil, "" (none yet), "end" or "long" */
static int child_line(lua_State *L)
{
    to_process(L);
    return api_use_box(L, 1, read_line);
}

/* child:write(bytes) -> number of unwritten bytes; nil: its input is closed */
static int child_write(lua_State *L)
{
    size_t n;
    const char *bytes = luaL_checklstring(L, 2, &n);
    Process *p = to_process(L);
    if (!process_write(p, bytes, n))
        return luaL_error(L, "not enough memory");
    if (!process_input_is_open(p))
        return 0;
    lua_pushinteger(L, (lua_Integer)process_unwritten(p));
    return 1;
}

static int child_close_input(lua_State *L)
{
    process_close_input(to_process(L));
    return 0;
}

/* child:ended() -> nothing while it runs; status, or nil and the name of the signal */
#define NAMED(signal)                                                                              \
    {                                                                                              \
#signal, signal                                                                            \
    }
static const struct {
    const char *name;
    int number;
} signals[] = {NAMED(SIGHUP),  NAMED(SIGINT),   NAMED(SIGQUIT), NAMED(SIGILL),  NAMED(SIGTRAP),
               NAMED(SIGABRT), NAMED(SIGBUS),   NAMED(SIGFPE),  NAMED(SIGKILL), NAMED(SIGUSR1),
               NAMED(SIGSEGV), NAMED(SIGUSR2),  NAMED(SIGPIPE), NAMED(SIGALRM), NAMED(SIGTERM),
               NAMED(SIGCHLD), NAMED(SIGCONT),  NAMED(SIGSTOP), NAMED(SIGTSTP), NAMED(SIGTTIN),
               NAMED(SIGTTOU), NAMED(SIGURG),   NAMED(SIGXCPU), NAMED(SIGXFSZ), NAMED(SIGVTALRM),
               NAMED(SIGPROF), NAMED(SIGWINCH), NAMED(SIGIO),   NAMED(SIGSYS)};

static int child_ended(lua_State *L)
{
    int64_t status;
    int signal;
    if (!process_has_ended(to_process(L), &status, &signal))
        return 0;
    if (signal == 0) {
        lua_pushinteger(L, status);
        return 1;
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signals[i].number == signal)
            return api_fail(L, signals[i].name, NULL);
    return api_fail(L, "signal", NULL);
}

/* The signal whose name, such as "SIGTERM", is at `arg`; 0: there is none. */
static int to_signal(lua_State *L, int arg)
{
    const char *name = luaL_checkstring(L, arg);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (strcmp(name, signals[i].name) == 0)
            return signals[i].number;
    return 0;
}

/* program() -> the path of this program */
static int process_l_program(lua_State *L)
{
    lua_pushstring(L, system_program());
    return 1;
}

/* is_signal(name) -> boolean */
static int process_l_is_signal(lua_State *L)
{
    lua_pushboolean(L, to_signal(L, 1) > 0);
    return 1;
}

/* child:kill(name): "SIGTERM" */
static int child_kill(lua_State *L)
{
    int number = to_signal(L, 2);
    luaL_argcheck(L, number > 0, 2, "not the name of a signal");
    process_kill(to_process(L), number);
    return 0;
}

PONDER_MODULE(luaopen_ponder_core_process)
{
    static const luaL_Reg methods[] = {
        {"close", api_close},   {"close_input", child_close_input},
        {"ended", child_ended}, {"kill", child_kill},
        {"line", child_line},   {"port", api_port},
        {"read", child_read},   {"write", child_write},
        {NULL, NULL},
    };
    static const luaL_Reg functions[] = {{"environment", process_l_environment},
                                         {"is_signal", process_l_is_signal},
                                         {"program", process_l_program},
                                         {"start", process_l_start},
                                         {NULL, NULL}};
    api_new_class(L, PROCESS, methods);
    luaL_newlib(L, functions);
    return 1;
}

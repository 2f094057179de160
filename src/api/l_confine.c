/*
 * l_confine.c -- ponder.core.confine: a child process that may only compute (confine.h), and
 * messages between it and its parent: a length of 4 bytes, then the text.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "api/confine.h"
#include "api/task_stop.h"
#include "loop/loop.h"

#define CLASS "ponder.Confined"

enum { MAX_MESSAGE = 64 << 20, WAITS = 50, WAIT_MS = 10 };

typedef struct Child {
    Box box;
    pid_t pid;
    int fd;
} Child;

/* ---- messages ---- */

static int push_error(lua_State *L, int error)
{
    if (error == EINTR && task_stop_is_pending())
        return task_stop_raise(L);
    return api_fail(L,
                    error == EPIPE       ? "the other process has ended"
                    : error == ETIMEDOUT ? "TIMEOUT"
                                         : strerror(error),
                    NULL);
}

static int send_message(lua_State *L, int fd, int index, double deadline)
{
    size_t size;
    const char *text = luaL_checklstring(L, index, &size);
    luaL_argcheck(L, size <= MAX_MESSAGE, index, "message too long");
    uint32_t length = (uint32_t)size;
    int error = confine_send(fd, &length, sizeof length, deadline);
    if (error == 0)
        error = confine_send(fd, text, size, deadline);
    if (error != 0)
        return push_error(L, error);
    lua_pushboolean(L, 1);
    return 1;
}

static int receive_message(lua_State *L, int fd, double deadline)
{
    uint32_t length;
    int error = confine_receive(fd, &length, sizeof length, deadline);
    if (error != 0)
        return push_error(L, error);
    if (length > MAX_MESSAGE)
        return push_error(L, EMSGSIZE);
    luaL_Buffer buffer;
    char *bytes = luaL_buffinitsize(L, &buffer, length);
    error = confine_receive(fd, bytes, length, deadline);
    if (error != 0)
        return push_error(L, error);
    luaL_pushresultsize(&buffer, length);
    return 1;
}

/* ---- in the parent ---- */

static double deadline_in(lua_State *L, int index)
{
    double seconds = luaL_optnumber(L, index, 0);
    return seconds > 0 ? loop_now_ms() + seconds * 1e3 : 0;
}

static int send(lua_State *L)
{
    const Child *child = api_held(L);
    return send_message(L, child->fd, 2, deadline_in(L, 3));
}

/* child:send(message, [seconds]) -> true | nil, "TIMEOUT" or another message */
static int child_send(lua_State *L)
{
    api_check_box(L, CLASS, "process");
    return api_use_box(L, 1, send);
}

static int receive(lua_State *L)
{
    const Child *child = api_held(L);
    return receive_message(L, child->fd, deadline_in(L, 2));
}

/* child:receive([seconds]) -> message | nil, "TIMEOUT" or another message */
static int child_receive(lua_State *L)
{
    api_check_box(L, CLASS, "process");
    return api_use_box(L, 1, receive);
}

/* Kills the child; returns its wait status, or -1. */
static int end_child(const Child *child)
{
    int status = -1;
    kill(child->pid, SIGKILL);
    close(child->fd);
    while (waitpid(child->pid, &status, 0) < 0)
        if (errno != EINTR) {
            status = -1;
            break;
        }
    return status;
}

static void close_child(void *child)
{
    end_child(child);
}

/* child:why() -> the number of the signal that killed the child, or nil if none did within half a
 * second; ends the child */
static int child_why(lua_State *L)
{
    Child *child = luaL_checkudata(L, 1, CLASS);
    siginfo_t info = {.si_pid = 0};
    LoopPort nothing;
    if (api_box_problem(&child->box) != NULL || child->box.uses > 0)
        return 0;
    loop_port_open(&nothing);
    for (int i = 0; i < WAITS && info.si_pid == 0; i++) {
        if (i > 0)
            loop_wait(&nothing, WAIT_MS);
        if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
            break;
    }
    bool by_itself = info.si_pid != 0;
    int status = end_child(api_empty_box(&child->box));
    if (!by_itself || !WIFSIGNALED(status))
        return 0;
    lua_pushinteger(L, WTERMSIG(status));
    return 1;
}

/* spawn() -> child | nil, message */
static int confine_l_spawn(lua_State *L)
{
    Child *child = api_new_box(L, CLASS, sizeof *child, close_child);
    int error = confine_spawn(&child->pid, &child->fd);
    if (error != 0)
        return api_fail(L, strerror(error), NULL);
    child->box.held = child;
    return 1;
}

/* missing() -> list of what the kernel lacks */
static int confine_l_missing(lua_State *L)
{
    lua_newtable(L);
    if (!confine_has_landlock()) {
        lua_pushliteral(L, "Landlock");
        lua_rawseti(L, -2, 1);
    }
    if (!confine_has_seccomp()) {
        lua_pushliteral(L, "seccomp");
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    }
    return 1;
}

/* ---- in the child ---- */

/* enter(memory_mb, cpu_seconds) -> true | nil, message */
static int confine_l_enter(lua_State *L)
{
    ConfineLimits limits = {.memory = (size_t)luaL_checkinteger(L, 1) << 20,
                            .cpu_seconds = (long)luaL_checkinteger(L, 2)};
    int error = confine_enter(&limits);
    if (error != 0)
        return api_fail(L, strerror(error), NULL);
    lua_pushboolean(L, 1);
    return 1;
}

static int confine_l_send(lua_State *L)
{
    return send_message(L, CONFINE_FD, 1, 0);
}

static int confine_l_receive(lua_State *L)
{
    return receive_message(L, CONFINE_FD, 0);
}

/* leave(): ends the process at once */
static int confine_l_leave(lua_State *L)
{
    (void)L;
    _exit(0);
}

PONDER_MODULE(luaopen_ponder_core_confine)
{
    static const luaL_Reg functions[] = {{"enter", confine_l_enter},
                                         {"leave", confine_l_leave},
                                         {"missing", confine_l_missing},
                                         {"receive", confine_l_receive},
                                         {"send", confine_l_send},
                                         {"spawn", confine_l_spawn},
                                         {NULL, NULL}};
    static const luaL_Reg methods[] = {{"kill", api_close},
                                       {"receive", child_receive},
                                       {"send", child_send},
                                       {"why", child_why},
                                       {NULL, NULL}};
    api_new_class(L, CLASS, methods);
    luaL_newlib(L, functions);
    return 1;
}

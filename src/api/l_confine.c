/*
 * l_confine.c -- ponder.core.confine: a child process that may only compute (confine.h), messages
 * between it and its parent (a length of 4 bytes, then the text), and the process of a program of
 * ponder.sandbox.
 */
#include <errno.h>
#include <lualib.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "api/confine.h"
#include "api/task_stop.h"
#include "loop/loop.h"

#define CLASS    "ponder.Confined"
#define PATIENCE 0.5 /* seconds for a child that has closed its socket to end */

enum { MAX_MESSAGE = 64 << 20 };

typedef struct Child {
    Box box;
    pid_t pid;
    int fd;
} Child;

/* ---- messages ---- */

static int send_message(int fd, const char *text, size_t size, double deadline)
{
    uint32_t length = (uint32_t)size;
    if (length != size)
        return EMSGSIZE;
    int error = confine_transfer(fd, &length, sizeof length, true, deadline);
    return error != 0 ? error : confine_transfer(fd, (char *)(size_t)text, size, true, deadline);
}

/* Pushes it if there is no error. */
static int receive_message(lua_State *L, int fd, double deadline, lua_Integer max)
{
    uint32_t length;
    luaL_Buffer buffer;
    int error = confine_transfer(fd, &length, sizeof length, false, deadline);
    if (error != 0 || length > max)
        return error != 0 ? error : EMSGSIZE;
    char *bytes = luaL_buffinitsize(L, &buffer, length);
    error = confine_transfer(fd, bytes, length, false, deadline);
    if (error == 0)
        luaL_pushresultsize(&buffer, length);
    return error;
}

/* The results of a function that has sent or received something. */
static int end_message(lua_State *L, int error, bool sent)
{
    if (error == EINTR && task_stop_is_due())
        return task_stop_raise(L);
    if (error != 0)
        return api_fail(L,
                        error == EPIPE       ? "the other process has ended"
                        : error == ETIMEDOUT ? "TIMEOUT"
                        : error == EMSGSIZE  ? "TOO_LARGE"
                                             : strerror(error),
                        NULL);
    if (sent)
        lua_pushboolean(L, 1);
    return 1;
}

/* ---- in the parent ---- */

static double deadline_in(lua_State *L, int index)
{
    double seconds = luaL_optnumber(L, index, 0);
    return seconds > 0 ? loop_now() + seconds : 0;
}

/* child:send(message, [seconds]) -> true | nil, "TIMEOUT" or another message */
static int child_send(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 2, &size);
    double deadline = deadline_in(L, 3);
    const Child *child = api_check_box(L, CLASS, "process");
    return end_message(L, send_message(child->fd, text, size, deadline), true);
}

static int receive(lua_State *L)
{
    const Child *child = api_held(L);
    lua_Integer max = luaL_optinteger(L, 3, MAX_MESSAGE);
    return end_message(L, receive_message(L, child->fd, deadline_in(L, 2), max), false);
}

/* child:receive([seconds, max_bytes]) -> message | nil, "TIMEOUT" or another message */
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
    if (api_box_problem(&child->box) != NULL || child->box.uses > 0)
        return 0;
    confine_await(child->pid, PATIENCE);
    waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    int status = end_child(api_empty_box(&child->box));
    if (info.si_pid == 0 || !WIFSIGNALED(status))
        return 0;
    lua_pushinteger(L, WTERMSIG(status));
    return 1;
}

static int start(lua_State *L, void (*run)(void *arg), void *arg)
{
    Child *child = api_new_box(L, CLASS, sizeof *child, close_child);
    int error = confine_fork(run, arg, &child->pid, &child->fd);
    if (error != 0)
        return api_fail(L, strerror(error), NULL);
    child->box.held = child;
    return 1;
}

/* spawn() -> child, which executes this program | nil, message */
static int confine_l_spawn(lua_State *L)
{
    return start(L, confine_execute, NULL);
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
    int error = confine_enter((size_t)luaL_checkinteger(L, 1) << 20, (long)luaL_checkinteger(L, 2));
    if (error != 0)
        return api_fail(L, strerror(error), NULL);
    lua_pushboolean(L, 1);
    return 1;
}

static int confine_l_send(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    return end_message(L, send_message(CONFINE_FD, text, size, 0), true);
}

static int confine_l_receive(lua_State *L)
{
    return end_message(L, receive_message(L, CONFINE_FD, 0, MAX_MESSAGE), false);
}

/* leave(): ends the process at once */
static int confine_l_leave(lua_State *L)
{
    (void)L;
    _exit(0);
}

/* ---- the process of programs of ponder.sandbox ----
 *
 * It is a fork, so it needs no file. Each program has a state of its own; one that exceeds a limit
 * ends the process on the spot, so that nothing has to be left in order.
 */

typedef struct Block {
    LIST_ENTRY(Block) link;
    max_align_t bytes[];
} Block;

typedef struct Program {
    LIST_HEAD(, Block) blocks; /* all of its memory */
    size_t memory;             /* bytes that it may use */
    size_t bytes;              /* that it uses */
    size_t refused;            /* the size last refused; 0 after a success */
    bool counts;               /* the limits hold */
    lua_Integer steps;         /* left */
    int interval;              /* instructions between two counts */
} Program;

typedef struct Text {
    const char *bytes;
    size_t size;
} Text;

static void reply(const char *bytes, size_t size)
{
    if (send_message(CONFINE_FD, bytes, size, 0) != 0)
        _exit(EXIT_FAILURE);
}

static void end_at_limit(const char *bytes, size_t size)
{
    reply(bytes, size);
    _exit(EXIT_SUCCESS);
}

/* Lua runs an emergency collection when an allocation fails, and tries once more: a second refusal
 * of the same size ends the program. */
static void *allocate(void *ud, void *ptr, size_t old_size, size_t size)
{
    Program *p = ud;
    if (ptr == NULL)
        old_size = 0; /* Lua passes the kind of object here */
    Block *block = ptr != NULL ? (Block *)((char *)ptr - offsetof(Block, bytes)) : NULL;
    if (block != NULL)
        LIST_REMOVE(block, link);
    Block *made = NULL;
    if (size == 0)
        free(block);
    else if (!p->counts || size <= old_size || p->bytes + (size - old_size) <= p->memory)
        made = realloc(block, sizeof *made + size);
    if (made == NULL && size > 0) {
        if (p->refused == size)
            end_at_limit("\6MEMORY", 7);
        p->refused = size;
        if (block != NULL)
            LIST_INSERT_HEAD(&p->blocks, block, link);
        return NULL;
    }
    if (size > old_size)
        p->refused = 0;
    p->bytes += size - old_size;
    if (made == NULL)
        return NULL;
    LIST_INSERT_HEAD(&p->blocks, made, link);
    return made->bytes;
}

static void charge(Program *p, lua_Integer steps)
{
    p->steps -= steps;
    if (p->counts && p->steps < 0)
        end_at_limit("\5STEPS", 6);
}

static void on_count(lua_State *S, lua_Debug *ar)
{
    void *p;
    (void)ar;
    lua_getallocf(S, &p);
    charge(p, ((Program *)p)->interval);
}

/* charge(): each coroutine starts its own count, so the steps up to its first hook are charged in
 * advance. */
static int program_charge(lua_State *S)
{
    Program *p = lua_touserdata(S, lua_upvalueindex(1));
    charge(p, p->interval);
    return 0;
}

enum {
    STEP_INTERVAL = 1000,
    OWN_STEPS = 20 /* of ponder.run.sandbox.program before the program's */
};

/* limit([steps]): the limits hold from now on, or no more. */
static int program_limit(lua_State *S)
{
    Program *p = lua_touserdata(S, lua_upvalueindex(1));
    p->counts = !lua_isnone(S, 1);
    lua_sethook(S, NULL, 0, 0);
    if (!p->counts)
        return 0;
    lua_gc(S, LUA_GCCOLLECT);
    p->steps = luaL_checkinteger(S, 1) + OWN_STEPS;
    p->interval = p->steps < STEP_INTERVAL ? (int)p->steps + 1 : STEP_INTERVAL;
    if (p->bytes > p->memory)
        end_at_limit("\6MEMORY", 7);
    lua_sethook(S, on_count, LUA_MASKCOUNT, p->interval);
    return 0;
}

/* The arguments: a Program, the code that runs one (see ponder.run.sandbox.program), the payload.
 */
static int run_program(lua_State *S)
{
    static const luaL_Reg libraries[] = {
        {LUA_GNAME, luaopen_base},        {LUA_COLIBNAME, luaopen_coroutine},
        {LUA_STRLIBNAME, luaopen_string}, {LUA_MATHLIBNAME, luaopen_math},
        {LUA_OSLIBNAME, luaopen_os},      {LUA_TABLIBNAME, luaopen_table},
        {LUA_UTF8LIBNAME, luaopen_utf8},  {NULL, NULL}};
    const Text *made = lua_touserdata(S, 2), *payload = lua_touserdata(S, 3);
    for (const luaL_Reg *library = libraries; library->name != NULL; library++)
        luaL_requiref(S, library->name, library->func, 1);
    lua_settop(S, 1);
    if (luaL_loadbufferx(S, made->bytes, made->size, "=ponder", "b") != LUA_OK)
        return lua_error(S);
    lua_call(S, 0, 3); /* encode, decode, serve */
    lua_pushlstring(S, payload->bytes, payload->size);
    lua_pushvalue(S, 1);
    lua_pushcclosure(S, program_limit, 1);
    lua_pushvalue(S, 1);
    lua_pushcclosure(S, program_charge, 1);
    lua_call(S, 3, 1);
    return 1;
}

/* Runs a program and replies. Its memory is freed without running any of its code. */
static void serve(const Text *made, const char *bytes, size_t size)
{
    Program p = {.memory = 0};
    Text payload = {bytes + sizeof(uint64_t), size - sizeof(uint64_t)};
    uint64_t memory;
    memcpy(&memory, bytes, sizeof memory);
    p.memory = memory;
    lua_State *S = lua_newstate(allocate, &p);
    if (S == NULL)
        _exit(EXIT_FAILURE);
    lua_pushcfunction(S, run_program);
    lua_pushlightuserdata(S, &p);
    lua_pushlightuserdata(S, (void *)(size_t)made);
    lua_pushlightuserdata(S, &payload);
    if (lua_pcall(S, 3, 1, 0) != LUA_OK)
        _exit(EXIT_FAILURE);
    const char *text = lua_tolstring(S, -1, &size);
    reply(text, size);
    for (Block *block = LIST_FIRST(&p.blocks), *next; block != NULL; block = next) {
        next = LIST_NEXT(block, link);
        free(block);
    }
}

/* In the child. */
static void serve_programs(void *made)
{
    uint32_t length;
    if (confine_enter(0, 0) != 0)
        return;
    while (confine_transfer(CONFINE_FD, &length, sizeof length, false, 0) == 0) {
        char *bytes = malloc(length);
        if (bytes == NULL || length < sizeof(uint64_t) ||
            confine_transfer(CONFINE_FD, bytes, length, false, 0) != 0)
            return;
        serve(made, bytes, length);
        free(bytes);
    }
}

/* serve(made): makes this process run the programs of its parent; does not return */
static int confine_l_serve(lua_State *L)
{
    Text made;
    made.bytes = luaL_checklstring(L, 1, &made.size);
    serve_programs(&made);
    _exit(EXIT_FAILURE);
}

/* start(made) -> child of the programs that are asked of it, one after the other | nil, message */
static int confine_l_start(lua_State *L)
{
    Text made;
    made.bytes = luaL_checklstring(L, 1, &made.size);
    return start(L, serve_programs, &made);
}

PONDER_MODULE(luaopen_ponder_core_confine)
{
    static const luaL_Reg functions[] = {
        {"enter", confine_l_enter},     {"leave", confine_l_leave}, {"missing", confine_l_missing},
        {"receive", confine_l_receive}, {"send", confine_l_send},   {"serve", confine_l_serve},
        {"spawn", confine_l_spawn},     {"start", confine_l_start}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"kill", api_close},
                                       {"receive", child_receive},
                                       {"send", child_send},
                                       {"why", child_why},
                                       {NULL, NULL}};
    api_new_class(L, CLASS, methods);
    luaL_newlib(L, functions);
    return 1;
}

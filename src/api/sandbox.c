/* sandbox.c -- see sandbox.h. */
#include "api/sandbox.h"

#include <lauxlib.h>
#include <stdatomic.h>

#include "api/alarm.h"
#include "api/task_stop.h"

enum { STEP_INTERVAL = 1000 };

struct SandboxBlock {
    SandboxBlock *next, **at;
    size_t size; /* including this header */
    max_align_t bytes[];
};

static Sandbox *volatile running; /* that an alarm may leave */

/* ---- leaving ---- */

static void leave(Sandbox *s, SandboxEnd end)
{
    if (!s->can_leave)
        return;
    s->can_leave = 0;
    s->left = (int)end;
    siglongjmp(s->out, 1);
}

/* In a signal handler. */
static void leave_running(SandboxEnd end)
{
    Sandbox *s = running;
    if (s == NULL)
        return;
    if (s->allocating)
        s->wanted = (int)end;
    else
        leave(s, end);
}

static void on_alarm(void)
{
    leave_running(SANDBOX_TIMEOUT);
}

static void on_stop(void)
{
    leave_running(SANDBOX_STOPPED);
}

/* ---- memory ---- */

static void unlink_block(SandboxBlock *block)
{
    *block->at = block->next;
    if (block->next != NULL)
        block->next->at = block->at;
}

static void link_block(Sandbox *s, SandboxBlock *block)
{
    block->next = s->blocks;
    block->at = &s->blocks;
    if (block->next != NULL)
        block->next->at = &block->next;
    s->blocks = block;
}

static size_t whole_size(size_t size)
{
    return size > 0 ? sizeof(SandboxBlock) + size : 0;
}

/* Unlinks the block while it may move. */
static void *resize(Sandbox *s, void *ptr, size_t old_size, size_t size)
{
    SandboxBlock *block = NULL;
    if (ptr != NULL) {
        block = (SandboxBlock *)((char *)ptr - offsetof(SandboxBlock, bytes));
        unlink_block(block);
    }
    SandboxBlock *made =
        size > 0 || block != NULL
            ? alloc_resize(&s->alloc, block, whole_size(old_size), whole_size(size))
            : NULL;
    if (made == NULL && size > 0) {
        if (block != NULL)
            link_block(s, block);
        return NULL;
    }
    s->bytes += size - old_size;
    if (made == NULL)
        return NULL;
    made->size = whole_size(size);
    link_block(s, made);
    return made->bytes;
}

/* Lua runs an emergency collection when an allocation fails, and tries once more: a second refusal
 * of the same size ends the program. */
static void *allocate(void *ud, void *ptr, size_t old_size, size_t size)
{
    Sandbox *s = ud;
    if (ptr == NULL)
        old_size = 0; /* Lua passes the kind of object here */
    void *made = NULL;
    s->allocating = 1;
    atomic_signal_fence(memory_order_seq_cst);
    if (size <= old_size || size - old_size <= s->limits.memory - s->bytes)
        made = resize(s, ptr, old_size, size);
    atomic_signal_fence(memory_order_seq_cst);
    s->allocating = 0;
    if (s->wanted)
        leave(s, (SandboxEnd)s->wanted);
    if (made == NULL && size > 0) {
        if (s->refused == size)
            leave(s, SANDBOX_MEMORY);
        s->refused = size;
    } else if (size > old_size) {
        s->refused = 0;
    }
    return made;
}

void sandbox_close(Sandbox *s)
{
    s->S = NULL;
    for (SandboxBlock *block = s->blocks, *next; block != NULL; block = next) {
        next = block->next;
        alloc_free(&s->alloc, block, block->size);
    }
    s->blocks = NULL;
}

/* ---- running ---- */

Sandbox *sandbox_of(lua_State *S)
{
    void *ud;
    lua_getallocf(S, &ud);
    return ud;
}

void sandbox_charge(Sandbox *s, lua_Integer steps)
{
    s->steps -= steps;
    if (s->steps < 0)
        leave(s, SANDBOX_STEPS);
}

static void on_count(lua_State *S, lua_Debug *ar)
{
    (void)ar;
    Sandbox *s = sandbox_of(S);
    sandbox_charge(s, s->interval);
}

/* An unprotected error: out of memory outside any call. */
static int on_panic(lua_State *S)
{
    leave(sandbox_of(S), SANDBOX_MEMORY);
    return 0;
}

static void begin(Sandbox *s)
{
    alarm_open(ALARM_SANDBOX, on_alarm);
    running = s;
    task_stop_preempt(on_stop);
    alarm_set(ALARM_SANDBOX, s->limits.seconds);
    if (task_stop_is_pending())
        leave_running(SANDBOX_STOPPED);
}

static void end(Sandbox *s)
{
    s->can_leave = 0;
    running = NULL;
    task_stop_preempt(NULL);
    alarm_set(ALARM_SANDBOX, 0);
}

static SandboxEnd run(Sandbox *s, const char *code, size_t size, SandboxFill *fill, void *arg)
{
    lua_State *S = s->S;
    lua_atpanic(S, on_panic);
    sandbox_open_library(S);
    if (!fill(S, arg))
        return SANDBOX_REFUSED;
    lua_sethook(S, on_count, LUA_MASKCOUNT, s->interval);
    begin(s);
    int status = luaL_loadbufferx(S, code, size, "=sandbox", "t");
    if (status == LUA_OK)
        status = lua_pcall(S, 0, LUA_MULTRET, 0);
    return status == LUA_OK ? SANDBOX_DONE : status == LUA_ERRMEM ? SANDBOX_MEMORY : SANDBOX_FAILED;
}

SandboxEnd sandbox_run(Sandbox *s, const char *code, size_t size, SandboxFill *fill, void *arg)
{
    s->steps = s->limits.steps;
    s->interval = s->steps < STEP_INTERVAL ? (int)s->steps + 1 : STEP_INTERVAL;
    s->S = lua_newstate(allocate, s);
    if (s->S == NULL)
        return SANDBOX_MEMORY;
    if (sigsetjmp(s->out, 1) == 0) {
        s->can_leave = 1;
        s->left = (int)run(s, code, size, fill, arg);
    }
    end(s);
    return (SandboxEnd)s->left;
}

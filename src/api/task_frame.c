/*
 * task_frame.c -- which coroutine runs, and interrupting it: see task_frame.h and l_task.h.
 */
#include "api/task_frame.h"

#include <errno.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "api/l_task.h"
#include "loop/loop.h"

#define MAX_NAME    1024
#define MAX_C_STACK (2 * 1024 * 1024) /* bytes; a thread has 8 MB */
#define EVERY_HOOK  (LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT)

static Frame *volatile running;        /* the topmost frame */
static lua_State *volatile base_state; /* what runs below all frames */
static char library[MAX_NAME];         /* chunk name of the scheduler's files, without ".lua" */

static volatile sig_atomic_t pending; /* an interruption that nothing has raised yet */
static volatile sig_atomic_t raised;  /* the hook raised it; the scheduler does not know */
static volatile sig_atomic_t seen;    /* since the last run began */
static void (*stock_handler)(int);    /* what a stock lua5.4 does at SIGINT */

/* -- interruption -- */

int frame_is_library(const char *source)
{
    size_t n = strlen(library);
    return n > 0 && strncmp(source, library, n) == 0 && (source[n] == '.' || source[n] == '/');
}

/* The scheduler's own Lua code must not be left halfway: the error waits for code of the script. */
static int in_library(lua_State *L, lua_Debug *ar)
{
    lua_Debug caller;
    lua_getinfo(L, "S", ar);
    if (*ar->what != 'C')
        return frame_is_library(ar->source);
    if (!lua_getstack(L, 1, &caller))
        return 0;
    lua_getinfo(L, "S", &caller);
    return frame_is_library(caller.source);
}

static void interrupt_hook(lua_State *L, lua_Debug *ar)
{
    if (pending && in_library(L, ar))
        return;
    lua_sethook(L, NULL, 0, 0);
    if (!pending) /* delivered elsewhere meanwhile, or inherited from the creator */
        return;
    pending = 0;
    raised = 1;
    luaL_error(L, "interrupted!");
}

/* Makes what runs raise the pending interruption, where that is allowed. */
static void arm_running(void)
{
    const Frame *f = running;
    lua_State *L = f != NULL ? f->L : base_state;
    if (L != NULL && (f == NULL || f->kind == FRAME_TASK || f->kind == FRAME_INNER))
        lua_sethook(L, interrupt_hook, EVERY_HOOK, 1);
}

void task_interrupt(void)
{
    int saved = errno;
    pending = seen = 1;
    arm_running();
    loop_wake();
    errno = saved;
}

int task_interrupted(void)
{
    return seen;
}

int task_interrupt_is_pending(void)
{
    return pending;
}

void task_set_current(lua_State *L)
{
    base_state = L;
}

static void on_stock_interrupt(int number)
{
    int saved = errno;
    stock_handler(number); /* it sets a hook, which runs once the wait is over */
    loop_wake();
    errno = saved;
}

void interrupt_open(void)
{
    struct sigaction action;
    if (base_state != NULL || sigaction(SIGINT, NULL, &action) != 0 ||
        (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler == SIG_DFL ||
        action.sa_handler == SIG_IGN || action.sa_handler == on_stock_interrupt)
        return;
    stock_handler = action.sa_handler;
    action.sa_handler = on_stock_interrupt;
    sigaction(SIGINT, &action, NULL);
}

/* One that was raised outside of any run is over; one that nothing has raised concerns this run. */
void interrupt_begin_run(void)
{
    raised = 0;
    seen = pending;
}

Interrupt interrupt_take(void)
{
    Interrupt what = raised ? INTERRUPT_RAISED : INTERRUPT_PENDING;
    if (!pending && !raised)
        return INTERRUPT_NONE;
    pending = raised = 0;
    return what;
}

/* -- frames -- */

/* Between the two steps of entering or leaving a signal may have armed the other coroutine only. */
static void frame_set(Frame *f)
{
    atomic_signal_fence(memory_order_release); /* a signal handler reads *running */
    running = f;
    if (pending)
        arm_running();
}

void frame_enter(Frame *f, lua_State *L, FrameKind kind, int can_wait)
{
    f->L = L;
    f->kind = kind;
    f->can_wait = can_wait;
    f->below = running;
    f->base = f->below != NULL ? f->below->base : (const char *)f;
    frame_set(f);
}

void frame_leave(const Frame *f)
{
    frame_set(f->below);
}

const Frame *frame_running(void)
{
    return running;
}

int frame_stack_is_short(void)
{
    char here;
    const Frame *f = running;
    if (f == NULL)
        return 0;
    /* Whichever way the stack grows. */
    return (uintptr_t)&here - (uintptr_t)f->base + MAX_C_STACK > 2 * (uintptr_t)MAX_C_STACK;
}

int frame_set_library(const char *name)
{
    size_t n = strlen(name);
    if (n >= sizeof library)
        return 0;
    memcpy(library, name, n + 1);
    return 1;
}

/* task_frame.c -- see task_frame.h. */
#include "api/task_frame.h"

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>

#include "api/task_limit.h"
#include "api/task_stop.h"

#define MAX_C_STACK (2 * 1024 * 1024) /* bytes; a thread has 8 MB */

static Frame *volatile running; /* the topmost frame */

/* Arms again: a signal in between may have armed only the coroutine that was running before. */
static void frame_set(Frame *f)
{
    atomic_signal_fence(memory_order_release); /* a signal handler reads *running */
    running = f;
    if (stop_armed)
        stop_arm();
}

void frame_enter(Frame *f, lua_State *L, FrameKind kind, int can_wait)
{
    f->L = L;
    f->kind = kind;
    f->can_wait = can_wait;
    f->below = running;
    f->base = f->below != NULL ? f->below->base : (const char *)f;
    f->limit = kind == FRAME_TASK ? limit_of(L) : frame_limit();
    f->raised = f->left = 0;
    frame_set(f);
    if (kind == FRAME_TASK && f->limit < limit_alarm)
        limit_set_alarm(f->limit);
}

void frame_leave(const Frame *f)
{
    frame_set(f->below);
}

Frame *frame_running(void)
{
    return running;
}

double frame_limit(void)
{
    return running != NULL ? running->limit : HUGE_VAL;
}

int frame_stack_is_short(void)
{
    char here;
    const Frame *f = running;
    if (f == NULL)
        return 0;
    /* Works whichever way the stack grows. */
    return (uintptr_t)&here - (uintptr_t)f->base + MAX_C_STACK > 2 * (uintptr_t)MAX_C_STACK;
}

/* task_frame.c -- see task_frame.h. */
#include "api/task_frame.h"

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "api/alarm.h"
#include "api/task_stop.h"
#include "loop/loop.h"

#define AGAIN       0.05 /* seconds until the alarm rings again for a task that has not ended */
#define CLOSING     1.0  /* seconds that the clean-up of a task with a limit gets at least */
#define MAX_C_STACK (2 * 1024 * 1024) /* bytes; a thread has 8 MB */

static Frame *volatile running;             /* the topmost frame */
static volatile double alarm_at = HUGE_VAL; /* when the alarm rings; HUGE_VAL: never */
volatile int limit_is_reached;

/* ---- limits ---- */

/* The limit is kept in the extra space of the coroutine. */
_Static_assert(LUA_EXTRASPACE >= sizeof(double), "no room for a limit");

void limit_set(lua_State *co, double at)
{
    memcpy(lua_getextraspace(co), &at, sizeof at);
}

double limit_of(lua_State *co)
{
    double at;
    memcpy(&at, lua_getextraspace(co), sizeof at);
    return at < 0 ? loop_now() - at : at;
}

static void on_alarm(void);

/* Sets the alarm, unless it rings earlier. */
static void set_alarm(double at)
{
    if (at >= alarm_at)
        return;
    alarm_open(ALARM_TASK, on_alarm);
    alarm_at = at;
    alarm_set(ALARM_TASK, fmax(at - loop_now(), 1e-9));
}

/* In a signal handler. */
static void on_alarm(void)
{
    const Frame *f = running;
    double now = loop_now(), at = f != NULL ? f->limit : HUGE_VAL;
    alarm_at = HUGE_VAL;
    int is_late = at <= now;
    if (is_late) {
        limit_is_reached = stop_armed = 1;
        stop_arm();
        at = now + AGAIN;
    }
    set_alarm(at);
    if (is_late)
        stop_preempt();
}

void limit_closing(Frame *f, double limit)
{
    if (limit == HUGE_VAL)
        return;
    f->limit = fmax(limit, loop_now() + CLOSING);
    set_alarm(f->limit);
}

int limit_check(void)
{
    limit_is_reached = 0; /* first: the alarm may ring in between */
    const Frame *f = running;
    if (f != NULL && f->limit <= loop_now())
        limit_is_reached = 1;
    return limit_is_reached;
}

static Frame *limited_frame(void)
{
    Frame *f = running;
    while (f->kind != FRAME_TASK && f->kind != FRAME_CLOSING)
        f = f->below;
    return f;
}

int limit_interval(void)
{
    static const int interval[] = {1, 1000, 100, 10};
    int raised = limited_frame()->raised;
    return raised < 4 ? interval[raised] : 1;
}

void limit_note_error(void)
{
    double now = loop_now();
    for (Frame *f = running; f != NULL; f = f->below)
        if (f->kind != FRAME_INNER && f->limit <= now)
            f->raised++;
}

/* ---- frames ---- */

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
    if (kind == FRAME_TASK)
        set_alarm(f->limit);
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

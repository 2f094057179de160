/* task_limit.c -- see task_limit.h. */
#include "api/task_limit.h"

#include <math.h>
#include <string.h>

#include "api/alarm.h"
#include "api/task_frame.h"
#include "api/task_stop.h"
#include "loop/loop.h"

#define AGAIN   0.05 /* seconds until the alarm rings again for a task that has not ended */
#define CLOSING 1.0  /* seconds that the clean-up of a task with a limit gets at least */

volatile double limit_alarm = HUGE_VAL;
volatile int limit_is_reached;

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

/* In a signal handler. */
static void on_alarm(void)
{
    const Frame *f = frame_running();
    double now = loop_now(), at = f != NULL ? f->limit : HUGE_VAL;
    limit_alarm = HUGE_VAL;
    int is_late = at <= now;
    if (is_late) {
        limit_is_reached = stop_armed = 1;
        stop_arm();
        at = now + AGAIN;
    }
    if (at < HUGE_VAL)
        limit_set_alarm(at);
    if (is_late)
        stop_preempt();
}

void limit_set_alarm(double at)
{
    alarm_open(ALARM_TASK, on_alarm);
    limit_alarm = at;
    alarm_set(ALARM_TASK, fmax(at - loop_now(), 1e-9));
}

void limit_closing(Frame *f, double limit)
{
    if (limit == HUGE_VAL)
        return;
    f->limit = fmax(limit, loop_now() + CLOSING);
    if (f->limit < limit_alarm)
        limit_set_alarm(f->limit);
}

int limit_check(void)
{
    limit_is_reached = 0; /* first: the alarm may ring in between */
    const Frame *f = frame_running();
    if (f != NULL && f->limit <= loop_now())
        limit_is_reached = 1;
    return limit_is_reached;
}

static Frame *limited_frame(void)
{
    Frame *f = frame_running();
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
    for (Frame *f = frame_running(); f != NULL; f = f->below)
        if (f->kind != FRAME_INNER && f->limit <= now)
            f->raised++;
}

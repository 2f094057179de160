/*
 * task_limit.h -- ends tasks that compute when their time is up.
 *
 * The scheduler cancels a task that waits when its timeout is due. One that computes keeps the
 * scheduler from running; when its limit has passed, its coroutine is left where it is, as if it
 * waited there, and the scheduler then cancels it.
 *
 *     limit_of(task) < limit_alarm?  a task is resumed: sets the alarm to its limit
 *     the alarm rings                sets a debug hook in the running coroutine, if its task's
 *                                    limit has passed; else sets the alarm to that limit, if any
 *     the hook                       yields, or raises where it cannot (task_stop.c)
 *
 * So a task that is resumed costs a comparison, and code that computes in time has no hook. An
 * alarm may ring for a task that has ended: no alarm is ever taken back.
 */
#ifndef PONDER_API_TASK_LIMIT_H
#define PONDER_API_TASK_LIMIT_H

#include <lua.h>

#include "api/task_frame.h"

#define LIMIT_MESSAGE "the time is up"

/* Sets the limit of a task's coroutine: the time on the loop's clock when it must have ended. A
 * negative value is the number of seconds, negated, that each of its steps may take. HUGE_VAL: no
 * limit. */
void limit_set(lua_State *co, double at);

/* When a step that begins now must have ended. */
double limit_of(lua_State *co);

/* When the alarm rings; HUGE_VAL: never. */
extern volatile double limit_alarm;

void limit_set_alarm(double at);

/* Sets the limit of a coroutine that is being closed: that of its task, but a second from now at
 * least. Then an error is raised in its `__close`. */
void limit_closing(Frame *f, double limit);

/* The limit of the running task has passed. */
extern volatile int limit_is_reached;

/* Updates limit_is_reached after another coroutine has been entered, and returns it. */
int limit_check(void);

/* Instructions until the task is to be left, or the next error raised: time for `__close`, less
 * after each error. */
int limit_interval(void);

/* An error is raised since the limit has passed. */
void limit_note_error(void);

#endif

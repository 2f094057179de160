/*
 * task_frame.h -- which coroutine runs, and until when.
 *
 * Every resume and every closing of a coroutine has a Frame on the C stack. The topmost one says
 * which coroutine runs, whether it may wait, and where a stop (task_stop.h) is raised:
 *
 *     frame          the stop is raised
 *     none           nowhere: code outside tasks is short
 *     FRAME_LOOP     nowhere: the scheduler checks after its current step or wait
 *     FRAME_TASK     in the coroutine, at its next unprotected instruction
 *     FRAME_INNER    the same
 *     FRAME_CLOSING  nowhere: clean-up is not interrupted, except by a limit (see below)
 */
#ifndef PONDER_API_TASK_FRAME_H
#define PONDER_API_TASK_FRAME_H

#include <lua.h>

typedef enum FrameKind {
    FRAME_LOOP,   /* the scheduler itself */
    FRAME_TASK,   /* the outermost coroutine of a task */
    FRAME_INNER,  /* a coroutine that a script made */
    FRAME_CLOSING /* a coroutine whose to-be-closed variables are being closed */
} FrameKind;

typedef struct Frame {
    lua_State *L;
    struct Frame *below;
    FrameKind kind;
    int can_wait;     /* a mark would reach the scheduler */
    double limit;     /* when the time of the task is up */
    int raised;       /* errors raised for that, in the frame of a task or of closing */
    int left;         /* the task's coroutine was left for that */
    const char *base; /* the address of the lowest frame */
} Frame;

void frame_enter(Frame *f, lua_State *L, FrameKind kind, int can_wait);
void frame_leave(const Frame *f);

/* The topmost frame, or NULL. */
Frame *frame_running(void);

/* When the time of the running task is up. */
double frame_limit(void);

/* Whether too much of the C stack is in use to resume or close another coroutine. Lua counts nested
 * C calls itself, but lua_resetthread resets that count. */
int frame_stack_is_short(void);

/* ---- limits ----
 *
 * The scheduler cancels a task that waits when its timeout is due. One that computes keeps the
 * scheduler from running; when its limit has passed, its coroutine is left where it is, as if it
 * waited there, and the scheduler then cancels it.
 *
 *     limit_of(task) < alarm?        a task is resumed: sets the alarm to its limit
 *     the alarm rings                sets a debug hook in the running coroutine, if its task's
 *                                    limit has passed; else sets the alarm to that limit, if any
 *     the hook                       yields, or raises where it cannot (task_stop.c)
 *
 * So a task that is resumed costs a comparison, and code that computes in time has no hook. An
 * alarm may ring for a task that has ended: no alarm is ever taken back.
 */

#define LIMIT_MESSAGE "the time is up"

/* Sets the limit of a task's coroutine: the time on the loop's clock when it must have ended. A
 * negative value is the number of seconds, negated, that each of its steps may take. HUGE_VAL: no
 * limit. */
void limit_set(lua_State *co, double at);

/* When a step that begins now must have ended. */
double limit_of(lua_State *co);

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

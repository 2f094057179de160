/*
 * task_frame.h -- which coroutine runs.
 *
 * Every resume and every closing of a coroutine has a Frame on the C stack. The topmost one says
 * which coroutine runs, whether it may wait, and where a stop (task_stop.h) is raised:
 *
 *     frame          the stop is raised
 *     none           nowhere: code outside tasks is short
 *     FRAME_LOOP     nowhere: the scheduler checks after its current step or wait
 *     FRAME_TASK     in the coroutine, at its next unprotected instruction
 *     FRAME_INNER    the same
 *     FRAME_CLOSING  nowhere: clean-up is not interrupted, except by a limit (task_limit.h)
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

#endif

/*
 * task_frame.h -- which coroutine runs.
 *
 * Every resume and every closing of a coroutine is a Frame on the C stack. The topmost one says
 * which coroutine runs, whether it may wait, and where it is told to stop (task_stop.h):
 *
 *     frame          an error is raised
 *     none           nowhere: what runs outside of tasks is short, and ends a run
 *     FRAME_LOOP     nowhere: the scheduler sees it when its present step or wait is over
 *     FRAME_TASK     in the coroutine, at its next instruction that is not protected
 *     FRAME_INNER    the same
 *     FRAME_CLOSING  nowhere: clean-up is not cut short
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
    int can_wait;     /* the mark would reach the scheduler */
    const char *base; /* the address of the lowest frame */
} Frame;

void frame_enter(Frame *f, lua_State *L, FrameKind kind, int can_wait);
void frame_leave(const Frame *f);

/* The topmost frame, or NULL. */
const Frame *frame_running(void);

/* Whether so much of the C stack is in use that no coroutine should be resumed or closed any more.
 * Lua counts nested C calls, but lua_resetthread begins again from what the coroutine had counted.
 */
int frame_stack_is_short(void);

#endif

/*
 * task_frame.h -- which coroutine runs, and interrupting it.
 *
 * Every resume and every closing of a coroutine is a Frame on the C stack. The topmost one says
 * which coroutine runs, whether it may wait, and where an interruption is to be raised:
 *
 *     frame          an interruption raises "interrupted!"
 *     none           in the state given to task_set_current, if any
 *     FRAME_LOOP     nowhere: the scheduler sees it when its present step or wait is over
 *     FRAME_TASK     in the coroutine, at its next instruction that is not the scheduler's own code
 *     FRAME_INNER    the same
 *     FRAME_CLOSING  nowhere: clean-up is not interrupted
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

/* Whether `source`, as lua_getinfo gives it, is a file of the scheduler: its chunk name begins with
 * the name given to frame_set_library. Returns 0 if that name is too long. */
int frame_is_library(const char *source);
int frame_set_library(const char *name);

/* What has become of an interruption that the scheduler has not taken yet. */
typedef enum Interrupt { INTERRUPT_NONE, INTERRUPT_PENDING, INTERRUPT_RAISED } Interrupt;

/* In a stock lua5.4: its own handler of SIGINT ends waits from now on. */
void interrupt_open(void);

/* A run begins: what an earlier one saw is forgotten. */
void interrupt_begin_run(void);

/* Says whether there is an interruption, and forgets it. */
Interrupt interrupt_take(void);

#endif

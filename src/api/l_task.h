/*
 * l_task.h -- what the host and the other C modules need to know of the task scheduler: how what
 * runs is ended (task_stop.h).
 *
 * One operating-system thread runs Lua; everything here belongs to that thread.
 */
#ifndef PONDER_API_L_TASK_H
#define PONDER_API_L_TASK_H

#include <lua.h>

typedef enum StopReason {
    STOP_NONE,
    STOP_INTERRUPT, /* Ctrl-C */
    STOP_TERMINATE, /* SIGTERM */
    STOP_HANGUP,    /* SIGHUP */
    STOP_TIMEOUT,
    STOP_STEPS
} StopReason;

/* Asks whatever runs to stop; for signal handlers (async-signal-safe). The first reason counts. */
void task_stop(StopReason why);

/* Why what runs is to stop, since the last task.run began: still so when that has ended. */
StopReason task_stop_reason(void);

/* The error that ends it, as text. */
const char *task_stop_message(void);

/* Raises it, from C code that has noticed by itself. */
int task_stop_raise(lua_State *L);

/* Whether there is a reason that nothing has raised yet: what waits should end. */
int task_stop_is_pending(void);

/* Nothing is to stop any more. */
void task_stop_forget(void);

typedef enum StopEvent {
    STOP_CAME,
    STOP_CAME_AGAIN, /* a second Ctrl-C, say */
    STOP_WAS_RAISED, /* code got the error, for the first time or once more */
    STOP_WAS_HEARD   /* the run is ending */
} StopEvent;

/* Is told what becomes of a reason to stop, perhaps in a signal handler. */
typedef void StopWatch(StopEvent event, StopReason why);
void task_stop_watch(StopWatch *watch);

/* C code that may be left by a jump at any moment: `leave` is called at the end of task_stop.
 * NULL: no more. */
void task_stop_preempt(void (*leave)(void));

#endif

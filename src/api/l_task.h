/*
 * l_task.h -- stopping a run, for the host and the other C modules; see task_stop.h for how.
 *
 * All of this belongs to the one thread that runs Lua.
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

/* Requests a stop (async-signal-safe). Only the first reason counts. */
void task_stop(StopReason why);

/* The reason of a stop requested since the last task.run began, even after that has ended. */
StopReason task_stop_reason(void);

/* The text of the error that ends the run. */
const char *task_stop_message(void);

/* Raises that error, for C code that checks task_stop_is_pending. */
int task_stop_raise(lua_State *L);

/* Whether a stop was requested and not raised yet: waits should end. */
int task_stop_is_pending(void);

/* Forgets a stop request. */
void task_stop_forget(void);

typedef enum StopEvent {
    STOP_CAME,
    STOP_CAME_AGAIN, /* a second Ctrl-C, say */
    STOP_WAS_RAISED, /* code got the error, for the first time or again */
    STOP_OBEYED      /* the run is ending */
} StopEvent;

/* The watcher is called on each event, perhaps in a signal handler. */
typedef void StopWatch(StopEvent event, StopReason why);
void task_stop_watch(StopWatch *watch);

/* Makes task_stop call `leave` last, which may longjmp out of running C code. NULL: no more. */
void task_stop_preempt(void (*leave)(void));

#endif

/*
 * task_stop.h -- stopping running code: signals, the run's time limit, its step limit.
 *
 * A stop raises an error in the running Lua code (or, while all tasks wait, the scheduler raises it
 * in the main task). Code that catches the error gets it again, each time after fewer instructions,
 * until the main task has ended: no pcall can block it, but `__close` can still clean up. C code
 * that does not return and clean-up that does not end are left to the watchdog (signals.c).
 *
 * Nothing is raised inside the scheduler and the run log, whose state must stay consistent, nor
 * while a coroutine is being closed.
 *
 * One debug hook does this and counts steps. It is set in the running coroutine when needed, and in
 * each coroutine entered after that (task_frame.c); otherwise no coroutine has a hook.
 */
#ifndef PONDER_API_TASK_STOP_H
#define PONDER_API_TASK_STOP_H

#include <lua.h>

/* ---- for the host and the other C modules: all belongs to the one thread that runs Lua ---- */

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

/* ---- for the scheduler and the frames ---- */

/* Sets the hook in the running coroutine. */
void stop_arm(void);

/* Leaves running C code that can be left: see task_stop_preempt. */
void stop_preempt(void);

/* Whether coroutines need the hook: checked whenever one is entered. */
extern volatile int stop_armed;

/* Limits the instructions of all coroutines together from now on; starting a coroutine counts as up
 * to 100. -1: no limit. */
void stop_limit_steps(lua_Integer steps);

/* Whether a coroutine has the hook of this file. */
int stop_has_hook(lua_State *L);

/* A run begins: forgets the stop of an earlier one. */
void stop_begin_run(void);

/* Whether a C function that has caught an error for the script must rethrow it to stop the run. */
int stop_must_raise(lua_State *L);

/* Raises the error of a stop that is pending. */
void stop_raise_pending(lua_State *L);

/* What the scheduler has to know about a stop. */
typedef enum StopNews {
    STOP_NO_NEWS, /* nothing new */
    STOP_PENDING, /* not raised yet */
    STOP_RAISED,  /* running code got the error */
    STOP_AGAIN    /* it was raised before, and code continues nevertheless */
} StopNews;

/* Returns that, and marks it as known. */
StopNews stop_take(void);

/* The run is ending: nothing more is raised. */
void stop_obeyed(void);

/* In a stock lua5.4: makes its SIGINT handler end waits. */
void stop_open(void);

/* Raises no error in files whose chunk name begins with `name` and "." or "/" (or is `name`, if
 * that ends in ".lua"), nor in ponder code that they call. Returns 0: too many names. */
int stop_protect(const char *name);

/* Whether a chunk name belongs to such a file, or to any of ponder's own. */
int stop_is_protected(const char *source);
int stop_is_own(const char *source);

#endif

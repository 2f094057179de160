/*
 * task_stop.h -- ending code that runs: Ctrl-C and other signals, the run's time, its steps.
 *
 * The first reason to stop raises an error in the Lua code that runs (or, while tasks wait, the
 * scheduler raises it in the main task). Code that catches the error gets it again, each time after
 * fewer instructions, until the main task has ended: no pcall holds it up, while `__close` and the
 * like can still clean up. What is left is C code that does not return, and clean-up that does not
 * end: the host's watchdog sees to these (signals.c).
 *
 * Nothing is raised within the scheduler and the run log, which must not be left halfway, nor while
 * a coroutine is closed.
 *
 * One hook does this, and counts steps. It is set in what runs when there is a reason to, and in
 * each coroutine when it is entered (task_frame.c); else no coroutine has a hook.
 */
#ifndef PONDER_API_TASK_STOP_H
#define PONDER_API_TASK_STOP_H

#include <lua.h>

#include "api/l_task.h"

/* Sets the hook in what runs now, if there is a reason to. */
void stop_arm(void);

/* Whether stop_arm has anything to do: looked at whenever a coroutine is entered. */
extern volatile int stop_armed;

/* From now on code may run so many instructions, in all coroutines together; starting a coroutine
 * counts as up to 100. -1: without limit. */
void stop_limit_steps(lua_Integer steps);

/* The task that runs may run for so many seconds, waits included; then an error is raised in it at
 * every instruction of the script, whatever it catches. 0: no more. */
void stop_limit_task(double seconds);

/* Whether the hook of a coroutine is the one here. */
int stop_has_hook(lua_State *L);

/* A run begins: what an earlier one was stopped by is forgotten. */
void stop_begin_run(void);

/* Whether a C function that has caught an error for its caller is to raise it again: the run is to
 * stop, and the caller is the script. */
int stop_must_raise(lua_State *L);

/* What the scheduler is to do about a reason to stop. */
typedef enum StopNews {
    STOP_NO_NEWS, /* nothing: it has been told */
    STOP_PENDING, /* nothing has been raised yet */
    STOP_RAISED,  /* the code that ran got the error */
    STOP_AGAIN    /* it was told, and code goes on all the same */
} StopNews;

/* Says so, and counts it as told. */
StopNews stop_take(void);

/* The run is ending: nothing more is raised. */
void stop_heard(void);

/* In a stock lua5.4: its own handler of SIGINT ends waits from now on. */
void stop_open(void);

/* No error is raised within a file whose chunk name begins with `name` and "." or "/", or is `name`
 * if that ends in ".lua", nor in what of ponder it calls. Returns 0 if there are too many. */
int stop_protect(const char *name);

/* Whether a chunk name is of a file named so. */
int stop_is_protected(const char *source);

#endif

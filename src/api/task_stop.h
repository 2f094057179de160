/*
 * task_stop.h -- which coroutine runs, and ending what computes: signals, the run's limits of time
 * and steps, timeouts of tasks.
 *
 *     task_stop (a signal, --max-steps, task.stop) ----------.
 *     the timer of the process: the run's time is up --------+--> flag up, hook in the running
 *     the timer: the limit of the running task has passed ---'    coroutine --> raises an error
 *
 * While the flag is up, a coroutine that is entered gets the hook, too; the hook removes itself
 * where nothing is due. So code that computes in time has no hook and costs nothing. (The hook
 * counts steps, too: then it is always there.)
 *
 * pcall and xpcall of the script rethrow the error (of a stop, only in ponder's executable). Code
 * that catches it nevertheless gets it again after GRACE instructions, and then after fewer each
 * time: nothing can block it, but `__close` can still clean up. A task in which it was raised has
 * run out of time, however its step ends. While all tasks wait, the scheduler raises a stop in the
 * main task, and cancels a task whose timeout is due. C code that does not return, and clean-up
 * that does not end, are left to the watchdog.
 *
 * Nothing is raised while a coroutine is being closed (an error of a hook has disabled its hooks:
 * Lua 5.4). A stop is not raised inside the scheduler and the run log, whose state must stay
 * consistent; the limit of a task only in the script's own code.
 */
#ifndef PONDER_API_TASK_STOP_H
#define PONDER_API_TASK_STOP_H

#include <lua.h>
#include <stdbool.h>

/* ---- frames: every resume and every closing of a coroutine has one on the C stack ---- */

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
    int raised;       /* errors raised for that, in the frame of a task */
    const char *base; /* the address of the lowest frame */
} Frame;

void frame_enter(Frame *f, lua_State *L, FrameKind kind, int can_wait);
void frame_leave(const Frame *f);

/* The topmost frame, or NULL. */
Frame *frame_running(void);

/* Whether too much of the C stack is in use to resume or close another coroutine. Lua counts nested
 * C calls itself, but lua_resetthread resets that count. */
int frame_stack_is_short(void);

/* Sets the limit of a task's coroutine: the time of loop_now when it must have ended. A negative
 * value is the number of seconds, negated, that each of its steps may take. HUGE_VAL: no limit. */
void limit_set(lua_State *co, double at);

/* ---- stops: all belongs to the one thread that runs Lua ---- */

typedef enum StopReason {
    STOP_NONE,
    STOP_INTERRUPT, /* Ctrl-C */
    STOP_TERMINATE, /* SIGTERM */
    STOP_HANGUP,    /* SIGHUP */
    STOP_TIMEOUT,
    STOP_STEPS,
    STOP_DETACH /* the run waits for batches only (--detach) */
} StopReason;

/* Requests a stop (async-signal-safe). Only the first reason counts. */
void task_stop(StopReason why);

/* The reason of a stop requested since the last task.run began, even after that has ended. */
StopReason task_stop_reason(void);

/* The text of the error that ends the run. */
const char *task_stop_message(void);

/* Whether a stop was requested and not raised yet: waits should end. */
bool task_stop_is_pending(void);

/* The same, or the time of the running task is up. */
bool task_stop_is_due(void);

/* Raises that error, for C code that checks either. */
int task_stop_raise(lua_State *L);

/* Forgets a stop request. */
void task_stop_forget(void);

/* Requests a stop for STOP_TIMEOUT after so many seconds. */
void task_stop_after(double seconds);

/* Has `end` called, in a signal handler, if a stop is not raised within 2 seconds, or the run has
 * not ended within 10 seconds of the last time it was. The first Ctrl-C has no such limit. */
void task_stop_watch(void (*end)(void));

/* Limits the instructions of all coroutines together from now on; starting a coroutine counts as up
 * to 100. -1: no limit. */
void stop_limit_steps(lua_Integer steps);

/* Whether the hook is in use; whether a coroutine has it. */
bool stop_is_armed(void);
bool stop_has_hook(lua_State *L);

/* A run begins: forgets the stop of an earlier one. */
void stop_begin_run(void);

/* Whether a C function that has caught an error must rethrow it: of a stop, for the script, if this
 * is ponder's executable; of a limit, for all but the protected files (see stop_protect). */
bool stop_must_raise(lua_State *L);

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

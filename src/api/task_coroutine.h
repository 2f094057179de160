/*
 * task_coroutine.h -- coroutines that a task may wait in.
 *
 * A waiting task yields a private value, the mark, to the scheduler. It may do so inside a
 * coroutine that it has made (an iterator by coroutine.wrap): then the mark travels through every
 * coroutine in between. The coroutine library here, which replaces Lua's, does that:
 *
 *     scheduler --resume--> task --wrap--> iterator --wrap--> inner iterator, calls task.sleep
 *     scheduler <--mark---- task <--mark-- iterator <--mark-- park
 *     scheduler --values--> task --------> iterator --------> park returns the values
 *
 * A waiting coroutine has the mark on top of its stack and, if the mark only passed through, the
 * coroutine it came from at index 1. So the chain can be walked from outside and closed from the
 * inside out, and nobody else can resume or close the middle of it. Passing the mark on allocates
 * nothing, so it cannot fail halfway.
 */
#ifndef PONDER_API_TASK_COROUTINE_H
#define PONDER_API_TASK_COROUTINE_H

#include <lua.h>

#include "api/task_stop.h"

typedef enum CoStatus { CO_RUNNING, CO_NORMAL, CO_SUSPENDED, CO_WAITING, CO_DEAD } CoStatus;

/* Argument 1, which must be a coroutine. */
lua_State *coroutine_check(lua_State *L);

/* CO_WAITING: suspended by the mark. */
CoStatus coroutine_status(lua_State *L, lua_State *co);

/* The coroutine that `co` waits for, if the mark only passed through `co`, or NULL. */
lua_State *coroutine_inner(lua_State *co);

/* Why the running coroutine `L` cannot wait; NULL if it can. */
const char *coroutine_cannot_wait(lua_State *L);

/* Yields the mark from `L`; when resumed, calls `go_on` with the values from index 1. Call it last
 * in a C function, after coroutine_cannot_wait has returned NULL. */
int coroutine_wait(lua_State *L, lua_KFunction go_on);

#define STEP_FAILED (-1)
#define STEP_WAITS  (-2)
#define STEP_LATE   (-3)

/* Resumes `co` with the top `nargs` values of `L`: [-nargs, +results]. Returns the number of
 * results it yielded or returned, STEP_FAILED with one error value, or STEP_WAITS with none; for a
 * task, also STEP_LATE with none: its time is up, an error was raised for that, and whatever it has
 * done with it, it can only be closed. Pop the mark of a waiting coroutine first. */
int coroutine_step(lua_State *L, lua_State *co, int nargs, FrameKind kind, int can_wait);

/* Closes what `co` waits for, then `co`: [0, +(0|1)]. Returns 1, or 0 with the last error on `L`.
 */
int coroutine_close(lua_State *L, lua_State *co);

/* Replaces pcall and xpcall by functions that rethrow an error that ends the task: stop_must_raise.
 */
void coroutine_guard_calls(lua_State *L);

/* Pushes the replacements of Lua's coroutine functions. */
void coroutine_push_library(lua_State *L);

#endif

/*
 * task_coroutine.h -- coroutines that a task may wait in.
 *
 * A task that waits yields one private value, the mark, to the scheduler. It may do so inside a
 * coroutine of its own (an iterator made by coroutine.wrap): then the mark has to travel through
 * every coroutine between. The coroutine library here, which takes the place of Lua's, does that:
 *
 *     scheduler --resume--> task --wrap--> iterator --wrap--> inner iterator, calls task.sleep
 *     scheduler <--mark---- task <--mark-- iterator <--mark-- park
 *     scheduler --values--> task --------> iterator --------> park returns the values
 *
 * While it waits, a coroutine has the mark on top of its stack, and, if the mark only passed
 * through, the coroutine it came from at index 1. So the chain can be walked from outside, to close
 * it from the inside out, and nobody else can resume or close the middle of it. Passing the mark on
 * allocates nothing, so it cannot fail halfway.
 */
#ifndef PONDER_API_TASK_COROUTINE_H
#define PONDER_API_TASK_COROUTINE_H

#include <lua.h>

#include "api/task_frame.h"

typedef enum CoStatus { CO_RUNNING, CO_NORMAL, CO_SUSPENDED, CO_WAITING, CO_DEAD } CoStatus;

/* The coroutine that is argument 1; raises if it is none. */
lua_State *coroutine_check(lua_State *L);

/* CO_WAITING: suspended by the mark. */
CoStatus coroutine_status(lua_State *L, lua_State *co);

/* The coroutine that `co` waits for, if the mark only passed through `co`, or NULL. */
lua_State *coroutine_inner(lua_State *co);

/* Why `L`, which runs, cannot yield a mark that reaches the scheduler; NULL if it can. */
const char *coroutine_cannot_wait(lua_State *L);

/* Yields the mark from `L`; `go_on` is called with what it is resumed with, from index 1.
 * Call it as the last thing a C function does, where coroutine_cannot_wait gives NULL. */
int coroutine_wait(lua_State *L, lua_KFunction go_on);

#define STEP_FAILED (-1)
#define STEP_WAITS  (-2)

/* Resumes `co` with the top `nargs` values of `L`: [-nargs, +results]. Returns how many results it
 * yielded or returned, STEP_FAILED with one error value, or STEP_WAITS with none. A coroutine that
 * waited must have lost its mark (lua_pop) before. */
int coroutine_step(lua_State *L, lua_State *co, int nargs, FrameKind kind, int can_wait);

/* Closes `co`, after what it waits for: [0, +(0|1)]. Returns 1, or 0 with the last error on `L`. */
int coroutine_close(lua_State *L, lua_State *co);

/* Whether the coroutine at `index` has returned and can serve as another: no script knows it (it
 * would take the two for one) or has left a debug hook in it. */
int coroutine_is_spent(lua_State *L, int index);

/* Pushes a table with what replaces Lua's resume, wrap, close, status, yield, isyieldable, and
 * running, which notes who has been seen. */
void coroutine_push_library(lua_State *L);

#endif

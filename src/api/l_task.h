/*
 * l_task.h -- what the host and the other C modules need to know of the task scheduler.
 *
 * One operating-system thread runs Lua; everything here belongs to that thread.
 */
#ifndef PONDER_API_L_TASK_H
#define PONDER_API_L_TASK_H

#include <lua.h>

/* Asks whatever runs to stop; for a SIGINT handler (async-signal-safe). Lua code that is running
 * gets the error "interrupted!" at its next instruction; a wait ends early, and the scheduler
 * raises the same error in the main task, where that waits. */
void task_interrupt(void);

/* Whether an interruption has come since the last task.run began: still true when that has ended.
 */
int task_interrupted(void);

/* Whether one has come that nothing has raised yet: what waits should end. */
int task_interrupt_is_pending(void);

/* Names the state that Lua code outside of any coroutine runs in, or NULL for none. Until this is
 * called an interruption of such code is only noted. */
void task_set_current(lua_State *L);

#endif

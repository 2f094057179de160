/*
 * signals.h -- what ends a run from outside: Ctrl-C, SIGTERM, SIGHUP, its time limit.
 *
 * Each asks the run to stop (task_stop.h). If the run does not react within 2 seconds of the second
 * Ctrl-C, or of the first of the others, the process exits; a third signal makes it exit at once.
 * Signals that a server or worker handles itself (loop_signal) do so only if it is stuck in Lua
 * code: from the second one on.
 */
#ifndef PONDER_SIGNALS_H
#define PONDER_SIGNALS_H

#include <stdbool.h>

/* Installs the handlers; SIGHUP stays ignored under nohup. */
void signals_catch(void);

/* Limits the wall time of the run. */
void signals_limit_time(double seconds);

/* Whether that limit has passed. */
bool signals_time_is_up(void);

/* Forgets a stop request, so that a prompt can continue. */
void signals_forget(void);

/* The exit status of a stopped run: 130, 143, 129 after signals, 124 after its time, otherwise 1.
 */
int signals_status(void);

#endif

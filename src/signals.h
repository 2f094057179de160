/*
 * signals.h -- what ends a run from outside: Ctrl-C, SIGTERM, SIGHUP, its time.
 *
 * Each asks what runs to stop (l_task.h). C code that does not return, or clean-up that does not
 * end, is given 2 seconds from the second Ctrl-C, or from the first of the others; then the process
 * ends. So it does at the third signal.
 */
#ifndef PONDER_SIGNALS_H
#define PONDER_SIGNALS_H

#include <stdbool.h>

/* From now on these signals are caught; SIGHUP not under nohup. */
void signals_catch(void);

/* The run is to stop after so many seconds of wall time. */
void signals_limit_time(double seconds);

/* Whether these have passed. */
bool signals_time_is_up(void);

/* What came is forgotten: what runs goes on. */
void signals_forget(void);

/* The exit status of a run that was stopped: 130, 143, 129, 124; 1 for its steps, and without any
 * reason. */
int signals_status(void);

#endif

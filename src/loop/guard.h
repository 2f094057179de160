/*
 * guard.h -- no child process outlives this one.
 */
#ifndef PONDER_LOOP_GUARD_H
#define PONDER_LOOP_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

/* Starts the guard, unless it runs. False: errno says why. */
bool guard_open(void);

/* Around the fork of a child, which from then on gets SIGKILL when this process ends. */
void guard_begin_fork(void);
void guard_end_fork(void);

/* Kills this group when this process ends, until it is forgotten. False: there are too many, or the
 * guard is gone; errno says. */
bool guard_add(pid_t group);
void guard_forget(pid_t group);

#endif

/* reaper.h -- a process that kills our children when we end, however we end. */
#ifndef PONDER_LOOP_REAPER_H
#define PONDER_LOOP_REAPER_H

#include <stdbool.h>
#include <sys/types.h>

/* Starts the reaper unless it runs. False: see errno. */
bool reaper_open(void);

/* Between these a fork makes a child that gets SIGKILL when this process ends. */
void reaper_begin_fork(void);
void reaper_end_fork(void);

/* The reaper kills this process group when this process ends, unless it is forgotten. False: too
 * many groups, or the reaper is gone; see errno. */
bool reaper_add(pid_t group);
void reaper_forget(pid_t group);

#endif

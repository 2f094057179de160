/*
 * alarm.h -- timers that interrupt running code, even C code: time limits, and the watchdog.
 *
 * Callbacks run in a signal handler, in the thread that called alarm_open.
 */
#ifndef PONDER_API_ALARM_H
#define PONDER_API_ALARM_H

typedef enum Alarm {
    ALARM_DEADLINE, /* the run's time is up */
    ALARM_WATCHDOG, /* the run was asked to stop and has not */
    ALARM_SANDBOX,  /* a sandbox's time is up; its callback may longjmp out of the handler */
    ALARM_TASK,     /* a task's time may be up; may longjmp too. Does not end waits */
    ALARM_COUNT
} Alarm;

/* Makes the timer, unless it exists. If the system refuses one, it never expires. */
void alarm_open(Alarm alarm, void (*expired)(void));

/* Sets the timer to `seconds` from now; 0 disarms it. Safe in a signal handler. */
void alarm_set(Alarm alarm, double seconds);

#endif

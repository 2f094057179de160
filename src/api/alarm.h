/*
 * alarm.h -- timers that interrupt whatever runs, C code too: time limits, and the watchdog.
 *
 * What an alarm calls runs in a signal handler, in the thread that called alarm_open.
 */
#ifndef PONDER_API_ALARM_H
#define PONDER_API_ALARM_H

typedef enum Alarm {
    ALARM_DEADLINE, /* the time of the run is up */
    ALARM_WATCHDOG, /* what was asked to stop has not */
    ALARM_SANDBOX,  /* the time of a sandbox is up; its callback may jump out of the handler */
    ALARM_COUNT
} Alarm;

/* Makes a timer; returns 0 or an errno value. Does nothing if there is one already. */
int alarm_open(Alarm alarm, void (*expired)(void));

/* Calls it after so many seconds, in place of what was set before; 0: not at all. May be called in
 * a signal handler. */
void alarm_set(Alarm alarm, double seconds);

#endif

/* alarm.c -- see alarm.h. POSIX timers, whose signals carry the alarm's number. */
#include "api/alarm.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define ALARM_SIGNAL (SIGRTMIN + 4) /* glibc uses the first ones */
#define TASK_SIGNAL  (SIGRTMIN + 5)
#define MAX_SECONDS  1e9

static timer_t timers[ALARM_COUNT];
static void (*callbacks[ALARM_COUNT])(void); /* NULL: there is no timer */
static volatile sig_atomic_t expired[ALARM_COUNT];
static pthread_t owner;

/* A thread of libcurl may get the signal: it is passed on to the owner. */
static void on_signal(int signo, siginfo_t *info, void *context)
{
    int saved = errno, value = info->si_value.sival_int;
    (void)context;
    if (info->si_code == SI_TIMER && value >= 0 && value < ALARM_COUNT)
        expired[value] = 1;
    if (!pthread_equal(pthread_self(), owner)) {
        pthread_kill(owner, signo);
        errno = saved;
        return;
    }
    for (int i = 0; i < ALARM_COUNT; i++) {
        if (expired[i]) {
            expired[i] = 0;
            errno = saved;
            callbacks[i]();
        }
    }
    errno = saved;
}

/* Without SA_RESTART a wait ends early. Neither handler interrupts the other. */
static bool catch_signal(int signo)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | (signo == TASK_SIGNAL ? SA_RESTART : 0);
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, ALARM_SIGNAL);
    sigaddset(&action.sa_mask, TASK_SIGNAL);
    return sigaction(signo, &action, NULL) == 0;
}

void alarm_open(Alarm alarm, void (*callback)(void))
{
    if (callbacks[alarm] != NULL)
        return;
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = alarm == ALARM_TASK ? TASK_SIGNAL : ALARM_SIGNAL;
    event.sigev_value.sival_int = (int)alarm;
    owner = pthread_self();
    if (catch_signal(event.sigev_signo) &&
        timer_create(CLOCK_MONOTONIC, &event, &timers[alarm]) == 0)
        callbacks[alarm] = callback;
}

void alarm_set(Alarm alarm, double seconds)
{
    struct itimerspec when;
    if (callbacks[alarm] == NULL)
        return;
    memset(&when, 0, sizeof when);
    seconds = fmin(seconds, MAX_SECONDS);
    when.it_value.tv_sec = (time_t)seconds;
    when.it_value.tv_nsec = (long)((seconds - floor(seconds)) * 1e9);
    if (seconds > 0 && when.it_value.tv_sec == 0 && when.it_value.tv_nsec == 0)
        when.it_value.tv_nsec = 1; /* 0 would disarm it */
    expired[alarm] = 0;
    timer_settime(timers[alarm], 0, &when, NULL);
}

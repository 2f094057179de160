/*
 * signals.c -- see signals.h. There is one way in which a stop reaches a run:
 *
 *     a signal, the run's time --> handler --.
 *     the steps of the run, task.stop -------+--> task_stop
 *                                                   |  code runs: its hook raises the error
 *                                                   |  in C, no hook runs: the watchdog, below
 *                                                   `--> loop_wake: a wait ends, and the scheduler
 *                                                        raises it in the main task
 *
 * It begins in signal handlers (a timer sends a signal, too: alarm.c), and not in the loop's
 * signals and timers, since the loop does not run while a script computes. A handler does no more
 * than that. What a run waits for without success beyond its time is ended by its budget, with a
 * timer of the loop, before the alarm comes (HEAD_START).
 */
#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "api/alarm.h"
#include "api/l_task.h"
#include "loop/loop.h"

#define HEAD_START  0.1  /* seconds: the scheduler ends by itself what only waits */
#define PATIENCE    2.0  /* seconds for what runs to notice that it is to stop */
#define FINISH_TIME 10.0 /* seconds for the run's end, once it has */

enum { STATUS_TIMEOUT = 124, STATUS_SIGNAL = 128 };

static volatile sig_atomic_t times; /* signals that came */
static double deadline;             /* on the monotonic clock; 0: none */
static pthread_t main_thread;

static int status_of(StopReason why)
{
    switch (why) {
    case STOP_INTERRUPT: return STATUS_SIGNAL + SIGINT;
    case STOP_TERMINATE: return STATUS_SIGNAL + SIGTERM;
    case STOP_HANGUP: return STATUS_SIGNAL + SIGHUP;
    case STOP_TIMEOUT: return STATUS_TIMEOUT;
    default: return 1;
    }
}

int signals_status(void)
{
    return status_of(task_stop_reason());
}

static void end_process(void)
{
    static const char message[] = "ponder: it did not stop in time; the process ends\n";
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    _exit(signals_status());
}

/* Only the first Ctrl-C leaves all the time that code may take. */
static void watch(StopEvent event, StopReason why)
{
    static volatile sig_atomic_t patient;
    if (event == STOP_CAME)
        patient = why == STOP_INTERRUPT;
    else if (event == STOP_CAME_AGAIN)
        patient = 0;
    if (event == STOP_WAS_HEARD)
        alarm_set(ALARM_WATCHDOG, FINISH_TIME);
    else if (!patient)
        alarm_set(ALARM_WATCHDOG, PATIENCE);
}

static void on_signal(int signo)
{
    int saved = errno;
    if (!pthread_equal(pthread_self(), main_thread)) {
        pthread_kill(main_thread, signo);
        errno = saved;
        return;
    }
    if (++times > 2)
        end_process();
    task_stop(signo == SIGINT ? STOP_INTERRUPT : signo == SIGTERM ? STOP_TERMINATE : STOP_HANGUP);
    errno = saved;
}

static void on_deadline(void)
{
    task_stop(STOP_TIMEOUT);
}

static void catch_signal(int signo)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal; /* without SA_RESTART: a wait ends early */
    sigemptyset(&action.sa_mask);
    sigaction(signo, &action, NULL);
}

void signals_catch(void)
{
    main_thread = pthread_self();
    task_stop_watch(watch);
    alarm_open(ALARM_WATCHDOG, end_process);
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    struct sigaction action;
    if (sigaction(SIGHUP, NULL, &action) != 0 || action.sa_handler != SIG_IGN) /* not under nohup */
        catch_signal(SIGHUP);
}

void signals_limit_time(double seconds)
{
    alarm_open(ALARM_DEADLINE, on_deadline);
    deadline = loop_now() + seconds;
    alarm_set(ALARM_DEADLINE, seconds + HEAD_START);
}

bool signals_time_is_up(void)
{
    return deadline > 0 && loop_now() >= deadline;
}

void signals_forget(void)
{
    times = 0;
    alarm_set(ALARM_WATCHDOG, 0);
    task_stop_forget();
}

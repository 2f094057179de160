/*
 * signals.c -- see signals.h. Signal handlers and POSIX timers rather than libuv's, since the loop
 * does not run while a script computes. A run that only waits when its time is up is ended by its
 * budget, with a timer of the loop, HEAD_START before the stop.
 */
#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "api/task_stop.h"
#include "loop/loop.h"
#include "loop/process.h"

#define HEAD_START 0.1 /* seconds: the scheduler ends by itself what only waits */

enum { STATUS_LATER = 75, STATUS_TIMEOUT = 124, STATUS_SIGNAL = 128 };

static volatile sig_atomic_t signal_count;
static double deadline; /* on the monotonic clock; 0: none */
static pthread_t main_thread;

int signals_status(void)
{
    switch (task_stop_reason()) {
    case STOP_INTERRUPT: return STATUS_SIGNAL + SIGINT;
    case STOP_TERMINATE: return STATUS_SIGNAL + SIGTERM;
    case STOP_HANGUP: return STATUS_SIGNAL + SIGHUP;
    case STOP_TIMEOUT: return STATUS_TIMEOUT;
    case STOP_DETACH: return STATUS_LATER;
    default: return 1;
    }
}

static void end_process(void)
{
    static const char message[] = "ponder: the run did not stop in time; exiting\n";
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    process_kill_all();
    _exit(signals_status());
}

static void on_signal(int signo)
{
    int saved = errno;
    if (!pthread_equal(pthread_self(), main_thread)) {
        pthread_kill(main_thread, signo);
        errno = saved;
        return;
    }
    if (++signal_count > 2)
        end_process();
    task_stop(signo == SIGINT ? STOP_INTERRUPT : signo == SIGTERM ? STOP_TERMINATE : STOP_HANGUP);
    errno = saved;
}

/* The loop has had one before. */
static void on_stuck_signal(int signo)
{
    on_signal(signo);
    on_signal(signo);
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
    task_stop_watch(end_process);
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    loop_on_stuck_signal(on_stuck_signal);
    struct sigaction action;
    if (sigaction(SIGHUP, NULL, &action) != 0 || action.sa_handler != SIG_IGN) /* not under nohup */
        catch_signal(SIGHUP);
}

void signals_limit_time(double seconds)
{
    deadline = loop_now() + seconds;
    task_stop_after(seconds + HEAD_START);
}

bool signals_time_is_up(void)
{
    return deadline > 0 && loop_now() >= deadline;
}

void signals_forget(void)
{
    signal_count = 0;
    task_stop_forget();
}

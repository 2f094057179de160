/* handles.c -- descriptors, timers, signals and directories of the loop; see loop.h. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

#include "loop/parts.h"

#define STUCK_AFTER                                                                                \
    0.5 /* seconds from a signal to the next, within which a loop that runs delivers */

/* Each begins with its libuv handle: see loop_close_handle. */
struct LoopWatch {
    uv_poll_t uv;
    LoopOnReady on_ready;
    void *arg;
    int fd;
};

struct LoopTimer {
    uv_timer_t uv;
    LoopOnEvent on_due;
    void *arg;
};

struct LoopSignal {
    uv_signal_t uv;
    LoopOnEvent on_signal;
    void *arg;
};

struct LoopDirectory {
    uv_fs_event_t uv;
    LoopOnEvent on_change;
    void *arg;
};

/* libuv does not know a handle whose initialization failed: it is freed at once. */
static void *started(void *handle, int error)
{
    if (error == 0) {
        loop_count_handle(1);
        return handle;
    }
    free(handle);
    return loop_refuse(error);
}

/* ---- descriptors ---- */

static void on_ready(uv_poll_t *uv, int status, int events)
{
    LoopWatch *w = (LoopWatch *)uv;
    loop_count_callback();
    if (status < 0) /* broken: reading or writing will tell why */
        events = UV_READABLE | UV_WRITABLE;
    w->on_ready(w->arg, w->fd,
                (events & UV_READABLE ? LOOP_READ : 0) | (events & UV_WRITABLE ? LOOP_WRITE : 0));
}

int loop_watch_for(LoopWatch *w, int events)
{
    int wanted = (events & LOOP_READ ? UV_READABLE : 0) | (events & LOOP_WRITE ? UV_WRITABLE : 0);
    return -(wanted != 0 ? uv_poll_start(&w->uv, wanted, on_ready) : uv_poll_stop(&w->uv));
}

LoopWatch *loop_watch(int fd, int events, LoopOnReady callback, void *arg)
{
    uv_loop_t *uv = loop_get();
    LoopWatch *w = uv != NULL ? malloc(sizeof *w) : NULL;
    if (w == NULL)
        return NULL;
    w->on_ready = callback;
    w->arg = arg;
    w->fd = fd;
    w = started(w, uv_poll_init(uv, &w->uv, fd));
    int error = w != NULL ? loop_watch_for(w, events) : 0;
    if (error != 0) {
        loop_unwatch(w);
        return loop_refuse(-error);
    }
    return w;
}

void loop_unwatch(LoopWatch *w)
{
    if (w != NULL)
        loop_close_handle((uv_handle_t *)&w->uv);
}

/* ---- timers ---- */

static void on_due(uv_timer_t *uv)
{
    LoopTimer *t = (LoopTimer *)uv;
    loop_count_callback();
    t->on_due(t->arg);
}

LoopTimer *loop_timer(LoopOnEvent callback, void *arg)
{
    uv_loop_t *uv = loop_get();
    LoopTimer *t = uv != NULL ? malloc(sizeof *t) : NULL;
    if (t == NULL)
        return NULL;
    t->on_due = callback;
    t->arg = arg;
    return started(t, uv_timer_init(uv, &t->uv));
}

void loop_timer_set(LoopTimer *t, double delay_ms)
{
    if (!(delay_ms >= 0) || delay_ms == INFINITY) {
        uv_timer_stop(&t->uv);
        return;
    }
    uv_update_time(t->uv.loop); /* Lua code may have run since libuv read the clock */
    uv_timer_start(&t->uv, on_due, (uint64_t)ceil(fmin(delay_ms, 1e15)), 0);
}

void loop_timer_end(LoopTimer *t)
{
    if (t != NULL)
        loop_close_handle((uv_handle_t *)&t->uv);
}

/* ---- signals ---- */

static void (*deliver)(int);             /* libuv's signal handler */
static void (*on_stuck_signal)(int);     /* see loop_on_stuck_signal */
static volatile double undelivered_from; /* time of the first undelivered signal; 0: none */

static void on_signal(uv_signal_t *uv, int number)
{
    LoopSignal *s = (LoopSignal *)uv;
    (void)number;
    undelivered_from = 0;
    loop_count_callback();
    s->on_signal(s->arg);
}

static void catch_stuck(int number)
{
    int saved = errno;
    double now = loop_now();
    deliver(number);
    if (undelivered_from == 0)
        undelivered_from = now;
    else if (now - undelivered_from >= STUCK_AFTER)
        on_stuck_signal(number);
    errno = saved;
}

/* Puts catch_stuck before libuv's handler of a signal that asks the process to end. */
static void watch_delivery(int number)
{
    struct sigaction action;
    if (number == SIGCONT || on_stuck_signal == NULL || sigaction(number, NULL, &action) != 0 ||
        action.sa_handler == catch_stuck)
        return;
    deliver = action.sa_handler;
    action.sa_handler = catch_stuck;
    sigaction(number, &action, NULL);
}

void loop_on_stuck_signal(void (*handler)(int number))
{
    on_stuck_signal = handler;
}

LoopSignal *loop_signal(int number, LoopOnEvent callback, void *arg)
{
    uv_loop_t *uv = loop_get();
    LoopSignal *s = uv != NULL ? malloc(sizeof *s) : NULL;
    if (s == NULL)
        return NULL;
    s->on_signal = callback;
    s->arg = arg;
    s = started(s, uv_signal_init(uv, &s->uv));
    int error = s != NULL ? uv_signal_start(&s->uv, on_signal, number) : 0;
    if (error != 0) {
        loop_signal_end(s);
        return loop_refuse(error);
    }
    watch_delivery(number);
    return s;
}

void loop_signal_end(LoopSignal *s)
{
    if (s != NULL)
        loop_close_handle((uv_handle_t *)&s->uv);
}

/* ---- directories ---- */

static void on_change(uv_fs_event_t *uv, const char *name, int events, int status)
{
    LoopDirectory *d = (LoopDirectory *)uv;
    (void)name, (void)events, (void)status;
    loop_count_callback();
    d->on_change(d->arg);
}

LoopDirectory *loop_directory(const char *path, LoopOnEvent callback, void *arg)
{
    uv_loop_t *uv = loop_get();
    LoopDirectory *d = uv != NULL ? malloc(sizeof *d) : NULL;
    if (d == NULL)
        return NULL;
    d->on_change = callback;
    d->arg = arg;
    d = started(d, uv_fs_event_init(uv, &d->uv));
    int error = d != NULL ? uv_fs_event_start(&d->uv, on_change, path, 0) : 0;
    if (error != 0) {
        loop_directory_end(d);
        return loop_refuse(error);
    }
    return d;
}

void loop_directory_end(LoopDirectory *d)
{
    if (d != NULL)
        loop_close_handle((uv_handle_t *)&d->uv);
}

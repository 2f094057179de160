/* handles.c -- descriptors, timers, signals and directories of the loop; see loop.h. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

#include "loop/parts.h"

#define STUCK_AFTER 0.5 /* seconds: a running loop delivers a signal sooner */

/* Begins with its libuv handle, which callbacks get. */
struct LoopHandle {
    union {
        uv_poll_t descriptor;
        uv_timer_t timer;
        uv_signal_t signal;
        uv_fs_event_t directory;
    } uv;
    LoopOnReady on_ready; /* of a descriptor */
    LoopOnEvent on_event; /* of the others */
    void *arg;
    int fd;
};

static volatile double undelivered_from; /* time of the first undelivered signal; 0: none */

static int init(uv_loop_t *uv, LoopHandle *h, uv_handle_type type)
{
    switch (type) {
    case UV_POLL: return uv_poll_init(uv, &h->uv.descriptor, h->fd);
    case UV_TIMER: return uv_timer_init(uv, &h->uv.timer);
    case UV_SIGNAL: return uv_signal_init(uv, &h->uv.signal);
    default: return uv_fs_event_init(uv, &h->uv.directory);
    }
}

/* A handle that is not started yet. libuv does not know one whose initialization failed. */
static LoopHandle *make(uv_handle_type type, LoopHandle wanted)
{
    uv_loop_t *uv = loop_get();
    LoopHandle *h = uv != NULL ? malloc(sizeof *h) : NULL;
    if (h == NULL)
        return NULL;
    *h = wanted;
    int error = init(uv, h, type);
    if (error != 0) {
        free(h);
        return loop_refuse(error);
    }
    loop_count_handle(1);
    return h;
}

/* The handle, unless starting it failed. */
static LoopHandle *started(LoopHandle *h, int error)
{
    if (error == 0)
        return h;
    loop_end(h);
    return loop_refuse(error);
}

void loop_end(LoopHandle *h)
{
    if (h == NULL)
        return;
    if (h->uv.signal.type == UV_SIGNAL)
        undelivered_from = 0; /* libuv does not deliver it any more */
    loop_close_handle((uv_handle_t *)&h->uv, h);
}

static void call_back(const LoopHandle *h)
{
    loop_count_callback();
    h->on_event(h->arg);
}

/* ---- descriptors ---- */

static void on_ready(uv_poll_t *uv, int status, int events)
{
    const LoopHandle *h = (LoopHandle *)uv;
    loop_count_callback();
    if (status < 0) /* broken: reading or writing will tell why */
        events = UV_READABLE | UV_WRITABLE;
    h->on_ready(h->arg, h->fd,
                (events & UV_READABLE ? LOOP_READ : 0) | (events & UV_WRITABLE ? LOOP_WRITE : 0));
}

int loop_watch_for(LoopHandle *h, int events)
{
    uv_poll_t *uv = &h->uv.descriptor;
    int wanted = (events & LOOP_READ ? UV_READABLE : 0) | (events & LOOP_WRITE ? UV_WRITABLE : 0);
    return -(wanted != 0 ? uv_poll_start(uv, wanted, on_ready) : uv_poll_stop(uv));
}

LoopHandle *loop_watch(int fd, int events, LoopOnReady callback, void *arg)
{
    LoopHandle *h = make(UV_POLL, (LoopHandle){.on_ready = callback, .arg = arg, .fd = fd});
    return h != NULL ? started(h, -loop_watch_for(h, events)) : NULL;
}

/* ---- timers ---- */

static void on_due(uv_timer_t *uv)
{
    call_back((LoopHandle *)uv);
}

LoopHandle *loop_timer(LoopOnEvent callback, void *arg)
{
    return make(UV_TIMER, (LoopHandle){.on_event = callback, .arg = arg});
}

void loop_timer_set(LoopHandle *h, double delay_ms)
{
    uv_timer_t *uv = &h->uv.timer;
    if (!(delay_ms >= 0) || delay_ms == INFINITY) {
        uv_timer_stop(uv);
        return;
    }
    uv_update_time(uv->loop); /* Lua code may have run since libuv read the clock */
    uv_timer_start(uv, on_due, (uint64_t)ceil(fmin(delay_ms, 1e15)), 0);
}

/* ---- signals ---- */

static void (*deliver)(int);         /* libuv's signal handler */
static void (*on_stuck_signal)(int); /* see loop_on_stuck_signal */

static void on_signal(uv_signal_t *uv, int number)
{
    (void)number;
    undelivered_from = 0;
    call_back((LoopHandle *)uv);
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

/* Has catch_stuck called before libuv's handler, for a signal that asks the process to end. */
static void watch_delivery(int number)
{
    struct sigaction action;
    bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP;
    if (!ends || on_stuck_signal == NULL || sigaction(number, NULL, &action) != 0 ||
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

LoopHandle *loop_signal(int number, LoopOnEvent callback, void *arg)
{
    LoopHandle *h = make(UV_SIGNAL, (LoopHandle){.on_event = callback, .arg = arg});
    if (h != NULL)
        h = started(h, uv_signal_start(&h->uv.signal, on_signal, number));
    if (h != NULL)
        watch_delivery(number);
    return h;
}

/* ---- directories ---- */

static void on_change(uv_fs_event_t *uv, const char *name, int events, int status)
{
    (void)name, (void)events, (void)status;
    call_back((LoopHandle *)uv);
}

LoopHandle *loop_directory(const char *path, LoopOnEvent callback, void *arg)
{
    LoopHandle *h = make(UV_FS_EVENT, (LoopHandle){.on_event = callback, .arg = arg});
    return h != NULL ? started(h, uv_fs_event_start(&h->uv.directory, on_change, path, 0)) : NULL;
}

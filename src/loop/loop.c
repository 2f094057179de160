/* loop.c -- see loop.h. */
#include "loop/loop.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loop/parts.h"

#define STUCK_AFTER 0.5 /* seconds: a running loop delivers a signal sooner */

enum {
    GATHER_MS = 1, /* how long to keep adding what becomes ready to the same batch */
};

static struct {
    bool open;
    bool woken; /* by loop_wake */
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t alarm; /* ends a wait */
    TAILQ_HEAD(, LoopPort) posted;
    int64_t ports; /* opened so far */
    LoopStats stats;
} loop = {.posted = TAILQ_HEAD_INITIALIZER(loop.posted)};

double loop_now(void)
{
    return (double)uv_hrtime() * 1e-9;
}

double loop_now_ms(void)
{
    return (double)uv_hrtime() * 1e-6;
}

void loop_count_callback(void)
{
    loop.stats.callbacks++;
}

void loop_count_handle(int change)
{
    loop.stats.handles += change;
}

LoopStats loop_stats(void)
{
    return loop.stats;
}

void *loop_refuse(int uv_error)
{
    errno = -uv_error;
    return NULL;
}

/* ---- opening ---- */

static void on_wake(uv_async_t *async)
{
    (void)async;
    loop.woken = true;
}

/* An alarm that is due before uv_run polls must not let it wait for other events. */
static void on_alarm(uv_timer_t *alarm)
{
    uv_stop(alarm->loop);
}

static pid_t process_id; /* 0: not known */

/* The child opens a new loop with its first call. */
static void forget_in_child(void)
{
    process_id = 0;
    loop.open = false;
    TAILQ_INIT(&loop.posted);
}

pid_t loop_process_id(void)
{
    static bool watched;
    if (process_id != 0)
        return process_id;
    if (!watched)
        pthread_atfork(NULL, NULL, forget_in_child);
    watched = true;
    return process_id = getpid();
}

/* `wake` keeps the loop alive even without other handles. */
static int open_loop(void)
{
    int error = uv_loop_init(&loop.uv);
    if (error != 0)
        return error;
    error = uv_async_init(&loop.uv, &loop.wake, on_wake);
    if (error == 0)
        error = uv_timer_init(&loop.uv, &loop.alarm);
    if (error != 0) {
        uv_walk(&loop.uv, (uv_walk_cb)uv_close, NULL);
        uv_run(&loop.uv, UV_RUN_NOWAIT);
        uv_loop_close(&loop.uv);
        return error;
    }
    loop_process_id(); /* a child forgets the loop from now on */
    loop.woken = false;
    loop.open = true;
    return 0;
}

uv_loop_t *loop_get(void)
{
    int error = loop.open ? 0 : open_loop();
    return error == 0 ? &loop.uv : loop_refuse(error);
}

static void free_handle(uv_handle_t *h)
{
    loop_count_handle(-1);
    free(h->data);
}

void loop_close_handle(uv_handle_t *h, void *block)
{
    h->data = block;
    uv_close(h, free_handle);
}

/* ---- ports ---- */

void loop_port_open(LoopPort *p)
{
    *p = (LoopPort){.number = ++loop.ports};
}

void loop_post(LoopPort *p)
{
    if (p->posted)
        return;
    loop.stats.posts++;
    p->posted = true;
    TAILQ_INSERT_TAIL(&loop.posted, p, link);
}

void loop_unpost(LoopPort *p)
{
    if (!p->posted)
        return;
    p->posted = false;
    TAILQ_REMOVE(&loop.posted, p, link);
}

size_t loop_take(int64_t *numbers, size_t capacity)
{
    size_t n = 0;
    for (LoopPort *p; n < capacity && (p = TAILQ_FIRST(&loop.posted)) != NULL; n++) {
        numbers[n] = p->number;
        loop_unpost(p);
    }
    return n;
}

/* ---- waiting ---- */

/* Runs one round of callbacks; false: there were none. */
static bool step(uv_run_mode mode)
{
    int64_t before = loop.stats.callbacks;
    uv_run(&loop.uv, mode);
    return loop.stats.callbacks != before;
}

static bool is_posted(void)
{
    return !TAILQ_EMPTY(&loop.posted);
}

static void sleep_until(double until)
{
    while (!is_posted() && !loop.woken && loop_now_ms() < until) {
        uv_update_time(&loop.uv);
        double left = until < INFINITY ? ceil(until - loop_now_ms()) : INFINITY;
        if (left < INFINITY) /* may have passed by now: a negative time would never end */
            uv_timer_start(&loop.alarm, on_alarm, left > 0 ? (uint64_t)left : 0, 0);
        loop.stats.waits++;
        step(UV_RUN_ONCE);
    }
    uv_timer_stop(&loop.alarm);
}

/* Events come in bursts: runs callbacks while there are more, for up to GATHER_MS. */
static void gather(void)
{
    double until = loop_now_ms() + GATHER_MS;
    while (step(UV_RUN_NOWAIT) && loop_now_ms() < until)
        continue;
}

static int holds;

void loop_hold(int change)
{
    holds += change;
}

int loop_wait(double timeout_ms)
{
    if (holds > 0)
        return EDEADLK;
    if (loop_get() == NULL)
        return errno;
    double until = timeout_ms < 0 ? INFINITY : loop_now_ms() + fmin(timeout_ms, 1e12);
    gather();
    if (!is_posted() && timeout_ms != 0) {
        sleep_until(until);
        if (is_posted())
            gather();
    }
    loop.woken = false;
    return 0;
}

void loop_wake(void)
{
    if (loop.open)
        uv_async_send(&loop.wake);
}

/* ---- handles ---- */

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

/* A handle that is not started yet. libuv does not know one whose initialization failed. */
static LoopHandle *make(uv_handle_type type, LoopHandle wanted)
{
    uv_loop_t *uv = loop_get();
    LoopHandle *h = uv != NULL ? malloc(sizeof *h) : NULL;
    if (h == NULL)
        return NULL;
    *h = wanted;
    int error = type == UV_POLL     ? uv_poll_init(uv, &h->uv.descriptor, h->fd)
                : type == UV_TIMER  ? uv_timer_init(uv, &h->uv.timer)
                : type == UV_SIGNAL ? uv_signal_init(uv, &h->uv.signal)
                                    : uv_fs_event_init(uv, &h->uv.directory);
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

void loop_on_stuck_signal(void (*handler)(int number))
{
    on_stuck_signal = handler;
}

LoopHandle *loop_signal(int number, LoopOnEvent callback, void *arg)
{
    LoopHandle *h = make(UV_SIGNAL, (LoopHandle){.on_event = callback, .arg = arg});
    if (h != NULL)
        h = started(h, uv_signal_start(&h->uv.signal, on_signal, number));
    struct sigaction action;
    bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP;
    if (h != NULL && ends && on_stuck_signal != NULL && sigaction(number, NULL, &action) == 0 &&
        action.sa_handler != catch_stuck) {
        deliver = action.sa_handler;
        action.sa_handler = catch_stuck;
        sigaction(number, &action, NULL);
    }
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

/* ---- descriptors of the process ---- */

void loop_raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

const char *loop_descriptor_hint(int error)
{
    return error == EMFILE ? " (EMFILE: raise `ulimit -n`)" : "";
}

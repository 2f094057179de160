/* loop.c -- the loop itself: waiting, ports, the clock; descriptors of the process; see loop.h. */
#include "loop/loop.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "loop/parts.h"

enum {
    GATHER_MS = 1, /* how long to keep adding what becomes ready to the same batch */
};

static struct {
    bool open;
    bool woken; /* by loop_wake */
    uv_loop_t uv;
    uv_async_t wake;
    uv_poll_t alarm; /* a timerfd, since libuv's timers count whole milliseconds */
    int alarm_fd;
    double alarm_ms; /* when it goes off; INFINITY: never */
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

static void on_alarm(uv_poll_t *alarm, int status, int events)
{
    uint64_t times;
    (void)alarm, (void)status, (void)events;
    loop.alarm_ms = INFINITY;
    if (read(loop.alarm_fd, &times, sizeof times) < 0)
        return; /* set again in the meantime */
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

static int open_alarm(void)
{
    loop.alarm_ms = INFINITY;
    loop.alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (loop.alarm_fd < 0)
        return -errno;
    int error = uv_poll_init(&loop.uv, &loop.alarm, loop.alarm_fd);
    if (error == 0)
        error = uv_poll_start(&loop.alarm, UV_READABLE, on_alarm);
    if (error != 0)
        close(loop.alarm_fd);
    return error;
}

/* `wake` keeps the loop alive even without other handles. */
static int open_loop(void)
{
    int error = uv_loop_init(&loop.uv);
    if (error != 0)
        return error;
    error = uv_async_init(&loop.uv, &loop.wake, on_wake);
    if (error == 0)
        error = open_alarm();
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

static void set_alarm(double at_ms)
{
    struct itimerspec t = {0};
    if (at_ms == loop.alarm_ms)
        return;
    loop.alarm_ms = at_ms;
    if (at_ms < INFINITY) {
        t.it_value.tv_sec = (time_t)(at_ms / 1e3);
        t.it_value.tv_nsec = (long)((at_ms - (double)t.it_value.tv_sec * 1e3) * 1e6);
    }
    timerfd_settime(loop.alarm_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

/* Runs one round of callbacks; false: there were none. */
static bool step(uv_run_mode mode)
{
    int64_t before = loop.stats.callbacks;
    uv_run(&loop.uv, mode);
    return loop.stats.callbacks != before;
}

static bool is_posted(const LoopPort *port)
{
    return port != NULL ? port->posted : !TAILQ_EMPTY(&loop.posted);
}

static void sleep_until(const LoopPort *port, double until)
{
    while (!is_posted(port) && !loop.woken && loop_now_ms() < until) {
        set_alarm(until);
        loop.stats.waits++;
        step(UV_RUN_ONCE);
    }
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

int loop_wait(const LoopPort *port, double timeout_ms)
{
    if (holds > 0)
        return EDEADLK;
    if (loop_get() == NULL)
        return errno;
    double until = timeout_ms < 0 ? INFINITY : loop_now_ms() + fmin(timeout_ms, 1e12);
    gather();
    if (!is_posted(port) && timeout_ms != 0) {
        sleep_until(port, until);
        if (is_posted(port))
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

/* ---- descriptors ---- */

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

/* Open descriptors, except that of the listing itself. If it cannot be opened, all are in use. */
static int64_t count_open(void)
{
    int64_t n = -1;
    DIR *list = opendir("/proc/self/fd");
    if (list == NULL)
        return errno == EMFILE || errno == ENFILE ? INT64_MAX : 0;
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(list);
    return n;
}

int64_t loop_free_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return INT64_MAX;
    int64_t open = count_open(), max = (int64_t)limit.rlim_cur;
    return open < max ? max - open : 0;
}

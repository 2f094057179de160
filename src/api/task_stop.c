/* task_stop.c -- see task_stop.h. */
#include "api/task_stop.h"

#include <errno.h>
#include <lauxlib.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>

#include "loop/loop.h"

#define PATIENCE    2.0               /* seconds for the run to notice a stop */
#define FINISH_TIME 10.0              /* seconds for it to finish after that */
#define MAX_C_STACK (2 * 1024 * 1024) /* bytes; a thread has 8 MB */

enum {
    MAX_NAME = 1024,
    MAX_NAMES = 8,
    STEP_INTERVAL = 100,  /* instructions between two counts of steps */
    GRACE = 10000,        /* instructions from the first error to the second, for `__close` */
    RETRY_INTERVAL = 100, /* instructions until the next try where nothing may be raised */
    NO_GRACE = 5,         /* errors after which there is none */
    MAX_DEPTH = 100       /* ponder's frames to search for a protected one */
};

static char names[MAX_NAMES][MAX_NAME]; /* see stop_protect */
static int name_count;
static size_t root_length; /* of the common directory of ponder's files in names[0] */

static Frame *volatile running;     /* the topmost frame */
static volatile sig_atomic_t is_up; /* the flag: something may be due */

static volatile sig_atomic_t reason;  /* StopReason, until the next run begins */
static volatile sig_atomic_t pending; /* not raised yet */
static volatile sig_atomic_t raised;  /* raised, but the scheduler does not know yet */
static volatile sig_atomic_t times;   /* that it was raised */
static volatile sig_atomic_t obeyed;  /* the run is ending */
static void (*end_process)(void);
static void (*stock_handler)(int); /* the SIGINT handler of a stock lua5.4 */

static bool counting;
static lua_Integer steps, steps_limit;

/* ---- where an error may be raised ---- */

int stop_is_protected(const char *source)
{
    for (int i = 0; i < name_count; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(source, names[i], n) == 0 &&
            (source[n] == '.' || source[n] == '/' ||
             (source[n] == '\0' && n > 4 && strcmp(names[i] + n - 4, ".lua") == 0)))
            return 1;
    }
    return 0;
}

int stop_protect(const char *name)
{
    const char *slash = strrchr(name, '/');
    if (name_count == MAX_NAMES || strlen(name) >= MAX_NAME)
        return 0;
    if (name_count == 0)
        root_length = slash != NULL ? (size_t)(slash - name) + 1 : 0;
    for (int i = 0; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    strcpy(names[name_count++], name);
    return 1;
}

int stop_is_own(const char *source)
{
    return root_length > 0 && strncmp(source, names[0], root_length) == 0;
}

static bool stops(const Frame *f)
{
    return reason != STOP_NONE && !obeyed && (f->kind == FRAME_TASK || f->kind == FRAME_INNER);
}

static bool is_late(const Frame *f)
{
    return f->limit < HUGE_VAL && f->limit <= loop_now();
}

static bool is_due(const Frame *f)
{
    return f != NULL && (stops(f) || is_late(f));
}

/* Whether an error may be raised now. For a stop, looks outwards up to the first function of the
 * script; where there is none, ponder's own code may have caught it and be ending the run. A limit
 * waits for the script's own code: ponder's keeps its data consistent only where the script may
 * wait or raise. */
static bool may_raise(lua_State *L, bool for_stop)
{
    lua_Debug ar;
    for (int level = 0; level < MAX_DEPTH && lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "S", &ar);
        if (*ar.what == 'C')
            continue;
        if (!stop_is_own(ar.source))
            return true;
        if (!for_stop || stop_is_protected(ar.source))
            return false;
    }
    return for_stop && pending;
}

/* ---- timers ---- */

enum { RUN, WATCHDOG, TASK, TIMERS };

static volatile double rings_at[TIMERS] = {HUGE_VAL, HUGE_VAL, HUGE_VAL}; /* of loop_now */
static pthread_t owner;

static void on_timer(int signo);

static int next_timer(void)
{
    int next = RUN;
    for (int i = 0; i < TIMERS; i++)
        next = rings_at[i] < rings_at[next] ? i : next;
    return next;
}

/* The process's one timer rings for the earliest of ours. It ends waits, except for a task, which
 * may have ended long since: it is never taken back. */
static void start_timer(void)
{
    double at;
    owner = pthread_self();
    do {
        int next = next_timer();
        struct sigaction action = {.sa_handler = on_timer,
                                   .sa_flags = next == TASK ? SA_RESTART : 0};
        struct itimerval when = {0};
        at = rings_at[next];
        if (at < HUGE_VAL) {
            double seconds = fmin(fmax(at - loop_now(), 0), 1e6) + 1e-5; /* `at` has passed then */
            when.it_value.tv_sec = (time_t)seconds;
            when.it_value.tv_usec = (suseconds_t)((seconds - floor(seconds)) * 1e6);
            sigaction(SIGALRM, &action, NULL);
        }
        setitimer(ITIMER_REAL, &when, NULL);
    } while (at != rings_at[next_timer()]); /* a signal handler has set another */
}

static void set_timer(int which, double at)
{
    bool changes = at != rings_at[which];
    rings_at[which] = at;
    if (changes)
        start_timer();
}

static void arm(void);

static void on_timer(int signo)
{
    int saved = errno;
    double now = loop_now();
    if (!pthread_equal(pthread_self(), owner)) { /* a thread of a library */
        pthread_kill(owner, signo);
        errno = saved;
        return;
    }
    if (rings_at[WATCHDOG] <= now)
        end_process();
    if (rings_at[RUN] <= now) {
        rings_at[RUN] = HUGE_VAL;
        task_stop(STOP_TIMEOUT);
    }
    if (rings_at[TASK] <= now) {
        is_up = 1;
        arm();
        rings_at[TASK] = running != NULL && running->limit > now ? running->limit : HUGE_VAL;
    }
    start_timer(); /* for the next one */
    errno = saved;
}

void task_stop_after(double seconds)
{
    set_timer(RUN, loop_now() + seconds);
}

void task_stop_watch(void (*end)(void))
{
    end_process = end;
}

static void set_watchdog(double seconds)
{
    set_timer(WATCHDOG, end_process != NULL ? loop_now() + seconds : HUGE_VAL);
}

/* ---- the hook ---- */

/* The frame of the running task. */
static Frame *task_frame(void)
{
    Frame *f = running;
    while (f->kind != FRAME_TASK)
        f = f->below;
    return f;
}

/* Instructions until the hook: until the next error time for `__close`, less after each. */
static int interval(void)
{
    if (!is_due(running))
        return STEP_INTERVAL;
    int errors = stops(running) ? times : task_frame()->raised, n = errors > 0 ? GRACE : 1;
    for (; errors > 1 && n > 1; errors--)
        n /= 10;
    return n;
}

static void note_raised(bool for_stop)
{
    if (!for_stop) {
        task_frame()->raised++;
        return;
    }
    pending = 0;
    raised = 1;
    times++;
    set_watchdog(FINISH_TIME);
}

static const char *message_of(bool for_stop)
{
    return for_stop ? task_stop_message() : "the time is up";
}

/* Each of its calls may raise an error. */
static void hook(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    if (counting) {
        steps += lua_gethookcount(L);
        if (steps > steps_limit && reason == STOP_NONE)
            task_stop(STOP_STEPS);
    }
    const Frame *f = running;
    if (f == NULL || f->L != L || !is_due(f)) {
        /* Left over from an earlier run, or inherited from the creator. */
        lua_sethook(L, counting ? hook : NULL, counting ? LUA_MASKCOUNT : 0, STEP_INTERVAL);
        return;
    }
    bool for_stop = stops(f);
    if (!may_raise(L, for_stop)) {
        lua_sethook(L, hook, LUA_MASKCOUNT, for_stop ? RETRY_INTERVAL : 1);
        return;
    }
    note_raised(for_stop);
    lua_sethook(L, hook, LUA_MASKCOUNT, interval());
    luaL_where(L, 0);
    lua_pushstring(L, message_of(for_stop));
    lua_concat(L, 2);
    lua_error(L);
}

bool stop_is_armed(void)
{
    return is_up || counting;
}

bool stop_has_hook(lua_State *L)
{
    return lua_gethook(L) == hook;
}

/* Sets the hook in the running coroutine, if it is needed there. Keeps a count that has begun. The
 * flag is lowered first: a timer may ring in between. */
static void arm(void)
{
    const Frame *f = running;
    is_up = 0;
    bool due = is_due(f);
    if (due || (reason != STOP_NONE && !obeyed))
        is_up = 1;
    if ((due || (counting && f != NULL && f->kind != FRAME_LOOP)) &&
        (!stop_has_hook(f->L) || lua_gethookcount(f->L) > interval()))
        lua_sethook(f->L, hook, LUA_MASKCOUNT, interval());
}

bool stop_must_raise(lua_State *L)
{
    lua_Debug ar;
    const Frame *f = running;
    if (!is_up || !is_due(f))
        return false;
    if (stops(f) ? pending || end_process == NULL : task_frame()->raised == 0)
        return false;
    if (!lua_getstack(L, 1, &ar) || !lua_getinfo(L, "S", &ar))
        return true;
    return !(stops(f) ? stop_is_own(ar.source) : stop_is_protected(ar.source));
}

void stop_limit_steps(lua_Integer limit)
{
    counting = limit >= 0;
    steps = 0;
    steps_limit = limit;
    arm();
}

/* ---- requests to stop ---- */

void task_stop(StopReason why)
{
    int saved = errno;
    bool again = reason != STOP_NONE;
    if (!again)
        reason = why;
    else if (times > 0)
        times = NO_GRACE;
    pending = is_up = 1;
    if (again || why != STOP_INTERRUPT)
        set_watchdog(PATIENCE);
    arm();
    loop_wake();
    errno = saved;
}

StopReason task_stop_reason(void)
{
    return (StopReason)reason;
}

bool task_stop_is_pending(void)
{
    return pending;
}

bool task_stop_is_due(void)
{
    return pending || (is_up && running != NULL && is_late(running));
}

const char *task_stop_message(void)
{
    switch ((StopReason)reason) {
    case STOP_TIMEOUT: return "the time of the run is up";
    case STOP_STEPS: return "the steps of the run are spent";
    case STOP_DETACH: return "the run waits for its batches";
    default: return "interrupted!"; /* as in a stock lua5.4 */
    }
}

int task_stop_raise(lua_State *L)
{
    bool for_stop = reason != STOP_NONE;
    if (!for_stop || pending)
        note_raised(for_stop);
    return luaL_error(L, "%s", message_of(for_stop));
}

void stop_raise_pending(lua_State *L)
{
    if (pending && !obeyed)
        task_stop_raise(L);
}

static void on_stock_interrupt(int number)
{
    int saved = errno;
    stock_handler(number); /* it sets a hook, which runs once the wait is over */
    loop_wake();
    errno = saved;
}

void stop_open(void)
{
    struct sigaction action;
    if (end_process != NULL || sigaction(SIGINT, NULL, &action) != 0 ||
        (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler == SIG_DFL ||
        action.sa_handler == SIG_IGN || action.sa_handler == on_stock_interrupt)
        return;
    stock_handler = action.sa_handler;
    action.sa_handler = on_stock_interrupt;
    sigaction(SIGINT, &action, NULL);
}

void task_stop_forget(void)
{
    pending = raised = obeyed = times = 0;
    reason = STOP_NONE;
    set_timer(WATCHDOG, HUGE_VAL);
}

/* A stop that was raised outside any run is over; a pending one applies to this run. */
void stop_begin_run(void)
{
    raised = obeyed = times = 0;
    if (!pending)
        task_stop_forget();
}

StopNews stop_take(void)
{
    StopNews news = raised                           ? STOP_RAISED
                    : pending                        ? STOP_PENDING
                    : reason != STOP_NONE && !obeyed ? STOP_AGAIN
                                                     : STOP_NO_NEWS;
    times += news == STOP_AGAIN || news == STOP_PENDING;
    pending = raised = 0;
    return news;
}

void stop_obeyed(void)
{
    if (reason == STOP_NONE)
        return;
    obeyed = 1;
    pending = raised = 0;
    set_watchdog(FINISH_TIME);
}

/* ---- frames ---- */

/* The limit is kept in the extra space of the coroutine. */
_Static_assert(LUA_EXTRASPACE >= sizeof(double), "no room for a limit");

void limit_set(lua_State *co, double at)
{
    memcpy(lua_getextraspace(co), &at, sizeof at);
}

static void frame_set(Frame *f)
{
    atomic_signal_fence(memory_order_release); /* a signal handler reads *running */
    running = f;
    if (f != NULL && f->limit < rings_at[TASK])
        set_timer(TASK, f->limit);
    if (stop_is_armed())
        arm();
}

void frame_enter(Frame *f, lua_State *L, FrameKind kind, int can_wait)
{
    f->L = L;
    f->kind = kind;
    f->can_wait = can_wait;
    f->below = running;
    f->base = f->below != NULL ? f->below->base : (const char *)f;
    f->limit = kind == FRAME_INNER && f->below != NULL ? f->below->limit : HUGE_VAL;
    if (kind == FRAME_TASK) {
        memcpy(&f->limit, lua_getextraspace(L), sizeof f->limit);
        f->limit = f->limit < 0 ? loop_now() - f->limit : f->limit;
    }
    f->raised = 0;
    frame_set(f);
}

void frame_leave(const Frame *f)
{
    frame_set(f->below);
}

Frame *frame_running(void)
{
    return running;
}

int frame_stack_is_short(void)
{
    char here;
    const Frame *f = running;
    if (f == NULL)
        return 0;
    /* Works whichever way the stack grows. */
    return (uintptr_t)&here - (uintptr_t)f->base + MAX_C_STACK > 2 * (uintptr_t)MAX_C_STACK;
}

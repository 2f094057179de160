/* task_stop.c -- see task_stop.h. */
#include "api/task_stop.h"

#include <errno.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "api/task_frame.h"
#include "loop/loop.h"

enum {
    MAX_NAME = 1024,
    MAX_NAMES = 8,
    STEP_INTERVAL = 100,  /* instructions between two counts of steps */
    GRACE = 10000,        /* instructions from the first error to the second */
    GRACE_FACTOR = 10,    /* by which that shrinks with each error */
    RETRY_INTERVAL = 100, /* instructions until the next try in protected code */
    MAX_DEPTH = 100       /* ponder's frames to search for a protected one */
};

static char names[MAX_NAMES][MAX_NAME]; /* see stop_protect */
static int name_count;
static size_t root_length; /* of the common directory of ponder's files in names[0] */

volatile int stop_armed;

static volatile sig_atomic_t reason;  /* StopReason, until the next run begins */
static volatile sig_atomic_t pending; /* not raised yet */
static volatile sig_atomic_t raised;  /* raised, but the scheduler does not know yet */
static volatile sig_atomic_t obeyed;  /* the run is ending */
static volatile sig_atomic_t grace = GRACE;
static StopWatch *watch;
static void (*volatile preempt)(void);
static void (*stock_handler)(int); /* the SIGINT handler of a stock lua5.4 */

static int counting;
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

/* Whether a protected function runs, looking outwards up to the first one of the script. Without
 * any script, the answer is `caught`: ponder's own code, which caught the error, is ending the run.
 */
static int is_protected(lua_State *L, int caught)
{
    lua_Debug ar;
    for (int level = 0; level < MAX_DEPTH; level++) {
        if (!lua_getstack(L, level, &ar))
            return caught;
        lua_getinfo(L, "S", &ar);
        if (*ar.what == 'C')
            continue;
        if (stop_is_protected(ar.source))
            return 1;
        if (!stop_is_own(ar.source))
            return 0;
    }
    return 0;
}

static int is_stoppable(const Frame *f)
{
    return f != NULL && (f->kind == FRAME_TASK || f->kind == FRAME_INNER);
}

static int is_armed(void)
{
    return counting || limit_is_reached || reason != STOP_NONE;
}

/* ---- the hook ---- */

static void tell(StopEvent event)
{
    if (watch != NULL)
        watch(event, reason);
}

static void stop_hook(lua_State *L, lua_Debug *ar);

/* Instructions until the next call of the hook. */
static int interval(void)
{
    int wanted = reason == STOP_NONE || obeyed ? STEP_INTERVAL : pending ? 1 : (int)grace;
    int for_limit = limit_is_reached ? limit_interval() : wanted;
    return for_limit < wanted ? for_limit : wanted;
}

static void arm(lua_State *L)
{
    lua_sethook(L, stop_hook, LUA_MASKCOUNT, interval());
}

/* Whether an error is due in `L`, which ran `ran` instructions since the last call. */
static int is_due(lua_State *L, int ran)
{
    return reason != STOP_NONE && !obeyed && (pending || ran >= grace) &&
           is_stoppable(frame_running()) && frame_running()->L == L;
}

static void count_steps(int ran)
{
    steps += ran;
    if (steps > steps_limit && reason == STOP_NONE)
        task_stop(STOP_STEPS);
}

/* ---- the time limit of a task ---- */

/* Raises "file:line: message" at the next instruction. */
static void raise_error(lua_State *L, const char *message)
{
    luaL_where(L, 0);
    lua_pushstring(L, message);
    lua_concat(L, 2);
    lua_error(L);
}

/* Whether the innermost Lua function belongs to the script, not to ponder. */
static int runs_script(lua_State *L)
{
    lua_Debug ar;
    return lua_getstack(L, 0, &ar) && lua_getinfo(L, "S", &ar) && !stop_is_own(ar.source);
}

/* Ends the running task, whose time is up: leaves its coroutine, or, where it cannot yield, raises
 * an error up to where it can. Waits until the script's own code runs: ponder's keeps its data
 * consistent only where the script may wait or raise. */
static void end_task(lua_State *L)
{
    Frame *f = frame_running();
    if (f->L != L)
        return;
    if (!runs_script(L)) {
        lua_sethook(L, stop_hook, LUA_MASKCOUNT, 1);
    } else if (f->kind == FRAME_TASK && lua_isyieldable(L)) {
        f->left = 1;
        lua_yield(L, 0);
    } else {
        limit_note_error();
        arm(L);
        raise_error(L, LIMIT_MESSAGE);
    }
}

int stop_has_hook(lua_State *L)
{
    return lua_gethook(L) == stop_hook;
}

static void stop_hook(lua_State *L, lua_Debug *ar)
{
    int ran = lua_gethookcount(L);
    (void)ar;
    if (counting)
        count_steps(ran);
    if (!stop_armed) { /* left over from an earlier run, or inherited from the creator */
        lua_sethook(L, NULL, 0, 0);
        return;
    }
    if (!is_due(L, ran)) {
        if (reason != STOP_NONE)
            arm(L);
        if (limit_is_reached)
            end_task(L);
        return;
    }
    if (is_protected(L, !pending)) {
        int soon = (int)grace < RETRY_INTERVAL ? (int)grace : RETRY_INTERVAL;
        lua_sethook(L, stop_hook, LUA_MASKCOUNT, soon);
        return;
    }
    if (!pending && grace > 1)
        grace /= GRACE_FACTOR;
    pending = 0;
    raised = 1;
    tell(STOP_WAS_RAISED);
    arm(L);
    raise_error(L, task_stop_message());
}

int stop_must_raise(lua_State *L)
{
    lua_Debug ar;
    if (reason == STOP_NONE || obeyed || pending || !is_stoppable(frame_running()))
        return 0;
    return !lua_getstack(L, 1, &ar) || !lua_getinfo(L, "S", &ar) || !stop_is_own(ar.source);
}

void stop_arm(void)
{
    const Frame *f = frame_running();
    if (limit_is_reached && !limit_check()) {
        stop_armed = 0;
        if (is_armed()) /* after setting it to 0: a signal handler may set it to 1 in between */
            stop_armed = 1;
    }
    if (!stop_armed || !(is_stoppable(f) || limit_is_reached))
        return;
    /* Keep a count that has already begun. */
    lua_Hook hook = lua_gethook(f->L);
    if (hook == stop_hook && lua_gethookcount(f->L) <= interval())
        return;
    arm(f->L);
}

/* ---- requests to stop ---- */

void task_stop(StopReason why)
{
    int saved = errno;
    int again = reason != STOP_NONE;
    if (again)
        grace = 1;
    else
        reason = why;
    pending = stop_armed = 1;
    tell(again ? STOP_CAME_AGAIN : STOP_CAME);
    stop_arm();
    loop_wake();
    errno = saved;
    stop_preempt();
}

void stop_preempt(void)
{
    if (preempt != NULL)
        preempt();
}

StopReason task_stop_reason(void)
{
    return (StopReason)reason;
}

void task_stop_watch(StopWatch *new_watch)
{
    watch = new_watch;
}

void task_stop_preempt(void (*leave)(void))
{
    preempt = leave;
}

int task_stop_is_pending(void)
{
    return pending;
}

const char *task_stop_message(void)
{
    switch ((StopReason)reason) {
    case STOP_TIMEOUT: return "the time of the run is up";
    case STOP_STEPS: return "the steps of the run are spent";
    default: return "interrupted!"; /* as in a stock lua5.4 */
    }
}

int task_stop_raise(lua_State *L)
{
    if (reason == STOP_NONE && limit_is_reached) {
        limit_note_error();
        return luaL_error(L, LIMIT_MESSAGE);
    }
    if (pending) {
        pending = 0;
        raised = 1;
        tell(STOP_WAS_RAISED);
    }
    return luaL_error(L, "%s", task_stop_message());
}

void stop_raise_pending(lua_State *L)
{
    if (pending && !obeyed)
        task_stop_raise(L);
}

void stop_limit_steps(lua_Integer limit)
{
    counting = limit >= 0;
    steps = 0;
    steps_limit = limit;
    stop_armed = is_armed();
    stop_arm();
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
    if (watch != NULL || sigaction(SIGINT, NULL, &action) != 0 ||
        (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler == SIG_DFL ||
        action.sa_handler == SIG_IGN || action.sa_handler == on_stock_interrupt)
        return;
    stock_handler = action.sa_handler;
    action.sa_handler = on_stock_interrupt;
    sigaction(SIGINT, &action, NULL);
}

void task_stop_forget(void)
{
    pending = raised = obeyed = 0;
    reason = STOP_NONE;
    grace = GRACE;
    stop_armed = is_armed();
}

/* A stop that was raised outside any run is over; a pending one applies to this run. */
void stop_begin_run(void)
{
    raised = obeyed = 0;
    grace = GRACE;
    if (!pending)
        task_stop_forget();
}

StopNews stop_take(void)
{
    StopNews news = STOP_NO_NEWS;
    if (raised)
        news = STOP_RAISED;
    else if (pending)
        news = STOP_PENDING;
    else if (reason != STOP_NONE && !obeyed)
        news = STOP_AGAIN;
    if (news == STOP_AGAIN && grace > 1)
        grace /= GRACE_FACTOR;
    pending = raised = 0;
    return news;
}

void stop_obeyed(void)
{
    if (reason == STOP_NONE)
        return;
    obeyed = 1;
    pending = raised = 0;
    tell(STOP_OBEYED);
}

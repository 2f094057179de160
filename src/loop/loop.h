/*
 * loop.h -- the event loop of the process, on libuv: all waiting happens here.
 *
 *   descriptors   loop_watch      a callback whenever one is ready
 *   timers        loop_timer      a callback once, when due
 *   signals       loop_signal     a callback after each
 *   directories   loop_directory  a callback after changes to their files
 *   processes     loop/process.h
 *
 * Callbacks run inside loop_wait, on the thread that called it, and never touch Lua: they append to
 * their owner's bounded buffer. An owner with something for Lua posts its port; the scheduler takes
 * the numbers of posted ports in batches and reads the owners' buffers:
 *
 *     descriptor is ready --> callback --> owner's buffer, loop_post --> loop_take --> Lua
 *
 * A process has one loop, used by one thread; the first call opens it. A forked child gets a new
 * loop, and must neither use nor end its parent's handles and ports. Handles are freed inside
 * the loop some time after they were ended, so they are allocated by malloc.
 */
#ifndef PONDER_LOOP_LOOP_H
#define PONDER_LOOP_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/* The monotonic clock used here, in milliseconds and in seconds. */
double loop_now_ms(void);
double loop_now(void);

/* ---- handles ---- */

typedef struct LoopHandle LoopHandle;

typedef enum LoopEvents { LOOP_READ = 1, LOOP_WRITE = 2 } LoopEvents;

typedef void (*LoopOnReady)(void *arg, int fd, int events);
typedef void (*LoopOnEvent)(void *arg);

/* Calls `on_ready` as long as `fd` is ready for one of `events` (a broken one is ready for all).
 * Makes the open file of the descriptor non-blocking. A descriptor can have only one watch, which
 * must end before the descriptor is closed. NULL: see errno. */
LoopHandle *loop_watch(int fd, int events, LoopOnReady on_ready, void *arg);

/* Changes the events to watch for; 0 pauses. Returns 0 or an errno value. */
int loop_watch_for(LoopHandle *watch, int events);

/* Makes a timer, not set yet. NULL: see errno. */
LoopHandle *loop_timer(LoopOnEvent on_due, void *arg);

/* Calls back once after `delay_ms`, rounded up to milliseconds; < 0 or infinite: never. */
void loop_timer_set(LoopHandle *timer, double delay_ms);

/* Catches a signal and calls back soon after a delivery (several may be merged); not while Lua code
 * runs: see loop_on_stuck_signal. */
LoopHandle *loop_signal(int number, LoopOnEvent on_signal, void *arg);

/* If SIGINT, SIGTERM or SIGHUP of loop_signal arrives while an earlier one has been undelivered for
 * half a second, because Lua code is running, calls `handler` from the signal handler. */
void loop_on_stuck_signal(void (*handler)(int number));

/* Calls back soon after a file of the directory was created, written, renamed or removed (several
 * changes may be merged). NULL: see errno. */
LoopHandle *loop_directory(const char *path, LoopOnEvent on_change, void *arg);

/* Ends any of them. NULL is allowed. */
void loop_end(LoopHandle *h);

/* ---- ports: news for Lua ---- */

/* The first member of its owner. Numbers are never reused. */
typedef struct LoopPort {
    int64_t number;
    bool posted;
    TAILQ_ENTRY(LoopPort) link; /* among the posted ones */
} LoopPort;

void loop_port_open(LoopPort *p);

/* The port's owner has something for Lua. Cannot fail. Unpost the port before its owner is freed.
 */
void loop_post(LoopPort *p);
void loop_unpost(LoopPort *p);

/* Unposts ports in the order they were posted, and writes their numbers. */
size_t loop_take(int64_t *numbers, size_t capacity);

/* ---- waiting ---- */

/* Runs the callbacks of what is ready. If no port is posted then, waits until one is, `timeout_ms`
 * have passed (< 0: no limit), or loop_wake is called. Returns 0, or an errno value if the loop
 * cannot be opened or is held. */
int loop_wait(double timeout_ms);

/* Makes loop_wait fail with EDEADLK, for +1, until as many calls with -1: what callbacks may free
 * is being read. */
void loop_hold(int change);

/* Ends the current wait, or else the next. Safe in signal handlers and other threads. */
void loop_wake(void);

typedef struct LoopStats {
    int64_t waits;     /* times that the process went to sleep */
    int64_t callbacks; /* of all kinds */
    int64_t posts;
    int64_t handles; /* existing watches, timers, signals, directories and processes */
} LoopStats;

LoopStats loop_stats(void);

/* ---- the process ---- */

/* Its id, without a system call: ownership is checked often. */
pid_t loop_process_id(void);

/* ---- descriptors ---- */

/* Raises the soft limit on descriptors to the hard one. */
void loop_raise_descriptor_limit(void);

/* A hint to append to an error message if descriptors have run out, else "". */
const char *loop_descriptor_hint(int error);

#endif

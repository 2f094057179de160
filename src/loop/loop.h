/*
 * loop.h -- the event loop of the process, on libuv: everything that waits waits here.
 *
 *   descriptors   loop_watch      a callback whenever one is ready
 *   timers        loop_timer      a callback once, when the time has come
 *   signals       loop_signal     a callback after each
 *   directories   loop_directory  a callback after changes of their files
 *   processes     loop/process.h
 *
 * Callbacks run inside loop_wait, on the thread that called it, and never touch Lua: they append to
 * a bounded buffer of their owner. An owner with something for Lua posts its port; the scheduler
 * takes the numbers of posted ports in batches and fetches from each owner what it has:
 *
 *     descriptor is ready --> callback --> owner's buffer, loop_post --> loop_take --> Lua
 *
 * There is one loop a process, for one thread; it opens with the first call. A forked child begins
 * with a loop of its own, and must leave what its parent's loop knew alone (free the memory, end
 * nothing). Handles are released inside the loop after they were ended: their memory is libc's.
 */
#ifndef PONDER_LOOP_LOOP_H
#define PONDER_LOOP_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Milliseconds, and seconds, on the clock of everything here: it only goes forward. */
double loop_now_ms(void);
double loop_now(void);

/* --- what may wait ------------------------------------------------------------------------- */

typedef struct LoopWatch LoopWatch;
typedef struct LoopTimer LoopTimer;
typedef struct LoopSignal LoopSignal;
typedef struct LoopDirectory LoopDirectory;

typedef enum LoopEvents { LOOP_READ = 1, LOOP_WRITE = 2 } LoopEvents;

typedef void (*LoopOnReady)(void *arg, int fd, int events);
typedef void (*LoopOnEvent)(void *arg);

/* Calls `on_ready` as long as `fd` is ready for one of `events` (a broken one is ready for all).
 * The descriptor becomes non-blocking, as does what shares its open file with it.
 * One watch a descriptor; end it before closing the descriptor. NULL: errno says why. */
LoopWatch *loop_watch(int fd, int events, LoopOnReady on_ready, void *arg);

/* Watches for other events from now on; 0 pauses. Returns 0, or an errno value. */
int loop_watch_for(LoopWatch *w, int events);
void loop_unwatch(LoopWatch *w); /* NULL is allowed, here and below */

/* A timer that is not set yet; set again from its own callback it repeats. NULL: errno says why. */
LoopTimer *loop_timer(LoopOnEvent on_due, void *arg);

/* Calls back once when so many milliseconds have passed, rounded up; < 0, or infinite: never. */
void loop_timer_set(LoopTimer *t, double delay_ms);
void loop_timer_end(LoopTimer *t);

/* Catches a signal and calls back soon after each delivery (several may be one). While Lua code
 * runs nothing is called back: what must stop that needs a handler of its own (see loop_wake). */
LoopSignal *loop_signal(int number, LoopOnEvent on_signal, void *arg);
void loop_signal_end(LoopSignal *s);

/* Calls back soon after a file of a directory was made, written, renamed or removed (several
 * changes may be one). NULL: errno says why. */
LoopDirectory *loop_directory(const char *path, LoopOnEvent on_change, void *arg);
void loop_directory_end(LoopDirectory *d);

/* --- news for Lua --------------------------------------------------------------------------- */

/* Part of its owner. Its number is never used again. */
typedef struct LoopPort {
    int64_t number;
    bool posted;
    struct LoopPort *prev, *next;
} LoopPort;

void loop_port_open(LoopPort *p);
void loop_port_close(LoopPort *p);

/* There is something for Lua at this port, until it is taken. Needs no memory. */
void loop_post(LoopPort *p);

/* There is nothing any more. */
void loop_unpost(LoopPort *p);

/* The numbers of posted ports, the first posted first. */
size_t loop_take(int64_t *numbers, size_t capacity);

/* --- waiting -------------------------------------------------------------------------------- */

/* Runs callbacks of what is ready. If no port is posted then, waits until one is, `timeout_ms` have
 * passed (< 0: no limit), or loop_wake was called. Returns 0, or why there is no loop: an errno
 * value. */
int loop_wait(double timeout_ms);

/* The same, until that port is posted: for who waits for one thing alone. */
int loop_wait_for(const LoopPort *port, double timeout_ms);

/* Ends a wait that goes on, or else the next. Safe in signal handlers and in other threads. */
void loop_wake(void);

typedef struct LoopStats {
    int64_t waits;     /* times that the process went to sleep */
    int64_t callbacks; /* of all kinds */
    int64_t posts;
    int64_t handles; /* watches, timers, signals, directories and processes that there are */
} LoopStats;

LoopStats loop_stats(void);

/* --- descriptors ---------------------------------------------------------------------------- */

/* Raises the soft limit on descriptors to the hard one. */
void loop_raise_descriptor_limit(void);

/* After an error message of the system: what helps when descriptors ran out, else nothing. */
const char *loop_descriptor_hint(int error);

/* How many more descriptors the process may open now. */
int64_t loop_free_descriptors(void);

#endif

/*
 * sandbox.h -- Lua states with limits, for untrusted programs.
 *
 * A sandbox has Lua's pure library and the values copied into it. A program that exceeds a limit is
 * left by a longjmp, even from C (a backtracking pattern, string.rep("", 1e18)): no pcall sees it,
 * nothing of it runs any more, and its memory is freed as a whole. That is safe because such C code
 * holds nothing but memory of the sandbox; only the allocator itself is never left halfway.
 */
#ifndef PONDER_API_SANDBOX_H
#define PONDER_API_SANDBOX_H

#include <lua.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/queue.h>

#include "core/alloc.h"

typedef enum SandboxEnd {
    SANDBOX_DONE,   /* it returned: the results are on the stack of its state */
    SANDBOX_FAILED, /* it raised an error, which is there */
    SANDBOX_MEMORY,
    SANDBOX_STEPS,
    SANDBOX_TIMEOUT,
    SANDBOX_REFUSED, /* by `fill` */
    SANDBOX_STOPPED  /* by a stop of the run (task_stop.h) */
} SandboxEnd;

typedef struct SandboxLimits {
    size_t memory; /* bytes */
    lua_Integer steps;
    double seconds;
} SandboxLimits;

typedef struct SandboxBlock SandboxBlock;

/* All zeros before sandbox_run. */
typedef struct Sandbox {
    lua_State *S;
    SandboxLimits limits;
    lua_Integer steps; /* left */
    int interval;      /* instructions between two counts */
    Alloc alloc;
    LIST_HEAD(, SandboxBlock) blocks; /* all of its memory */
    size_t bytes;
    size_t refused;                   /* the size last refused; 0 after a success */
    volatile sig_atomic_t allocating; /* in the allocator, which must not be left */
    volatile sig_atomic_t wanted;     /* a SandboxEnd to leave with after it */
    volatile sig_atomic_t can_leave, left;
    sigjmp_buf out;
} Sandbox;

/* Sets globals of a new state; returns 0 if it cannot. It must not raise. */
typedef int SandboxFill(lua_State *S, void *arg);

/* Makes a state, calls `fill(S, arg)`, and runs the code. Raises nothing. */
SandboxEnd sandbox_run(Sandbox *s, const char *code, size_t size, SandboxFill *fill, void *arg);

/* Frees its memory without running any of its code. */
void sandbox_close(Sandbox *s);

#endif

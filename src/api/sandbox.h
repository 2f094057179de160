/*
 * sandbox.h -- Lua states for programs that nobody has read, each with limits of its own.
 *
 * A sandbox has Lua's pure library, and what is copied into it. What goes beyond a limit is left
 * where it stands, by a jump, even in C (a pattern that backtracks, string.rep("", 1e18)): no pcall
 * sees it, nothing of the program runs any more, and its memory is given back as a whole. That is
 * safe since all that such C code has is memory of the sandbox; its allocator alone is not left
 * halfway.
 */
#ifndef PONDER_API_SANDBOX_H
#define PONDER_API_SANDBOX_H

#include <lua.h>
#include <setjmp.h>
#include <signal.h>

#include "core/alloc.h"

typedef enum SandboxEnd {
    SANDBOX_DONE,   /* it has returned: its results are on the stack of its state */
    SANDBOX_FAILED, /* it has raised: the error is there */
    SANDBOX_MEMORY,
    SANDBOX_STEPS,
    SANDBOX_TIMEOUT,
    SANDBOX_REFUSED, /* by `fill` */
    SANDBOX_STOPPED  /* by what stops the run (l_task.h) */
} SandboxEnd;

typedef struct SandboxLimits {
    size_t memory; /* bytes */
    lua_Integer steps;
    double seconds;
} SandboxLimits;

typedef struct SandboxBlock SandboxBlock;

/* All zeros: there is none. */
typedef struct Sandbox {
    lua_State *S;
    SandboxLimits limits;
    lua_Integer steps; /* left */
    int interval;      /* instructions between two counts */
    Alloc alloc;
    SandboxBlock *blocks; /* all of its memory */
    size_t bytes;
    size_t refused;                           /* the size that was refused, until there is room */
    volatile sig_atomic_t allocating, wanted; /* the end that came meanwhile */
    volatile sig_atomic_t can_leave, left;
    sigjmp_buf out;
} Sandbox;

/* Sets globals of a new state; returns 0 where it cannot. It raises no error in S. */
typedef int SandboxFill(lua_State *S, void *arg);

/* Makes a state, calls `fill(S, arg)`, and runs the code. Raises nothing. */
SandboxEnd sandbox_run(Sandbox *s, const char *code, size_t size, SandboxFill *fill, void *arg);

/* Gives back its memory; nothing of it runs. */
void sandbox_close(Sandbox *s);

/* The sandbox of a state. */
Sandbox *sandbox_of(lua_State *S);

/* Opens Lua's pure library in its state (sandbox_library.c). */
void sandbox_open_library(lua_State *S);

/* Copies the value at `index` of one state to the top of another, by way of the table at `memo` of
 * that, which keeps what has been copied, so that what is shared stays shared. Returns 1; or 0, and
 * writes to `problem` what cannot be copied and where in the value (sandbox_copy.c). */
enum { SANDBOX_PROBLEM = 300 };
int sandbox_copy(lua_State *from, int index, lua_State *to, int memo, char *problem);

/* Instructions that need not be run to be counted. */
void sandbox_charge(Sandbox *s, lua_Integer steps);

#endif

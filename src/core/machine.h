/*
 * machine.h -- what the three reasoning machines (tot, got, trm) have in common.
 *
 * A machine is a status, the model calls that are outstanding, and what the kind of machine adds:
 * its struct begins with a Machine. It knows numbers only. Texts (thoughts, prompts, replies) stay
 * with the caller, who keeps one beside each node: so a text is stored once, and clones share it.
 *
 * Statuses.  idle, completed and error are common to all; a kind's own (busy) ones follow them.
 *
 *     idle --start--> busy <--> busy --> completed
 *                      |
 *                      +--> error           completed and error are final: nothing leaves them
 *
 * Which busy status may follow which is the kind's table of moves; machine_move takes no other.
 *
 * Calls.  Each has a number, in order of creation: 0 is the call that the caller named when it
 * started the machine, n > 0 is called "cN". Calls that are open wait for a reply; they leave in
 * any order. The current call is the oldest open one or, where none is open, the last that was
 * current.
 */
#ifndef PONDER_CORE_MACHINE_H
#define PONDER_CORE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/vec.h"

enum {
    MACHINE_IDLE,
    MACHINE_COMPLETED,
    MACHINE_ERROR,
    MACHINE_BUSY /* the first of the kind's own */
};

#define MACHINE_NO_NUMBER UINT64_MAX

typedef struct MachineMove {
    uint8_t from, to;
    const char *by; /* the message, or what was decided */
} MachineMove;

/* What tells one kind of machine from another: constant, one a kind. */
typedef struct MachineKind {
    const char *name;
    const char *const *statuses; /* indexed by status, NULL at the end */
    const char *const *calls;    /* what a call can be about, NULL at the end */
    const MachineMove *moves;
    size_t move_count;
} MachineKind;

typedef struct MachineCall {
    uint64_t number;
    uint32_t kind;    /* an index into MachineKind.calls */
    uint32_t subject; /* a node, a slot: the kind of machine knows */
} MachineCall;

typedef struct Machine {
    Alloc alloc;
    const MachineKind *kind;
    uint8_t status;
    MachineCall *calls; /* open ones, oldest first */
    uint32_t call_count;
    size_t call_capacity;
    uint64_t next_number;
    uint64_t taken_number;          /* the caller's own id reads "cN": this N is left out */
    MachineCall current;            /* number is MACHINE_NO_NUMBER before the start */
    double started_at, finished_at; /* ms by the caller's clock; NaN where absent */
} Machine;

void machine_init(Machine *m, const Alloc *alloc, const MachineKind *kind);
void machine_free(Machine *m);

/* Makes `to`, fresh from machine_init, equal to `from`. False: out of memory. */
bool machine_copy(Machine *to, const Machine *from);

static inline bool machine_is_final(const Machine *m)
{
    return m->status == MACHINE_COMPLETED || m->status == MACHINE_ERROR;
}
static inline bool machine_is_busy(const Machine *m)
{
    return m->status >= MACHINE_BUSY;
}

/* Whether the kind's table has this move; staying where one is needs none. */
bool machine_may_move(const Machine *m, uint8_t to);

/* Takes the move, or returns false and changes nothing. */
bool machine_move(Machine *m, uint8_t to);

/* idle -> `to`, with call 0 open. `taken` is the N of a caller's id that reads "cN", else
 * MACHINE_NO_NUMBER. False: not idle, no such move, or out of memory; nothing is changed. */
bool machine_start(Machine *m, uint8_t to, uint64_t taken, uint32_t kind, uint32_t subject,
                   double now);

/* Room for `more` calls, so that opening them cannot fail. False: out of memory. */
bool machine_reserve(Machine *m, uint32_t more);

/* Opens a call for which room was reserved and returns its number. */
uint64_t machine_open(Machine *m, uint32_t kind, uint32_t subject);

/* The open call of that number, or NULL. The pointer holds until a call is opened or closed. */
const MachineCall *machine_find(const Machine *m, uint64_t number);

/* A reply is in: the call is closed. False: it was not open. */
bool machine_close(Machine *m, uint64_t number);

/* Ends the run (`status` is completed or error) and drops the calls that are open. False: the
 * table does not have the move. */
bool machine_finish(Machine *m, uint8_t status, double now);

/* What a machine was when it was saved. The caller has checked that status and kinds exist. */
typedef struct MachineSaved {
    uint8_t status;
    const MachineCall *calls;
    uint32_t call_count;
    uint64_t next_number, taken_number;
    MachineCall current;
    double started_at, finished_at;
} MachineSaved;

/* Makes a fresh machine what was saved. False: out of memory, or the parts do not fit together
 * (a busy machine without open calls, the reverse, or numbers out of order). */
bool machine_restore(Machine *m, const MachineSaved *saved);

#endif

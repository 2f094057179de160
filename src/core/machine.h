/*
 * machine.h -- what the reasoning machines (tot, got, trm) have in common.
 *
 * A machine is a status, its open model calls, and what each kind adds in a struct that begins with
 * a Machine. It handles numbers only. Texts (thoughts, prompts, replies) stay with the caller, one
 * for each node, so that clones share them.
 *
 * Statuses.  idle, completed and error are common to all; a kind's own (busy) ones follow.
 *
 *     idle --start--> busy <--> busy --> completed
 *                      |
 *                      +--> error           completed and error are final
 *
 * Each kind has a table of the moves between statuses; machine_move refuses all others.
 *
 * Calls.  Each has a number, in order of creation: 0 is the call that the caller named when it
 * started the machine, n > 0 is called "cN". Open calls wait for a reply and close in any order.
 * The current call is the oldest open one, or the last current one if none is open.
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
    MACHINE_BUSY /* the first status of a kind's own */
};

#define MACHINE_NO_NUMBER UINT64_MAX

typedef struct MachineMove {
    uint8_t from, to;
    const char *by; /* the message or decision that causes it */
} MachineMove;

/* One constant for each kind of machine. */
typedef struct MachineKind {
    const char *name;
    const char *const *statuses; /* indexed by status, NULL at the end */
    const char *const *calls;    /* names of the kinds of call, NULL at the end */
    const MachineMove *moves;
    size_t move_count;
} MachineKind;

typedef struct MachineCall {
    uint64_t number;
    uint32_t kind;    /* an index into MachineKind.calls */
    uint32_t subject; /* a node or a slot, depending on the kind of machine */
} MachineCall;

typedef struct Machine {
    Alloc alloc;
    const MachineKind *kind;
    uint8_t status;
    MachineCall *calls; /* open ones, oldest first */
    uint32_t call_count;
    size_t call_capacity;
    uint64_t next_number;
    uint64_t reserved_number;       /* N, if the caller named its own call "cN": skipped */
    MachineCall current;            /* number is MACHINE_NO_NUMBER before the start */
    double started_at, finished_at; /* ms by the caller's clock; NaN where absent */
} Machine;

void machine_init(Machine *m, const Alloc *alloc, const MachineKind *kind);
void machine_free(Machine *m);

/* Makes `to`, fresh from machine_init, equal to `from`. False: out of memory. */
bool machine_copy(Machine *to, const Machine *from);

static inline bool machine_is_busy(const Machine *m)
{
    return m->status >= MACHINE_BUSY;
}

/* False: the kind's table does not have the move; nothing is changed. A busy machine may always
 * stay in its status. */
bool machine_move(Machine *m, uint8_t to);

/* Moves from idle to the first busy status and opens call 0, of the first kind, with subject 0.
 * `reserved` is the N of a caller's id "cN", else MACHINE_NO_NUMBER. False: not idle, or out of
 * memory; nothing is changed. */
bool machine_start(Machine *m, uint64_t reserved, double now);

/* Reserves room for `more` calls, so that opening them cannot fail. False: out of memory. */
bool machine_reserve(Machine *m, uint32_t more);

/* Opens a call for which room was reserved and returns its number. */
uint64_t machine_open(Machine *m, uint32_t kind, uint32_t subject);

/* The open call of that number, or NULL. The pointer holds until a call is opened or closed. */
const MachineCall *machine_find(const Machine *m, uint64_t number);

/* Closes a call whose reply has arrived. False: it was not open. */
bool machine_close(Machine *m, uint64_t number);

/* Ends the run (`status` is completed or error) and drops open calls. False: no such move. */
bool machine_finish(Machine *m, uint8_t status, double now);

/* Whether a machine that was filled in from outside is in a possible state: only a busy one has
 * open calls, in the order of their numbers. */
bool machine_is_coherent(const Machine *m);

#endif

/*
 * trm.h -- TRM: an answer is reasoned about, graded and improved, over and over, until it is good
 * enough, no longer gets better, or has had its number of steps.
 *
 * After "Less is More: Recursive Reasoning with Tiny Networks" (Jolicoeur-Martineau 2025), carried
 * over to language models as recorded runs of the published machine do it.
 *
 *     from         to           on
 *     idle         reasoning    start
 *     reasoning    supervising  reasoning
 *     supervising  improving    supervision: no reason to halt (or it is not asked here)
 *     supervising  completed    supervision: TRM_AFTER_SUPERVISION, and a reason to halt
 *     improving    reasoning    improvement: the next step
 *     improving    completed    improvement: TRM_AFTER_IMPROVEMENT, and a reason to halt
 *     reasoning    error        error
 *     supervising  error        error
 *     improving    error        error
 *
 * One call is open while busy. A step is one round through the three; the first is 1. With n the
 * step, there have been
 *
 *                                     grades    improvements
 *     reasoning, supervising          n - 1     n - 1
 *     improving                       n         n - 1
 *     completed                       n         n - 1, or n when halted after the improvement
 *     error                           n - 1 or n, and n - 1
 *
 * which is what makes a saved machine worth restoring. Texts are with the caller (machine.h).
 */
#ifndef PONDER_CORE_TRM_H
#define PONDER_CORE_TRM_H

#include "core/machine.h"

enum { TRM_REASONING = MACHINE_BUSY, TRM_SUPERVISING, TRM_IMPROVING };
enum { TRM_CALL_REASON, TRM_CALL_SUPERVISE, TRM_CALL_IMPROVE };
enum { TRM_AFTER_SUPERVISION, TRM_AFTER_IMPROVEMENT };

typedef enum TrmReason {
    TRM_GOES_ON,
    TRM_ACT_THRESHOLD,
    TRM_CONVERGENCE_DETECTED,
    TRM_MAX_STEPS,
} TrmReason;

typedef struct TrmOptions {
    uint32_t max_steps;
    double act_threshold;
    uint8_t halt_check;
} TrmOptions;

typedef struct Trm {
    Machine machine;
    TrmOptions options;
    uint32_t step; /* 0 before the start */
    uint32_t improvements;
    double *scores; /* all grades, oldest first */
    uint32_t score_count;
    size_t score_capacity;
    double best_score; /* 0 until an answer was graded above it */
} Trm;

extern const MachineKind trm_kind;

typedef enum TrmOutcome { TRM_DONE, TRM_NO_MEMORY, TRM_REFUSED } TrmOutcome;

/* For a struct that machine_init has begun and that is otherwise zero. */
void trm_init(Trm *t, const TrmOptions *options);
void trm_free(Trm *t);
TrmOutcome trm_copy(Trm *to, const Trm *from);

/* The reply to the open call is in: it is closed, and `*next` is the call that takes its place.
 * TRM_REFUSED where no such call is open in this status. */
TrmOutcome trm_reasoned(Trm *t, uint64_t number, uint64_t *next);

/* As trm_reasoned. Where `*reason` is not TRM_GOES_ON no call is opened, the status stays, and the
 * caller ends the run with machine_finish. `*better`: this is the best grade so far. */
TrmOutcome trm_graded(Trm *t, uint64_t number, double score, bool *better, TrmReason *reason,
                      uint64_t *next);
TrmOutcome trm_improved(Trm *t, uint64_t number, TrmReason *reason, uint64_t *next);

/* The critique has no grade: its call is closed, and `*next` asks for another one. */
TrmOutcome trm_ungraded(Trm *t, uint64_t number, uint64_t *next);

/* The last grade; 0 before the first. */
double trm_confidence(const Trm *t);

/* What a machine, already restored as a Machine, had done. TRM_REFUSED where that does not fit its
 * status. `scores` are within 0..1. */
TrmOutcome trm_load(Trm *t, uint32_t step, uint32_t improvements, const double *scores,
                    uint32_t score_count);

#endif

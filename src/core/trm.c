/*
 * trm.c -- the reason, supervise, improve cycle; see trm.h.
 */
#include "core/trm.h"

#include <string.h>

#include "core/act.h"

static const char *const statuses[] = {"idle",        "completed", "error", "reasoning",
                                       "supervising", "improving", NULL};
static const char *const calls[] = {"reason", "supervise", "improve", NULL};

static const MachineMove moves[] = {
    {MACHINE_IDLE, TRM_REASONING, "start"},
    {TRM_REASONING, TRM_SUPERVISING, "reasoning"},
    {TRM_SUPERVISING, TRM_IMPROVING, "supervision"},
    {TRM_SUPERVISING, MACHINE_COMPLETED, "supervision"},
    {TRM_IMPROVING, TRM_REASONING, "improvement"},
    {TRM_IMPROVING, MACHINE_COMPLETED, "improvement"},
    {TRM_REASONING, MACHINE_ERROR, "error"},
    {TRM_SUPERVISING, MACHINE_ERROR, "error"},
    {TRM_IMPROVING, MACHINE_ERROR, "error"},
};

const MachineKind trm_kind = {"trm", statuses, calls, moves, sizeof moves / sizeof *moves};

void trm_init(Trm *t, const TrmOptions *options)
{
    t->options = *options;
}

void trm_free(Trm *t)
{
    alloc_free(&t->machine.alloc, t->scores, t->score_capacity * sizeof *t->scores);
    t->scores = NULL;
    t->score_count = t->score_capacity = 0;
    machine_free(&t->machine);
}

static bool reserve_scores(Trm *t, uint32_t count)
{
    return array_reserve(t->scores, 0, t->score_capacity, &t->machine.alloc, count);
}

static bool set_scores(Trm *t, const double *scores, uint32_t count)
{
    if (!reserve_scores(t, count))
        return false;
    if (count > 0)
        memcpy(t->scores, scores, count * sizeof *scores);
    t->score_count = count;
    t->best_score = 0.0;
    for (uint32_t i = 0; i < count; i++)
        t->best_score = scores[i] > t->best_score ? scores[i] : t->best_score;
    return true;
}

TrmOutcome trm_copy(Trm *to, const Trm *from)
{
    if (!set_scores(to, from->scores, from->score_count))
        return TRM_NO_MEMORY;
    to->options = from->options;
    to->step = from->step;
    to->improvements = from->improvements;
    return TRM_DONE;
}

double trm_confidence(const Trm *t)
{
    return t->score_count > 0 ? t->scores[t->score_count - 1] : 0.0;
}

/* The two modes ask in different places, and in a different order. */
static TrmReason verdict(const Trm *t)
{
    bool spent = t->step >= t->options.max_steps;
    if (spent && t->options.halt_check == TRM_AFTER_IMPROVEMENT)
        return TRM_MAX_STEPS;
    switch (act_decide(t->options.act_threshold, trm_confidence(t), t->scores, t->score_count)) {
    case ACT_THRESHOLD_EXCEEDED: return TRM_ACT_THRESHOLD;
    case ACT_CONVERGENCE_DETECTED: return TRM_CONVERGENCE_DETECTED;
    case ACT_CONTINUE: break;
    }
    return spent ? TRM_MAX_STEPS : TRM_GOES_ON;
}

/* Whether the reply to this call is awaited, with room for the call that comes after it. */
static TrmOutcome expect(Trm *t, uint64_t number, uint8_t status)
{
    if (t->machine.status != status || machine_find(&t->machine, number) == NULL)
        return TRM_REFUSED;
    return machine_reserve(&t->machine, 1) ? TRM_DONE : TRM_NO_MEMORY;
}

static uint64_t go_on(Trm *t, uint64_t number, uint8_t status, uint32_t kind)
{
    machine_close(&t->machine, number);
    machine_move(&t->machine, status);
    return machine_open(&t->machine, kind, 0);
}

TrmOutcome trm_reasoned(Trm *t, uint64_t number, uint64_t *next)
{
    TrmOutcome outcome = expect(t, number, TRM_REASONING);
    if (outcome == TRM_DONE)
        *next = go_on(t, number, TRM_SUPERVISING, TRM_CALL_SUPERVISE);
    return outcome;
}

TrmOutcome trm_graded(Trm *t, uint64_t number, double score, bool *better, TrmReason *reason,
                      uint64_t *next)
{
    TrmOutcome outcome = expect(t, number, TRM_SUPERVISING);
    if (outcome != TRM_DONE)
        return outcome;
    if (!reserve_scores(t, t->score_count + 1))
        return TRM_NO_MEMORY;
    score = act_clamp(score);
    t->scores[t->score_count++] = score;
    *better = score > t->best_score;
    if (*better)
        t->best_score = score;
    *reason = t->options.halt_check == TRM_AFTER_SUPERVISION ? verdict(t) : TRM_GOES_ON;
    if (*reason == TRM_GOES_ON)
        *next = go_on(t, number, TRM_IMPROVING, TRM_CALL_IMPROVE);
    return TRM_DONE;
}

TrmOutcome trm_improved(Trm *t, uint64_t number, TrmReason *reason, uint64_t *next)
{
    TrmOutcome outcome = expect(t, number, TRM_IMPROVING);
    if (outcome != TRM_DONE)
        return outcome;
    t->improvements++;
    *reason = t->options.halt_check == TRM_AFTER_IMPROVEMENT ? verdict(t) : TRM_GOES_ON;
    if (*reason == TRM_GOES_ON) {
        t->step++;
        *next = go_on(t, number, TRM_REASONING, TRM_CALL_REASON);
    }
    return TRM_DONE;
}

TrmOutcome trm_ungraded(Trm *t, uint64_t number, uint64_t *next)
{
    TrmOutcome outcome = expect(t, number, TRM_SUPERVISING);
    if (outcome == TRM_DONE) {
        machine_close(&t->machine, number);
        *next = machine_open(&t->machine, TRM_CALL_SUPERVISE, 0);
    }
    return outcome;
}

/* The table in trm.h. */
static bool fits(uint8_t status, uint32_t step, uint32_t improvements, uint32_t grades)
{
    if (status == MACHINE_IDLE)
        return step == 0 && improvements == 0 && grades == 0;
    if (step == 0)
        return false;
    uint32_t before = step - 1;
    switch (status) {
    case TRM_REASONING:
    case TRM_SUPERVISING: return grades == before && improvements == before;
    case TRM_IMPROVING: return grades == step && improvements == before;
    case MACHINE_COMPLETED: return grades == step && improvements - before <= 1;
    default: return grades - before <= 1 && improvements == before;
    }
}

static bool call_fits(const Machine *m)
{
    if (!machine_is_busy(m))
        return m->call_count == 0;
    return m->call_count == 1 && m->calls[0].kind == (uint32_t)(m->status - TRM_REASONING);
}

TrmOutcome trm_load(Trm *t, uint32_t step, uint32_t improvements, const double *scores,
                    uint32_t score_count)
{
    if (!fits(t->machine.status, step, improvements, score_count) || !call_fits(&t->machine))
        return TRM_REFUSED;
    if (!set_scores(t, scores, score_count))
        return TRM_NO_MEMORY;
    t->step = step;
    t->improvements = improvements;
    return TRM_DONE;
}

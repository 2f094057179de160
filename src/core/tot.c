/*
 * tot.c -- Tree of Thoughts: rounds and frontier; see tot.h.
 */
#include "core/tot.h"

#include <math.h>
#include <string.h>

static const char *const statuses[] = {"idle",       "completed", "error", "generating",
                                       "evaluating", "expanding", NULL};
static const char *const calls[] = {"generate", "evaluate", NULL};

static const MachineMove moves[] = {
    {MACHINE_IDLE, TOT_GENERATING, "start"},   {TOT_GENERATING, TOT_EVALUATING, "thoughts"},
    {TOT_EVALUATING, TOT_EXPANDING, "scores"}, {TOT_EVALUATING, MACHINE_COMPLETED, "scores"},
    {TOT_EXPANDING, TOT_GENERATING, "next"},   {TOT_EXPANDING, MACHINE_COMPLETED, "next"},
    {TOT_GENERATING, MACHINE_ERROR, "error"},  {TOT_EVALUATING, MACHINE_ERROR, "error"},
    {TOT_EXPANDING, MACHINE_ERROR, "error"},
};

const MachineKind tot_kind = {"tot", statuses, calls, moves, sizeof moves / sizeof *moves};

void tot_init(Tot *t, const TotOptions *options)
{
    t->options = *options;
    if (options->traversal != TOT_BEST_FIRST)
        t->options.beam_width = 0;
    t->worst.worst_first = true;
    t->answer = TOT_NONE;
    t->best_score = NAN;
}

static void free_scores(Tot *t, TotSlot *slot)
{
    alloc_free(&t->machine.alloc, slot->scores, slot->thought_count * sizeof *slot->scores);
    slot->scores = NULL;
}

static void clear_slots(Tot *t)
{
    for (uint32_t i = 0; i < t->slot_count; i++)
        free_scores(t, &t->slots[i]);
    t->slot_count = t->generating_count = 0;
}

void tot_free(Tot *t)
{
    const Alloc *alloc = &t->machine.alloc;
    clear_slots(t);
    alloc_free(alloc, t->slots, t->slot_capacity * sizeof *t->slots);
    alloc_free(alloc, t->nodes, t->node_capacity * sizeof *t->nodes);
    alloc_free(alloc, t->recent, t->recent_capacity * sizeof *t->recent);
    vec_free(&t->waiting, alloc);
    vec_free(&t->worst, alloc);
    vec_free(&t->leaves, alloc);
    machine_free(&t->machine);
    t->slots = NULL;
    t->nodes = NULL;
    t->recent = NULL;
    t->node_count = t->node_capacity = t->slot_capacity = t->waiting_count = 0;
    t->recent_start = t->recent_end = t->recent_capacity = 0;
    t->answer = TOT_NONE;
}

bool tot_reserve_nodes(Tot *t, uint32_t more)
{
    return more < TOT_NONE - t->node_count &&
           array_reserve(t->nodes, t->node_count, t->node_capacity, &t->machine.alloc, more);
}

bool tot_reserve_slots(Tot *t, uint32_t count)
{
    return array_reserve(t->slots, 0, t->slot_capacity, &t->machine.alloc, count);
}

static TotNode *add_node(Tot *t, uint32_t parent, double score)
{
    TotNode *node = &t->nodes[t->node_count];
    uint32_t depth = parent == TOT_NONE ? 0 : t->nodes[parent].depth + 1;
    *node = (TotNode){.score = score, .parent = parent, .depth = depth};
    t->node_count++;
    if (depth > t->depth_reached)
        t->depth_reached = depth;
    return node;
}

static void add_slot(Tot *t, uint32_t node)
{
    t->slots[t->slot_count++] = (TotSlot){.node = node};
    t->generating_count++;
}

TotOutcome tot_plant(Tot *t)
{
    if (t->machine.status != MACHINE_IDLE || t->node_count > 1)
        return TOT_REFUSED;
    if (!tot_reserve_nodes(t, 1) || !tot_reserve_slots(t, 1))
        return TOT_NO_MEMORY;
    t->node_count = t->slot_count = t->generating_count = 0;
    add_node(t, TOT_NONE, NAN);
    add_slot(t, 0);
    t->loaded = true;
    return TOT_DONE;
}

TotSlot *tot_slot_of(const Tot *t, uint64_t number, uint32_t call_kind)
{
    const MachineCall *call = machine_find(&t->machine, number);
    if (call == NULL || call->kind != call_kind || call->subject >= t->slot_count)
        return NULL;
    TotSlot *slot = &t->slots[call->subject];
    TotPhase phase = call_kind == TOT_CALL_GENERATE ? TOT_SLOT_GENERATING : TOT_SLOT_EVALUATING;
    return slot->phase == phase ? slot : NULL;
}

/* Closes a call and opens another about the same slot. */
static uint64_t replace_call(Tot *t, uint64_t number, uint32_t call_kind)
{
    uint32_t subject = machine_find(&t->machine, number)->subject;
    machine_close(&t->machine, number);
    return machine_open(&t->machine, call_kind, subject);
}

TotOutcome tot_thoughts(Tot *t, uint64_t number, uint32_t count, uint64_t *next)
{
    TotSlot *slot = tot_slot_of(t, number, TOT_CALL_GENERATE);
    if (slot == NULL || count == 0)
        return TOT_REFUSED;
    if (!machine_reserve(&t->machine, 1))
        return TOT_NO_MEMORY;
    slot->thought_count = count < t->options.branching_factor ? count : t->options.branching_factor;
    slot->phase = TOT_SLOT_EVALUATING;
    slot->retries = 0;
    *next = replace_call(t, number, TOT_CALL_EVALUATE);
    if (--t->generating_count == 0)
        machine_move(&t->machine, TOT_EVALUATING);
    return TOT_DONE;
}

TotOutcome tot_repair(Tot *t, uint64_t number, uint64_t *next)
{
    const MachineCall *call = machine_find(&t->machine, number);
    TotSlot *slot = call ? tot_slot_of(t, number, call->kind) : NULL;
    if (slot == NULL || slot->retries >= t->options.max_parse_retries)
        return TOT_REFUSED;
    if (!machine_reserve(&t->machine, 1))
        return TOT_NO_MEMORY;
    slot->retries++;
    if (slot->phase == TOT_SLOT_GENERATING)
        t->generation_retries++;
    else
        t->evaluation_retries++;
    *next = replace_call(t, number, machine_find(&t->machine, number)->kind);
    return TOT_DONE;
}

double *tot_score_room(Tot *t, uint64_t number)
{
    TotSlot *slot = tot_slot_of(t, number, TOT_CALL_EVALUATE);
    if (slot == NULL)
        return NULL;
    if (slot->scores == NULL)
        slot->scores =
            alloc_resize(&t->machine.alloc, NULL, 0, slot->thought_count * sizeof *slot->scores);
    return slot->scores;
}

void tot_scored(Tot *t, uint64_t number)
{
    TotSlot *slot = tot_slot_of(t, number, TOT_CALL_EVALUATE);
    if (slot == NULL || slot->scores == NULL)
        return;
    slot->phase = TOT_SLOT_DONE;
    slot->retries = 0;
    machine_close(&t->machine, number);
}

bool tot_round_complete(const Tot *t)
{
    return t->machine.status == TOT_EVALUATING && t->machine.call_count == 0;
}

/* The window slides along the array; its rest is moved to the front once that is the longer part.
 */
bool tot_reserve_recent(Tot *t)
{
    uint32_t count = t->recent_end - t->recent_start;
    if (t->recent_end == t->recent_capacity && t->recent_start > count) {
        memmove(t->recent, t->recent + t->recent_start, count * sizeof *t->recent);
        t->recent_start = 0;
        t->recent_end = count;
    }
    return array_reserve(t->recent, t->recent_end, t->recent_capacity, &t->machine.alloc, 1);
}

void tot_record(Tot *t, double measure)
{
    t->recent[t->recent_end++] = measure;
    if (t->recent_end - t->recent_start > t->options.convergence_window)
        t->recent_start++;
}

/* The score of the best node that has no children; every node but the root is listed once. */
static double best_leaf_score(Tot *t)
{
    while (t->leaves.count > 0) {
        FrontierEntry first = frontier_first(&t->leaves);
        if (tot_is_leaf(t, first.id))
            return first.score;
        frontier_pop(&t->leaves);
    }
    return 0;
}

static void record_measure(Tot *t)
{
    if (t->options.measure == TOT_BEST_LEAF)
        tot_record(t, best_leaf_score(t));
    else if (t->depth_reached >= t->options.max_depth)
        tot_record(t, t->best_score);
}

static void grow_slot(Tot *t, const TotSlot *slot)
{
    uint32_t room = t->options.max_nodes > t->node_count ? t->options.max_nodes - t->node_count : 0;
    uint32_t count = slot->thought_count < room ? slot->thought_count : room;
    t->nodes[slot->node].first_child = t->node_count;
    t->nodes[slot->node].child_count = count;
    for (uint32_t i = 0; i < count; i++) {
        double score = slot->scores[i];
        add_node(t, slot->node, score);
        if (!(score <= t->best_score))
            t->best_score = score;
        if (t->options.measure == TOT_BEST_LEAF)
            frontier_push(&t->leaves, (FrontierEntry){score, t->node_count - 1});
    }
}

TotOutcome tot_grow(Tot *t)
{
    if (!tot_round_complete(t) || t->grown)
        return TOT_REFUSED;
    uint64_t more = 0;
    for (uint32_t i = 0; i < t->slot_count; i++) {
        if (t->slots[i].phase != TOT_SLOT_DONE || !tot_is_leaf(t, t->slots[i].node))
            return TOT_REFUSED;
        more += t->slots[i].thought_count;
    }
    if (more > t->options.max_nodes)
        more = t->options.max_nodes;
    const Alloc *alloc = &t->machine.alloc;
    if (!tot_reserve_nodes(t, (uint32_t)more) || !tot_reserve_recent(t) ||
        (t->options.measure == TOT_BEST_LEAF && !vec_reserve(&t->leaves, alloc, more)))
        return TOT_NO_MEMORY;
    t->grown = true;
    t->new_from = t->node_count;
    for (uint32_t i = 0; i < t->slot_count; i++)
        grow_slot(t, &t->slots[i]);
    record_measure(t);
    return TOT_DONE;
}

/* The best new child that passes the threshold; ties to the first. */
static uint32_t find_answer(const Tot *t)
{
    uint32_t best = TOT_NONE;
    for (uint32_t i = t->new_from; i < t->node_count; i++) {
        const TotNode *node = &t->nodes[i];
        if (node->score >= t->options.early_success_threshold &&
            node->depth >= t->options.min_depth &&
            (best == TOT_NONE || node->score > t->nodes[best].score))
            best = i;
    }
    return best;
}

static bool has_converged(const Tot *t)
{
    uint32_t window = t->options.convergence_window;
    return window > 1 && t->recent_end - t->recent_start == window &&
           t->recent[t->recent_end - 1] - t->recent[t->recent_start] <
               t->options.min_score_improvement;
}

/* Whether the round scored a node at max_depth. */
static bool new_at_max_depth(const Tot *t)
{
    for (uint32_t i = t->new_from; i < t->node_count; i++)
        if (t->nodes[i].depth >= t->options.max_depth)
            return true;
    return false;
}

TotReason tot_verdict(Tot *t, double now, bool budgets_only)
{
    const TotOptions *options = &t->options;
    if (!budgets_only && (t->answer = find_answer(t)) != TOT_NONE)
        return TOT_THRESHOLD;
    if (t->node_count >= options->max_nodes)
        return TOT_MAX_NODES;
    if (now - t->machine.started_at >= options->max_duration_ms)
        return TOT_MAX_DURATION;
    if (!budgets_only && has_converged(t))
        return TOT_CONVERGED;
    if (!budgets_only && options->stop_at_max_depth && new_at_max_depth(t))
        return TOT_MAX_DEPTH;
    return TOT_GOES_ON;
}

/* The heap takes the highest key first, ties to the older. */
static double key_of(const Tot *t, uint32_t node)
{
    switch (t->options.traversal) {
    case TOT_BFS: return 0;
    case TOT_DFS: return t->joins;
    default: return t->nodes[node].score;
    }
}

static void wait(Tot *t, uint32_t node, double key)
{
    t->nodes[node].waiting = true;
    t->waiting_count++;
    frontier_push(&t->waiting, (FrontierEntry){key, node});
    if (t->options.beam_width > 0)
        frontier_push(&t->worst, (FrontierEntry){key, node});
}

static uint32_t pop_waiting(Tot *t, Frontier *from)
{
    uint32_t node;
    do
        node = frontier_pop(from).id;
    while (!t->nodes[node].waiting);
    t->nodes[node].waiting = false;
    t->waiting_count--;
    return node;
}

TotOutcome tot_join(Tot *t)
{
    const Alloc *alloc = &t->machine.alloc;
    if (!tot_round_complete(t) || !t->grown)
        return TOT_REFUSED;
    uint32_t more = t->node_count - t->new_from;
    if (!vec_reserve(&t->waiting, alloc, more) ||
        (t->options.beam_width > 0 && !vec_reserve(&t->worst, alloc, more)))
        return TOT_NO_MEMORY;
    t->joins++;
    for (uint32_t i = t->new_from; i < t->node_count; i++)
        if (t->nodes[i].depth < t->options.max_depth)
            wait(t, i, key_of(t, i));
    while (t->options.beam_width > 0 && t->waiting_count > t->options.beam_width)
        pop_waiting(t, &t->worst);
    machine_move(&t->machine, TOT_EXPANDING);
    return TOT_DONE;
}

static void open_round(Tot *t)
{
    t->grown = false;
    for (uint32_t i = 0; i < t->slot_count; i++)
        machine_open(&t->machine, TOT_CALL_GENERATE, i);
    machine_move(&t->machine, TOT_GENERATING);
}

static bool may_choose(Tot *t, const uint32_t *chosen, uint32_t count)
{
    uint32_t marked = 0;
    bool ok = true;
    for (uint32_t i = 0; i < count && ok; i++) {
        ok = chosen[i] < t->node_count && t->nodes[chosen[i]].waiting;
        if (ok) {
            t->nodes[chosen[i]].waiting = false; /* a second mention is refused */
            marked++;
        }
    }
    if (!ok)
        for (uint32_t i = 0; i < marked; i++)
            t->nodes[chosen[i]].waiting = true;
    return ok;
}

TotOutcome tot_take(Tot *t, const uint32_t *chosen, uint32_t chosen_count)
{
    if (t->machine.status != TOT_EXPANDING || t->waiting_count == 0)
        return TOT_REFUSED;
    uint32_t count = chosen_count;
    if (chosen == NULL)
        count = t->options.batch < t->waiting_count ? t->options.batch : t->waiting_count;
    if (!tot_reserve_slots(t, count) || !machine_reserve(&t->machine, count))
        return TOT_NO_MEMORY;
    if (chosen != NULL && (count == 0 || !may_choose(t, chosen, count)))
        return TOT_REFUSED;
    clear_slots(t);
    for (uint32_t i = 0; i < count; i++)
        add_slot(t, chosen != NULL ? chosen[i] : pop_waiting(t, &t->waiting));
    if (chosen != NULL)
        t->waiting_count -= count;
    open_round(t);
    return TOT_DONE;
}

TotOutcome tot_list_frontier(const Tot *t, uint32_t *ids)
{
    const Alloc *alloc = &t->machine.alloc;
    Frontier copy = {0};
    if (!vec_reserve(&copy, alloc, t->waiting.count))
        return TOT_NO_MEMORY;
    for (size_t i = 0; i < t->waiting.count; i++)
        if (t->nodes[t->waiting.items[i].id].waiting)
            frontier_push(&copy, t->waiting.items[i]);
    for (uint32_t i = 0; copy.count > 0; i++)
        ids[i] = frontier_pop(&copy).id;
    vec_free(&copy, alloc);
    return TOT_DONE;
}

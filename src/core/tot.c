/* tot.c -- Tree of Thoughts: slots, calls and stopping rules; see tot.h. */
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

bool tot_init(Tot *t, const TotOptions *options)
{
    t->options = *options;
    t->answer = TOT_NONE;
    t->best_score = NAN;
    return search_init(&t->search, t->machine.alloc, &options->search);
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
    vec_free(&t->measures, alloc);
    vec_free(&t->leaves, alloc);
    vec_free(&t->expansions, alloc);
    search_free(&t->search);
    machine_free(&t->machine);
    t->slots = NULL;
    t->nodes = NULL;
    t->node_count = t->node_capacity = t->slot_capacity = 0;
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

void tot_add_node(Tot *t, uint32_t parent, double score)
{
    uint32_t id = t->node_count++;
    TotNode *node = &t->nodes[id];
    *node = (TotNode){.score = score, .parent = parent};
    if (parent != TOT_NONE) {
        TotNode *above = &t->nodes[parent];
        node->depth = above->depth + 1;
        if (above->child_count++ == 0) {
            above->first_child = id;
            t->open_leaves -= above->depth < t->options.max_depth;
        } else {
            t->nodes[above->last_child].next_sibling = id;
        }
        above->last_child = id;
    }
    t->open_leaves += node->depth < t->options.max_depth;
    if (node->depth > t->depth_reached)
        t->depth_reached = node->depth;
}

/* Makes a slot for each ticket that expands its node. */
static TotOutcome open_slots(Tot *t)
{
    if (!tot_reserve_slots(t, tot_count_expanding(t)))
        return TOT_NO_MEMORY;
    clear_slots(t);
    for (uint32_t i = t->first_ticket; i < t->search.tickets.count; i++)
        if (t->search.tickets.items[i].expands)
            t->slots[t->slot_count++] =
                (TotSlot){.node = t->search.tickets.items[i].node, .ticket = i};
    t->generating_count = t->slot_count;
    return TOT_DONE;
}

uint32_t tot_width(const Tot *t, const TotSlot *slot)
{
    return t->search.tickets.items[slot->ticket].width;
}

TotOutcome tot_init_root(Tot *t)
{
    if (t->machine.status != MACHINE_IDLE || t->node_count > 1)
        return TOT_REFUSED;
    if (t->node_count == 1)
        return TOT_DONE;
    if (!tot_reserve_nodes(t, 1))
        return TOT_NO_MEMORY;
    TotOutcome outcome = tot_begin_search(t);
    if (outcome != TOT_DONE || open_slots(t) != TOT_DONE)
        return TOT_NO_MEMORY;
    tot_add_node(t, TOT_NONE, NAN);
    t->loaded = true;
    return TOT_DONE;
}

TotOutcome tot_open_calls(Tot *t)
{
    if (!machine_reserve(&t->machine, t->slot_count))
        return TOT_NO_MEMORY;
    for (uint32_t i = t->machine.call_count; i < t->slot_count; i++)
        machine_open(&t->machine, TOT_CALL_GENERATE, i);
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
    slot->thought_count = count < tot_width(t, slot) ? count : tot_width(t, slot);
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

const double *tot_recent(const Tot *t, uint32_t *count)
{
    uint32_t all = (uint32_t)t->measures.count, window = t->options.convergence_window;
    *count = window < all ? window : all;
    return t->measures.items + (all - *count);
}

/* The best leaf's score. */
static double best_leaf_score(Tot *t)
{
    while (t->leaves.count > 0) {
        FrontierEntry first = *frontier_first(&t->leaves);
        if (tot_is_leaf(t, first.id))
            return first.score;
        frontier_pop(&t->leaves);
    }
    return 0;
}

static void record_measure(Tot *t)
{
    if (t->options.measure == TOT_BEST_LEAF)
        vec_push(&t->measures, best_leaf_score(t));
    else if (t->depth_reached >= t->options.max_depth)
        vec_push(&t->measures, t->best_score);
}

static SearchStatus make_children(Tot *t, const TotSlot *slot)
{
    uint32_t first = t->search.count;
    SearchStatus status = tot_make_children(t, slot->ticket, slot->thought_count);
    for (uint32_t id = first; id < t->search.count; id++)
        tot_tell_score(t, id, slot->scores[id - first]);
    return status;
}

static void grow_slot(Tot *t, const TotSlot *slot)
{
    const SearchTicket *ticket = &t->search.tickets.items[slot->ticket];
    uint32_t count = ticket->end - ticket->first;
    for (uint32_t i = 0; i < count; i++) {
        double score = slot->scores[i];
        tot_add_node(t, slot->node, score);
        if (!(score <= t->best_score))
            t->best_score = score;
        if (t->options.measure == TOT_BEST_LEAF)
            frontier_push(&t->leaves, (FrontierEntry){score, t->node_count - 1});
    }
    if (!tot_has_frontier(t))
        vec_push(&t->expansions, count);
}

/* Reserves room for all that a round adds. */
static bool reserve_round(Tot *t)
{
    const Alloc *alloc = &t->machine.alloc;
    uint64_t more = 0;
    for (uint32_t i = 0; i < t->slot_count; i++)
        more += t->slots[i].thought_count;
    if (more > t->options.max_nodes)
        more = t->options.max_nodes;
    return tot_reserve_nodes(t, (uint32_t)more) && vec_reserve(&t->measures, alloc, 1) &&
           vec_reserve(&t->expansions, alloc, t->slot_count) &&
           (t->options.measure != TOT_BEST_LEAF || vec_reserve(&t->leaves, alloc, more));
}

TotOutcome tot_grow(Tot *t)
{
    if (!tot_round_complete(t) || t->grown)
        return TOT_REFUSED;
    for (uint32_t i = 0; i < t->slot_count; i++)
        if (t->slots[i].phase != TOT_SLOT_DONE)
            return TOT_REFUSED;
    if (!reserve_round(t))
        return TOT_NO_MEMORY;
    t->rounds_grown++;
    for (uint32_t i = 0; i < t->slot_count; i++)
        if (make_children(t, &t->slots[i]) == SEARCH_NO_MEMORY)
            return TOT_NO_MEMORY;
    t->grown = true;
    t->first_new = t->node_count;
    for (uint32_t i = 0; i < t->slot_count; i++)
        grow_slot(t, &t->slots[i]);
    record_measure(t);
    return TOT_DONE;
}

/* The best new child that passes the threshold, the first of equals. */
static uint32_t find_answer(const Tot *t)
{
    uint32_t best = TOT_NONE;
    for (uint32_t i = t->first_new; i < t->node_count; i++) {
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
    uint32_t window = t->options.convergence_window, count;
    const double *recent = tot_recent(t, &count);
    return window > 1 && count == window &&
           recent[count - 1] - recent[0] < t->options.min_score_improvement;
}

/* Whether the round scored a node at max_depth. */
static bool new_at_max_depth(const Tot *t)
{
    for (uint32_t i = t->first_new; i < t->node_count; i++)
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

TotOutcome tot_enqueue_children(Tot *t)
{
    if (!tot_round_complete(t) || !t->grown)
        return TOT_REFUSED;
    TotOutcome outcome = tot_back_up(t);
    if (outcome == TOT_DONE)
        machine_move(&t->machine, TOT_EXPANDING);
    return outcome;
}

TotOutcome tot_next_round(Tot *t, const uint32_t *chosen, uint32_t chosen_count)
{
    if (t->machine.status != TOT_EXPANDING)
        return TOT_REFUSED;
    TotOutcome outcome = chosen != NULL ? tot_choose(t, chosen, chosen_count) : tot_select(t);
    if (outcome != TOT_DONE)
        return outcome;
    if (open_slots(t) != TOT_DONE || tot_open_calls(t) != TOT_DONE)
        return TOT_NO_MEMORY;
    t->grown = t->has_wave = false;
    machine_move(&t->machine, TOT_GENERATING);
    return TOT_DONE;
}

/* ---- which leaves are best ---- */

typedef struct Ranking {
    HEAP_OF(uint32_t);
    const Tot *tot;
} Ranking;

/* The higher score first, then the deeper, then the older. */
static bool ranks_before(const Ranking *r, uint32_t a, uint32_t b)
{
    const TotNode *x = &r->tot->nodes[a], *y = &r->tot->nodes[b];
    if (x->score != y->score)
        return x->score > y->score;
    if (x->depth != y->depth)
        return x->depth > y->depth;
    return a < b;
}

#define HEAP_TYPE   Ranking
#define HEAP_ENTRY  uint32_t
#define HEAP_BEFORE ranks_before
#define HEAP(name)  ranking_##name
#include "core/heap.h"

uint32_t tot_candidates(const Tot *t, uint32_t *ids, uint32_t k)
{
    Ranking leaves = {.items = ids, .tot = t};
    for (uint32_t i = 1; i < t->node_count; i++)
        if (tot_is_leaf(t, i))
            vec_push(&leaves, i);
    uint32_t count = k < leaves.count ? k : (uint32_t)leaves.count;
    ranking_sort(&leaves, count);
    return count;
}

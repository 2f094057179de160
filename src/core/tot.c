/* tot.c -- Tree of Thoughts: rounds, slots, calls and stopping rules; see tot.h. */
#include "core/tot.h"

#include <math.h>

#include "core/search_best_first.h"

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
    t->answer = SEARCH_NO_NODE;
    t->best_score = NAN;
    return search_init(&t->search, t->machine.alloc, &options->search);
}

static void clear_slots(Tot *t)
{
    for (size_t i = 0; i < t->slots.count; i++)
        alloc_free(&t->machine.alloc, t->slots.items[i].scores,
                   t->slots.items[i].thought_count * sizeof(double));
    t->slots.count = t->generating_count = 0;
}

void tot_free(Tot *t)
{
    const Alloc *alloc = &t->machine.alloc;
    clear_slots(t);
    vec_free(&t->slots, alloc);
    vec_free(&t->nodes, alloc);
    vec_free(&t->measures, alloc);
    vec_free(&t->leaves, alloc);
    vec_free(&t->expansions, alloc);
    search_free(&t->search);
    machine_free(&t->machine);
    t->answer = SEARCH_NO_NODE;
}

/* ---- nodes ---- */

bool tot_reserve_nodes(Tot *t, uint64_t more)
{
    const Alloc *alloc = &t->machine.alloc;
    return vec_reserve(&t->nodes, alloc, more) &&
           (t->options.measure != TOT_BEST_LEAF || vec_reserve(&t->leaves, alloc, more));
}

void tot_add_node(Tot *t, double score)
{
    uint32_t id = (uint32_t)t->nodes.count, max_depth = t->options.search.max_depth;
    const SearchNode *node = search_node(&t->search, id);
    TotNode added = {.score = score};
    if (id > 0) {
        TotNode *above = &t->nodes.items[node->parent];
        t->open_leaves -= above->child_count++ == 0 && node->depth <= max_depth;
        added.sibling_before = above->last_child;
        above->last_child = id;
        if (score > t->best_score || isnan(t->best_score))
            t->best_score = score;
        if (t->options.measure == TOT_BEST_LEAF && !isnan(score))
            frontier_push(&t->leaves, (FrontierEntry){score, id});
    }
    vec_push(&t->nodes, added);
    t->open_leaves += node->depth < max_depth;
    if (node->depth > t->depth_reached)
        t->depth_reached = node->depth;
}

/* The score that the search sees. To A* a thought is a step of cost 1, and its score estimates how
 * much of the path is left. */
static double tot_key(const Tot *t, double score)
{
    switch (t->options.order) {
    case TOT_BFS: return 0;
    case TOT_DFS: return (double)t->search.rounds;
    case TOT_BEST_FIRST: return score;
    default: return t->search.has_policy_score ? (1 - score) * t->options.search.max_depth : score;
    }
}

TotOutcome tot_outcome(SearchStatus status)
{
    switch (status) {
    case SEARCH_OK: return TOT_DONE;
    case SEARCH_OVER: return TOT_OVER;
    case SEARCH_LIMIT: return TOT_LIMIT;
    case SEARCH_FULL: return TOT_REFUSED;
    default: return TOT_NO_MEMORY;
    }
}

/* Adds the root and selects the tickets of the round that expands it. */
TotOutcome tot_begin_search(Tot *t)
{
    Search *s = &t->search;
    if (search_add(s, SEARCH_NO_NODE, 1) != SEARCH_OK || search_next_round(s) != SEARCH_OK)
        return TOT_NO_MEMORY;
    search_note_root(s);
    tot_tell_score(t, 0, 0);
    return tot_back_up(t) == TOT_DONE ? tot_select(t) : TOT_NO_MEMORY;
}

SearchStatus tot_make_children(Tot *t, uint32_t ticket, uint32_t count)
{
    Search *s = &t->search;
    SearchAsk ask = {SEARCH_EXPAND, ticket, 0, 0};
    search_tell_list(s, &ask, count);
    SearchTicket *made = &s->tickets.items[ticket];
    made->first = s->count;
    SearchStatus status = search_make(s, made);
    made->end = s->count;
    return status;
}

void tot_tell_score(Tot *t, uint32_t id, double score)
{
    search_tell_score(&t->search, id, tot_key(t, isnan(score) ? 0 : score));
    search_set_evaluated(&t->search, id);
}

/* Ends the round, or continues it with the tickets of another wave. */
TotOutcome tot_back_up(Tot *t)
{
    SearchStatus status = SEARCH_OK;
    t->first_ticket = (uint32_t)t->search.tickets.count;
    if (!search_next_wave(&t->search, &status) && status == SEARCH_OK &&
        !search_back_up(&t->search))
        status = SEARCH_NO_MEMORY;
    return tot_outcome(status);
}

static uint32_t count_expanding(const Tot *t)
{
    uint32_t count = 0;
    for (size_t i = t->first_ticket; i < t->search.tickets.count; i++)
        count += t->search.tickets.items[i].expands;
    return count;
}

/* Takes the next wave, or selects rounds until one has a ticket that expands its node. */
TotOutcome tot_select(Tot *t)
{
    if (t->first_ticket < t->search.tickets.count)
        return TOT_DONE;
    do {
        SearchStatus status = search_next_round(&t->search);
        t->first_ticket = 0;
        if (status != SEARCH_OK)
            return tot_outcome(status);
    } while (count_expanding(t) == 0 && search_back_up(&t->search));
    return count_expanding(t) > 0 ? TOT_DONE : TOT_NO_MEMORY;
}

static TotOutcome choose(Tot *t, const uint32_t *chosen, uint32_t count)
{
    if (count == 0 || !tot_has_frontier(t) || !best_first_remove(&t->search, chosen, count))
        return TOT_REFUSED;
    if (!search_start_round(&t->search, count))
        return TOT_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        search_select(&t->search, chosen[i]);
    t->first_ticket = 0;
    return TOT_DONE;
}

/* ---- slots ---- */

/* Makes a slot for each ticket that expands its node. */
static TotOutcome open_slots(Tot *t)
{
    uint32_t count = count_expanding(t);
    if (!machine_reserve(&t->machine, count) ||
        !array_reserve(t->slots.items, 0, t->slots.capacity, &t->machine.alloc, count))
        return TOT_NO_MEMORY;
    clear_slots(t);
    for (uint32_t i = t->first_ticket; i < t->search.tickets.count; i++)
        if (t->search.tickets.items[i].expands)
            vec_push(&t->slots, ((TotSlot){.node = t->search.tickets.items[i].node, .ticket = i}));
    t->generating_count = count;
    return TOT_DONE;
}

uint32_t tot_width(const Tot *t, const TotSlot *slot)
{
    size_t i = slot->ticket; /* a restored final machine has no tickets */
    return i < t->search.tickets.count ? t->search.tickets.items[i].width : 0;
}

TotOutcome tot_init_root(Tot *t)
{
    if (t->machine.status != MACHINE_IDLE)
        return TOT_REFUSED;
    bool has_failed = t->search.count > 0; /* an earlier start ran out of memory half way */
    if (has_failed || !tot_reserve_nodes(t, 1) || tot_begin_search(t) != TOT_DONE ||
        open_slots(t) != TOT_DONE)
        return TOT_NO_MEMORY;
    tot_add_node(t, NAN);
    t->loaded = true;
    return TOT_DONE;
}

void tot_open_calls(Tot *t)
{
    for (uint32_t i = t->machine.call_count; i < t->slots.count; i++)
        machine_open(&t->machine, TOT_CALL_GENERATE, i);
}

TotSlot *tot_slot_of(const Tot *t, uint64_t number, uint32_t call_kind)
{
    const MachineCall *call = machine_find(&t->machine, number);
    if (call == NULL || call->kind != call_kind || call->subject >= t->slots.count)
        return NULL;
    TotSlot *slot = &t->slots.items[call->subject];
    return slot->awaits == call_kind ? slot : NULL;
}

/* Closes a call and opens another about the same slot. */
static uint64_t replace_call(Tot *t, uint64_t number, uint32_t call_kind)
{
    uint32_t subject = machine_find(&t->machine, number)->subject;
    machine_close(&t->machine, number);
    return machine_open(&t->machine, call_kind, subject);
}

bool tot_reserve_scores(Tot *t, TotSlot *slot)
{
    slot->scores = alloc_resize(&t->machine.alloc, NULL, 0, slot->thought_count * sizeof(double));
    return slot->scores != NULL;
}

TotOutcome tot_thoughts(Tot *t, uint64_t number, uint32_t count, uint64_t *next)
{
    TotSlot *slot = tot_slot_of(t, number, TOT_CALL_GENERATE);
    if (slot == NULL || count == 0)
        return TOT_REFUSED;
    TotSlot filled = {.node = slot->node, .ticket = slot->ticket, .awaits = TOT_CALL_EVALUATE};
    filled.thought_count = count < tot_width(t, slot) ? count : tot_width(t, slot);
    if (!machine_reserve(&t->machine, 1) || !tot_reserve_scores(t, &filled))
        return TOT_NO_MEMORY;
    *slot = filled;
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
    t->retries[slot->awaits]++;
    *next = replace_call(t, number, slot->awaits);
    return TOT_DONE;
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
    else if (t->depth_reached >= t->options.search.max_depth)
        vec_push(&t->measures, isnan(t->best_score) ? 0 : t->best_score);
}

/* Makes the children of a slot in the search. */
static SearchStatus expand_slot(Tot *t, const TotSlot *slot)
{
    uint32_t first = t->search.count;
    SearchStatus status = tot_make_children(t, slot->ticket, slot->thought_count);
    for (uint32_t id = first; id < t->search.count; id++)
        tot_tell_score(t, id, slot->scores[id - first]);
    return status;
}

/* Reserves room for all that a round adds. */
static bool reserve_round(Tot *t)
{
    const Alloc *alloc = &t->machine.alloc;
    uint64_t more = 0, room = t->options.search.max_nodes - t->nodes.count;
    for (size_t i = 0; i < t->slots.count; i++)
        more += t->slots.items[i].thought_count;
    return tot_reserve_nodes(t, more < room ? more : room) && vec_reserve(&t->measures, alloc, 1) &&
           vec_reserve(&t->expansions, alloc, t->slots.count);
}

/* Makes the children of a complete round. */
static TotOutcome grow(Tot *t)
{
    if (!reserve_round(t))
        return TOT_NO_MEMORY;
    for (size_t i = 0; i < t->slots.count; i++)
        if (expand_slot(t, &t->slots.items[i]) == SEARCH_NO_MEMORY)
            return TOT_NO_MEMORY;
    t->first_new = (uint32_t)t->nodes.count;
    for (size_t i = 0; i < t->slots.count; i++) {
        const TotSlot *slot = &t->slots.items[i];
        const SearchTicket *ticket = &t->search.tickets.items[slot->ticket];
        uint32_t count = ticket->end - ticket->first;
        for (uint32_t n = 0; n < count; n++)
            tot_add_node(t, slot->scores[n]);
        if (!tot_has_frontier(t))
            vec_push(&t->expansions, count);
    }
    record_measure(t);
    return TOT_DONE;
}

TotOutcome tot_scored(Tot *t, uint64_t number)
{
    TotSlot *slot = tot_slot_of(t, number, TOT_CALL_EVALUATE);
    if (slot == NULL)
        return TOT_REFUSED;
    slot->awaits = TOT_CALLS;
    slot->retries = 0;
    machine_close(&t->machine, number);
    return tot_round_complete(t) ? grow(t) : TOT_DONE;
}

/* The best new child that passes the threshold, the first of equals. */
static uint32_t find_answer(const Tot *t)
{
    uint32_t best = SEARCH_NO_NODE;
    for (uint32_t i = t->first_new; i < t->nodes.count; i++) {
        double score = t->nodes.items[i].score;
        if (score >= t->options.early_success_threshold &&
            search_node(&t->search, i)->depth >= t->options.min_depth &&
            (best == SEARCH_NO_NODE || score > t->nodes.items[best].score))
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
    for (uint32_t i = t->first_new; i < t->nodes.count; i++)
        if (search_node(&t->search, i)->depth >= t->options.search.max_depth)
            return true;
    return false;
}

const char *tot_verdict(Tot *t, double now, bool budgets_only)
{
    const TotOptions *options = &t->options;
    if (!budgets_only && (t->answer = find_answer(t)) != SEARCH_NO_NODE)
        return "threshold";
    if (t->nodes.count >= options->search.max_nodes)
        return "max_nodes";
    if (now - t->machine.started_at >= options->max_duration_ms)
        return "max_duration";
    if (budgets_only)
        return NULL;
    if (has_converged(t))
        return "converged";
    return options->stop_at_max_depth && new_at_max_depth(t) ? "max_depth" : NULL;
}

TotOutcome tot_enqueue_children(Tot *t)
{
    if (!tot_round_complete(t))
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
    TotOutcome outcome = chosen != NULL ? choose(t, chosen, chosen_count) : tot_select(t);
    if (outcome != TOT_DONE)
        return outcome;
    if (open_slots(t) != TOT_DONE)
        return TOT_NO_MEMORY;
    tot_open_calls(t);
    machine_move(&t->machine, TOT_GENERATING);
    return TOT_DONE;
}

/* ---- the frontier ---- */

uint32_t tot_frontier_size(const Tot *t)
{
    return tot_has_frontier(t) ? best_first_count(&t->search) : t->open_leaves;
}

TotOutcome tot_list_frontier(const Tot *t, uint32_t *ids)
{
    if (tot_has_frontier(t))
        return best_first_list(&t->search, ids) ? TOT_DONE : TOT_NO_MEMORY;
    for (uint32_t i = 0; i < t->nodes.count; i++)
        if (tot_is_leaf(t, i) && search_node(&t->search, i)->depth < t->options.search.max_depth)
            *ids++ = i;
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
    double x = r->tot->nodes.items[a].score, y = r->tot->nodes.items[b].score;
    const Search *s = &r->tot->search;
    if (x != y)
        return x > y;
    if (search_node(s, a)->depth != search_node(s, b)->depth)
        return search_node(s, a)->depth > search_node(s, b)->depth;
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
    for (uint32_t i = 1; i < t->nodes.count; i++)
        if (tot_is_leaf(t, i) && !isnan(t->nodes.items[i].score))
            vec_push(&leaves, i);
    uint32_t count = k < leaves.count ? k : (uint32_t)leaves.count;
    ranking_sort(&leaves, count);
    return count;
}

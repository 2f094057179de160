/*
 * tot_load.c -- Tree of Thoughts: restores a saved state, which may be hostile, and copies a
 * machine by the same functions; see tot.h.
 *
 * The search's own state is not saved: a frontier is loaded, and any other search repeats its
 * rounds with the saved scores.
 */
#include "core/search_best_first.h"
#include "core/tot.h"

#include <math.h>

static TotOutcome copy_parts(Tot *to, const Tot *from)
{
    TotOutcome outcome = TOT_DONE;
    for (uint32_t i = 0; i < from->node_count && outcome == TOT_DONE; i++)
        outcome = tot_load_node(to, from->nodes[i].parent, from->nodes[i].score);
    for (uint32_t i = 0; i < from->slot_count && outcome == TOT_DONE; i++)
        outcome = tot_load_slot(to, &from->slots[i], from->slots[i].scores);
    for (size_t i = 0; i < from->measures.count && outcome == TOT_DONE; i++)
        outcome = tot_load_recent(to, from->measures.items[i]);
    for (size_t i = 0; i < from->expansions.count && outcome == TOT_DONE; i++)
        outcome = tot_load_expansion(to, from->expansions.items[i]);
    return outcome;
}

static TotOutcome copy_open_nodes(Tot *to, const Tot *from)
{
    const Alloc *alloc = &to->machine.alloc;
    IdList ids = {0};
    if (!vec_reserve(&ids, alloc, tot_frontier_size(from)))
        return TOT_NO_MEMORY;
    ids.count = tot_frontier_size(from);
    TotOutcome outcome = tot_list_frontier(from, ids.items);
    if (outcome == TOT_DONE)
        outcome = tot_load_frontier(to, ids.items, (uint32_t)ids.count);
    vec_free(&ids, alloc);
    return outcome;
}

TotOutcome tot_copy(Tot *to, const Tot *from)
{
    if (!tot_init(to, &from->options))
        return TOT_NO_MEMORY;
    TotOutcome outcome = copy_parts(to, from);
    if (outcome == TOT_DONE)
        outcome = copy_open_nodes(to, from);
    if (outcome == TOT_DONE && from->loaded)
        outcome = tot_load_end(to, from->answer);
    to->grown = from->grown;
    to->first_new = from->first_new;
    to->generation_retries = from->generation_retries;
    to->evaluation_retries = from->evaluation_retries;
    return outcome;
}

/* Adds the node to the search, unless repeat_rounds will. */
static TotOutcome load_search_node(Tot *t, uint32_t parent, double score)
{
    Search *s = &t->search;
    if (!tot_has_frontier(t))
        return TOT_DONE;
    SearchStatus status = search_add(s, parent == TOT_NONE ? SEARCH_NO_NODE : parent, 1);
    if (status != SEARCH_OK)
        return status == SEARCH_FULL ? TOT_REFUSED : TOT_NO_MEMORY;
    tot_tell_score(t, s->count - 1, parent == TOT_NONE ? 0 : score);
    return TOT_DONE;
}

TotOutcome tot_load_node(Tot *t, uint32_t parent, double score)
{
    uint32_t index = t->node_count;
    bool is_root = index == 0;
    if (is_root != (parent == TOT_NONE) || is_root != (isnan(score) != 0))
        return TOT_REFUSED;
    if (!is_root && (parent >= index || !(score >= 0 && score <= 1)))
        return TOT_REFUSED;
    if (!tot_reserve_nodes(t, 1))
        return TOT_NO_MEMORY;
    if (!is_root && tot_has_frontier(t)) {
        const TotNode *above = &t->nodes[parent];
        if (above->child_count > 0 && above->last_child + 1 != index)
            return TOT_REFUSED;
    }
    TotOutcome outcome = load_search_node(t, parent, score);
    if (outcome == TOT_DONE)
        tot_add_node(t, parent, score);
    return outcome;
}

/* The most thoughts that a slot can have. */
static uint64_t max_thoughts(const Tot *t)
{
    uint64_t max = t->options.branching_factor;
    return t->options.search.strategy == SEARCH_DVTS ? max * t->options.search.subtrees : max;
}

TotOutcome tot_load_slot(Tot *t, const TotSlot *slot, const double *scores)
{
    bool thoughts = slot->phase != TOT_SLOT_GENERATING;
    if (slot->node >= t->node_count || thoughts != (slot->thought_count > 0) ||
        slot->thought_count > max_thoughts(t) ||
        (slot->phase == TOT_SLOT_DONE) != (scores != NULL) ||
        slot->retries > t->options.max_parse_retries)
        return TOT_REFUSED;
    double *copy = NULL;
    if (scores != NULL)
        copy = alloc_copy(&t->machine.alloc, scores, slot->thought_count * sizeof *scores);
    if ((scores != NULL && copy == NULL) || !tot_reserve_slots(t, t->slot_count + 1)) {
        alloc_free(&t->machine.alloc, copy, slot->thought_count * sizeof *scores);
        return TOT_NO_MEMORY;
    }
    t->slots[t->slot_count] = *slot;
    t->slots[t->slot_count++].scores = copy;
    return TOT_DONE;
}

static bool in_order(FrontierEntry a, FrontierEntry b)
{
    return a.score > b.score || (a.score == b.score && a.id < b.id);
}

/* In dfs the key is the round: any keys that fall along the list restore its order. */
TotOutcome tot_load_frontier(Tot *t, const uint32_t *ids, uint32_t count)
{
    Search *s = &t->search;
    FrontierEntry before = {INFINITY, 0};
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] >= t->node_count || !tot_is_leaf(t, ids[i]) ||
            t->nodes[ids[i]].depth >= t->options.max_depth)
            return TOT_REFUSED;
        if (!tot_has_frontier(t))
            continue; /* it follows from the nodes */
        if (t->options.order == TOT_DFS)
            search_tell_score(s, ids[i], count - i);
        FrontierEntry entry = {search_node(s, ids[i])->score, ids[i]};
        if (ids[i] == 0 || search_node(s, ids[i])->open || !in_order(before, entry))
            return TOT_REFUSED;
        if (!best_first_open(s, ids[i]))
            return TOT_NO_MEMORY;
        before = entry;
    }
    t->rounds_grown = count;
    return TOT_DONE;
}

TotOutcome tot_load_expansion(Tot *t, uint32_t children)
{
    if (tot_has_frontier(t))
        return TOT_REFUSED;
    if (!vec_reserve(&t->expansions, &t->machine.alloc, 1))
        return TOT_NO_MEMORY;
    vec_push(&t->expansions, children);
    return TOT_DONE;
}

TotOutcome tot_load_recent(Tot *t, double measure)
{
    if (!vec_reserve(&t->measures, &t->machine.alloc, 1))
        return TOT_NO_MEMORY;
    vec_push(&t->measures, measure);
    return TOT_DONE;
}

/* Derives what tot_grow maintains as nodes are made. */
static bool derive(Tot *t)
{
    bool leaves = t->options.measure == TOT_BEST_LEAF;
    if (leaves && !vec_reserve(&t->leaves, &t->machine.alloc, t->node_count))
        return false;
    for (uint32_t i = 1; i < t->node_count; i++) {
        const TotNode *node = &t->nodes[i];
        if (!(node->score <= t->best_score))
            t->best_score = node->score;
        if (leaves && tot_is_leaf(t, i))
            frontier_push(&t->leaves, (FrontierEntry){node->score, i});
    }
    return true;
}

/* ---- the current round ---- */

/* Starts a round of the slots' nodes: leaves that are not on the frontier, each once. */
static TotOutcome select_slots(Tot *t)
{
    Search *s = &t->search;
    bool ok = true;
    if (!search_start_round(s, t->slot_count))
        return TOT_NO_MEMORY;
    for (uint32_t i = 0; i < t->slot_count; i++) {
        SearchNode *node = search_node(s, t->slots[i].node);
        ok = ok && tot_is_leaf(t, t->slots[i].node) && !node->open &&
             search_expandable(s, t->slots[i].node);
        node->open = true; /* a second slot for the node is refused */
        search_select(s, t->slots[i].node);
        t->slots[i].ticket = i;
    }
    for (uint32_t i = 0; i < t->slot_count && ok; i++)
        search_node(s, t->slots[i].node)->open = false;
    return ok ? TOT_DONE : TOT_REFUSED;
}

/* Makes the children of a saved round: nodes from *at on, counted by expansions from *next on. */
static TotOutcome repeat_round(Tot *t, uint32_t *at, size_t *next)
{
    for (uint32_t i = t->first_ticket; i < t->search.tickets.count; i++) {
        const SearchTicket *ticket = &t->search.tickets.items[i];
        if (!ticket->expands)
            continue;
        if (*next == t->expansions.count)
            return TOT_REFUSED;
        uint32_t count = t->expansions.items[(*next)++];
        if (count > ticket->width || count > t->node_count - *at)
            return TOT_REFUSED;
        SearchStatus status = tot_make_children(t, i, count);
        if (status != SEARCH_OK)
            return status == SEARCH_FULL ? TOT_REFUSED : TOT_NO_MEMORY;
        for (; count > 0; count--, ++*at) {
            if (t->nodes[*at].parent != ticket->node)
                return TOT_REFUSED;
            tot_tell_score(t, *at, t->nodes[*at].score);
        }
    }
    return TOT_DONE;
}

/* Assigns the tickets of the round to the saved slots, which must match. */
static TotOutcome match_slots(Tot *t)
{
    uint32_t slot = 0;
    for (uint32_t i = t->first_ticket; i < t->search.tickets.count; i++) {
        if (!t->search.tickets.items[i].expands)
            continue;
        if (slot == t->slot_count || t->slots[slot].node != t->search.tickets.items[i].node)
            return TOT_REFUSED;
        t->slots[slot++].ticket = i;
    }
    return slot == t->slot_count ? TOT_DONE : TOT_REFUSED;
}

static TotOutcome repeat_rounds(Tot *t)
{
    uint32_t at = 1;
    size_t next = 0;
    TotOutcome outcome = tot_begin_search(t);
    while (outcome == TOT_DONE && next < t->expansions.count) {
        outcome = repeat_round(t, &at, &next);
        t->has_wave = false;
        if (outcome == TOT_DONE)
            outcome = tot_back_up(t);
        if (outcome == TOT_DONE)
            outcome = tot_select(t);
    }
    t->has_wave = false;
    if (outcome == TOT_NO_MEMORY)
        return outcome;
    return outcome == TOT_DONE && at == t->node_count ? match_slots(t) : TOT_REFUSED;
}

/* Whether each unfinished slot has one open call, of its phase, and the status agrees. */
static bool calls_fit(Tot *t)
{
    const Machine *m = &t->machine;
    uint32_t open_slots = 0;
    t->generating_count = 0;
    for (uint32_t i = 0; i < t->slot_count; i++) {
        open_slots += t->slots[i].phase != TOT_SLOT_DONE;
        t->generating_count += t->slots[i].phase == TOT_SLOT_GENERATING;
    }
    for (uint32_t i = 0; i < m->call_count; i++) {
        TotSlot *slot = tot_slot_of(t, m->calls[i].number, m->calls[i].kind);
        if (slot == NULL || slot->marked)
            return false;
        slot->marked = true;
    }
    for (uint32_t i = 0; i < t->slot_count; i++)
        t->slots[i].marked = false;
    return open_slots == m->call_count &&
           m->status == (t->generating_count > 0 ? TOT_GENERATING : TOT_EVALUATING);
}

TotOutcome tot_load_end(Tot *t, uint32_t answer)
{
    const Machine *m = &t->machine;
    bool idle = m->status == MACHINE_IDLE;
    if (idle != (t->node_count == 0) || idle != (t->slot_count == 0))
        return TOT_REFUSED;
    if (!idle && m->current.subject >= t->slot_count)
        return TOT_REFUSED;
    if (machine_is_busy(m) && !calls_fit(t))
        return TOT_REFUSED;
    if (answer != TOT_NONE && (answer >= t->node_count || !tot_is_leaf(t, answer)))
        return TOT_REFUSED;
    t->answer = answer;
    t->loaded = true;
    if (!derive(t))
        return TOT_NO_MEMORY;
    if (!machine_is_busy(m))
        return TOT_DONE;
    return tot_has_frontier(t) ? select_slots(t) : repeat_rounds(t);
}

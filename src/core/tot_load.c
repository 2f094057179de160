/*
 * tot_load.c -- Tree of Thoughts: restores a saved state, which may be hostile; see tot.h.
 *
 * The search's own state is not saved: a frontier is loaded, and any other search repeats its
 * rounds with the saved scores.
 */
#include "core/search_best_first.h"
#include "core/tot.h"

#include <math.h>

TotOutcome tot_load_node(Tot *t, uint32_t parent, double score)
{
    uint32_t id = (uint32_t)t->nodes.count;
    bool is_root = id == 0;
    if (is_root != (parent == SEARCH_NO_NODE) || (is_root && !isnan(score)))
        return TOT_REFUSED;
    if (!is_root && (parent >= id || !(isnan(score) || (score >= 0 && score <= 1))))
        return TOT_REFUSED;
    if (!is_root && tot_has_frontier(t) && !tot_is_leaf(t, parent) &&
        t->nodes.items[parent].last_child + 1 != id)
        return TOT_REFUSED;
    if (!tot_reserve_nodes(t, 1))
        return TOT_NO_MEMORY;
    SearchStatus status = search_add(&t->search, parent, 1);
    if (status != SEARCH_OK)
        return tot_outcome(status);
    tot_tell_score(t, id, is_root ? 0 : score);
    tot_add_node(t, score);
    return TOT_DONE;
}

/* The most thoughts that a slot can have. */
static uint64_t max_thoughts(const Tot *t)
{
    uint64_t max = t->options.search.k;
    return t->options.search.strategy == SEARCH_DVTS ? max * t->options.search.subtrees : max;
}

TotOutcome tot_load_slot(Tot *t, TotSlot slot)
{
    bool thoughts = slot.awaits != TOT_CALL_GENERATE;
    if (slot.node >= t->nodes.count || thoughts != (slot.thought_count > 0) ||
        slot.thought_count > max_thoughts(t) || slot.retries > t->options.max_parse_retries)
        return TOT_REFUSED;
    if (!vec_reserve(&t->slots, &t->machine.alloc, 1) ||
        (thoughts && !tot_reserve_scores(t, &slot)))
        return TOT_NO_MEMORY;
    vec_push(&t->slots, slot);
    return TOT_DONE;
}

static bool in_order(FrontierEntry a, FrontierEntry b)
{
    return a.score > b.score || (a.score == b.score && a.id < b.id);
}

/* In dfs the key is the round, from 1: any keys below it that fall along the list restore its
 * order. */
TotOutcome tot_load_frontier(Tot *t, const uint32_t *ids, uint32_t count)
{
    Search *s = &t->search;
    FrontierEntry before = {INFINITY, 0};
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] >= t->nodes.count || !tot_is_leaf(t, ids[i]) || !search_expandable(s, ids[i]))
            return TOT_REFUSED;
        if (!tot_has_frontier(t))
            continue; /* it follows from the nodes */
        if (t->options.order == TOT_DFS)
            search_tell_score(s, ids[i], -(double)i);
        FrontierEntry entry = {search_node(s, ids[i])->score, ids[i]};
        if (ids[i] == 0 || search_node(s, ids[i])->open || !in_order(before, entry))
            return TOT_REFUSED;
        if (!best_first_open(s, ids[i]))
            return TOT_NO_MEMORY;
        before = entry;
    }
    return TOT_DONE;
}

/* ---- the current round ---- */

/* Starts a round of the slots' nodes: leaves that are not on the frontier, each once. */
static TotOutcome select_slots(Tot *t)
{
    Search *s = &t->search;
    uint32_t count = (uint32_t)t->slots.count;
    bool ok = true;
    if (!search_start_round(s, count))
        return TOT_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = t->slots.items[i].node;
        SearchNode *node = search_node(s, id);
        ok = ok && tot_is_leaf(t, id) && !node->open && search_expandable(s, id);
        node->open = true; /* a second slot for the node is refused */
        search_select(s, id);
        t->slots.items[i].ticket = i;
    }
    for (uint32_t i = 0; i < count && ok; i++)
        search_node(s, t->slots.items[i].node)->open = false;
    return ok ? TOT_DONE : TOT_REFUSED;
}

/* Makes the children of a saved round: nodes from *at on, counted by expansions from *next on,
 * which have the parents that they have in `saved`. */
static TotOutcome repeat_round(Tot *t, const Search *saved, uint32_t *at, size_t *next)
{
    for (uint32_t i = t->first_ticket; i < t->search.tickets.count; i++) {
        const SearchTicket *ticket = &t->search.tickets.items[i];
        if (!ticket->expands)
            continue;
        if (*next == t->expansions.count)
            return TOT_REFUSED;
        uint32_t count = t->expansions.items[(*next)++];
        if (count > ticket->width || count > saved->count - *at)
            return TOT_REFUSED;
        SearchStatus status = tot_make_children(t, i, count);
        if (status != SEARCH_OK)
            return tot_outcome(status);
        for (; count > 0; count--, ++*at) {
            if (search_node(saved, *at)->parent != ticket->node)
                return TOT_REFUSED;
            tot_tell_score(t, *at, t->nodes.items[*at].score);
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
        if (slot == t->slots.count || t->slots.items[slot].node != t->search.tickets.items[i].node)
            return TOT_REFUSED;
        t->slots.items[slot++].ticket = i;
    }
    return slot == t->slots.count ? TOT_DONE : TOT_REFUSED;
}

static TotOutcome repeat_rounds(Tot *t, const Search *saved)
{
    uint32_t at = 1;
    size_t next = 0;
    TotOutcome outcome = tot_begin_search(t);
    while (outcome == TOT_DONE && next < t->expansions.count) {
        outcome = repeat_round(t, saved, &at, &next);
        if (outcome == TOT_DONE)
            outcome = tot_back_up(t);
        if (outcome == TOT_DONE)
            outcome = tot_select(t);
    }
    if (outcome == TOT_NO_MEMORY)
        return outcome;
    return outcome == TOT_DONE && at == saved->count ? match_slots(t) : TOT_REFUSED;
}

/* Replaces the search, which only has the nodes that were loaded, by one that has made them. */
static TotOutcome repeat_search(Tot *t)
{
    Search saved = t->search;
    TotOutcome outcome = TOT_NO_MEMORY;
    if (search_init(&t->search, saved.alloc, &saved.options))
        outcome = repeat_rounds(t, &saved);
    search_free(&saved);
    return outcome;
}

/* Whether each unfinished slot has one open call, of its phase, and the status agrees. */
static bool calls_fit(Tot *t)
{
    const Machine *m = &t->machine;
    uint32_t unfinished = 0;
    t->generating_count = 0;
    for (size_t i = 0; i < t->slots.count; i++) {
        unfinished += t->slots.items[i].awaits != TOT_CALLS;
        t->generating_count += t->slots.items[i].awaits == TOT_CALL_GENERATE;
    }
    for (uint32_t i = 0; i < m->call_count; i++) {
        TotSlot *slot = tot_slot_of(t, m->calls[i].number, m->calls[i].kind);
        if (slot == NULL || slot->ticket == SEARCH_NO_NODE)
            return false;
        slot->ticket = SEARCH_NO_NODE; /* unknown yet: marks slots that have their call */
    }
    return unfinished == m->call_count &&
           m->status == (t->generating_count > 0 ? TOT_GENERATING : TOT_EVALUATING);
}

TotOutcome tot_load_end(Tot *t, uint32_t answer)
{
    const Machine *m = &t->machine;
    bool idle = m->status == MACHINE_IDLE;
    if (idle != (t->nodes.count == 0) || idle != (t->slots.count == 0))
        return TOT_REFUSED;
    if (!idle && m->current.subject >= t->slots.count)
        return TOT_REFUSED;
    if (machine_is_busy(m) && !calls_fit(t))
        return TOT_REFUSED;
    if (answer != SEARCH_NO_NODE && (answer >= t->nodes.count || !tot_is_leaf(t, answer)))
        return TOT_REFUSED;
    t->answer = answer;
    t->loaded = true;
    if (!machine_is_busy(m))
        return TOT_DONE;
    return tot_has_frontier(t) ? select_slots(t) : repeat_search(t);
}

/* tot_round.c -- Tree of Thoughts: the rounds of its search, and its frontier; see tot.h. */
#include "core/search_best_first.h"
#include "core/tot.h"

/* The score that the search sees. To A* a thought is a step of cost 1, and its score estimates how
 * much of the path is left. */
static double tot_key(const Tot *t, double score)
{
    switch (t->options.order) {
    case TOT_BFS: return 0;
    case TOT_DFS: return t->rounds_grown;
    case TOT_BEST_FIRST: return score;
    default: return t->search.has_policy_score ? (1 - score) * t->options.max_depth : score;
    }
}

static TotOutcome outcome_of(SearchStatus status)
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
    return search_back_up(s) ? tot_select(t) : TOT_NO_MEMORY;
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
    search_tell_score(&t->search, id, tot_key(t, score));
    search_set_evaluated(&t->search, id);
}

/* Ends the round, or continues it with the tickets of another wave. */
TotOutcome tot_back_up(Tot *t)
{
    SearchStatus status = SEARCH_OK;
    t->first_ticket = (uint32_t)t->search.tickets.count;
    t->has_wave = search_next_wave(&t->search, &status);
    if (status == SEARCH_OK && !t->has_wave && !search_back_up(&t->search))
        status = SEARCH_NO_MEMORY;
    return outcome_of(status);
}

uint32_t tot_count_expanding(const Tot *t)
{
    uint32_t count = 0;
    for (size_t i = t->first_ticket; i < t->search.tickets.count; i++)
        count += t->search.tickets.items[i].expands;
    return count;
}

/* Selects rounds until one has a ticket that expands its node. */
TotOutcome tot_select(Tot *t)
{
    if (t->has_wave)
        return TOT_DONE;
    do {
        SearchStatus status = search_next_round(&t->search);
        t->first_ticket = 0;
        if (status != SEARCH_OK)
            return outcome_of(status);
    } while (tot_count_expanding(t) == 0 && search_back_up(&t->search));
    return tot_count_expanding(t) > 0 ? TOT_DONE : TOT_NO_MEMORY;
}

TotOutcome tot_choose(Tot *t, const uint32_t *chosen, uint32_t count)
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

uint32_t tot_frontier_size(const Tot *t)
{
    return tot_has_frontier(t) ? best_first_count(&t->search) : t->open_leaves;
}

TotOutcome tot_list_frontier(const Tot *t, uint32_t *ids)
{
    if (tot_has_frontier(t))
        return best_first_list(&t->search, ids) ? TOT_DONE : TOT_NO_MEMORY;
    for (uint32_t i = 0; i < t->node_count; i++)
        if (tot_is_leaf(t, i) && t->nodes[i].depth < t->options.max_depth)
            *ids++ = i;
    return TOT_DONE;
}

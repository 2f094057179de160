/*
 * search_policy.h -- a policy: what one search strategy selects and how it backs up.
 *
 * Ids, duplicates, limits, events and the order of callbacks are the engine's.
 */
#ifndef PONDER_CORE_SEARCH_POLICY_H
#define PONDER_CORE_SEARCH_POLICY_H

#include "core/search.h"

typedef struct SearchPolicy {
    size_t node_size; /* of its struct beside each node */
    size_t more_size; /* of what follows it, with priors of the nodes' own or `guide` */
    size_t data_size; /* of its struct for the search */

    /* Backs up the round: the children of each ticket, in order. The first round has one ticket
     * without a node, whose child is the root. False: no memory. */
    bool (*back_up)(Search *s);

    /* Adds the tickets of the next round (search_select): OK, OVER, LIMIT or NO_MEMORY. */
    SearchStatus (*select)(Search *s);

    void (*free)(Search *s); /* frees what `data` owns; may be NULL, like all that follow */

    /* Takes the result of `evaluate`, if it is not the score itself. */
    void (*score)(Search *s, uint32_t id, double x);

    /* Whether to make the ticket's next child even though its key is known. */
    bool (*makes_duplicate)(const Search *s, const SearchTicket *ticket);

    /* A node was made, from `index` of its ticket's list; the root's ticket has no node. */
    void (*add)(Search *s, const SearchTicket *ticket, uint32_t id, uint32_t index);

    /* Adds tickets to a running round; false: none, perhaps because of *status. */
    bool (*extend)(Search *s, SearchStatus *status);

    /* Adds tickets that follow from the round's new children, before it is backed up. */
    bool (*wave)(Search *s, SearchStatus *status);

    /* Whether evaluated node `a`, not terminal, is a better answer than `b`, not terminal. */
    bool (*better)(const Search *s, uint32_t a, uint32_t b);

    void (*facts)(const Search *s, uint32_t id, SearchFacts *facts);
    bool (*group)(const Search *s, uint32_t i, const uint32_t **ids, size_t *count);

    bool counts_iterations;
    bool scores_levels; /* evaluate_all gets all new nodes of a round at once */
    bool terminal_ends; /* processing a terminal node ends the search */
} SearchPolicy;

extern const SearchPolicy search_bfs, search_dfs, search_beam, search_best_first, search_uct,
    search_ab_mcts, search_astar, search_idastar, search_dvts, search_evolve;

/* Adds a ticket for a node, into reserved room. */
SearchTicket *search_select(Search *s, uint32_t node);

/* The most tickets of a round: `batch`, or fewer if max_iterations is near. */
static inline uint64_t search_round_limit(const Search *s)
{
    uint64_t left = s->options.max_iterations - s->iterations;
    return s->policy->counts_iterations && left < s->options.batch ? left : s->options.batch;
}

/* The number of the next ticket, from 0 over all rounds, if the policy counts iterations. */
static inline uint64_t search_ticket_number(const Search *s)
{
    return s->iterations + s->tickets.count;
}

static inline bool search_reserve_tickets(Search *s, size_t more)
{
    return vec_reserve(&s->tickets, &s->alloc, more);
}

/* retain_path: counts references to the node (by a frontier, as the best). */
void search_hold(Search *s, uint32_t id);
void search_release(Search *s, uint32_t id);

/* ---- random numbers (search_draw.c) ---- */

typedef struct SearchDraw {
    uint64_t state;
} SearchDraw;

SearchDraw search_draw(uint64_t seed, uint64_t ticket, uint64_t node, uint64_t arm);
double search_uniform(SearchDraw *d);
double search_normal(SearchDraw *d);
double search_student(SearchDraw *d, double nu);
double search_beta(SearchDraw *d, double x, double y);

#endif

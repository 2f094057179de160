/*
 * search_policy.h -- a policy: what one search selects and how it backs up. Ids, duplicates,
 * limits, events and the order of callbacks are the engine's.
 */
#ifndef PONDER_CORE_SEARCH_POLICY_H
#define PONDER_CORE_SEARCH_POLICY_H

#include "core/search.h"

typedef struct SearchPolicy {
    const char *name;
    size_t extra_size; /* of its struct beside each node */
    size_t more_size;  /* of what follows it, with priors of the nodes' own or `guide` */
    size_t data_size;  /* of its struct for the search */

    /* Any of these functions may be NULL. This backs up the round: the children of each ticket, in
     * order. The first round has one ticket without a node, whose child is the root. False: no
     * memory. */
    bool (*back_up)(Search *s);

    /* Adds the tickets of the next round (search_select): OK, OVER, LIMIT or NO_MEMORY. */
    SearchStatus (*select)(Search *s);

    /* Takes a node's score where that is not the result of `evaluate` itself. */
    void (*score)(Search *s, uint32_t id, double x);

    /* Whether the ticket's next child, whose key node `holder` has, is made all the same. */
    bool (*makes_duplicate)(const Search *s, const SearchTicket *t, uint32_t holder);

    void (*add)(Search *s, const SearchTicket *t, uint32_t id); /* a node was made */

    SearchStatus (*wave)(Search *s); /* see search_more */

    /* Whether node `a`, not terminal, is a better answer than `b`, not terminal. */
    bool (*better)(const Search *s, uint32_t a, uint32_t b);

    void (*facts)(const Search *s, uint32_t id, SearchFacts *facts);

    bool counts_iterations;
    bool terminal_ends; /* processing a terminal node ends the search */
} SearchPolicy;

extern const SearchPolicy search_bfs, search_dfs, search_beam, search_best_first, search_uct,
    search_astar, search_idastar;

/* Adds a ticket for a node. NULL: no memory. */
SearchTicket *search_select(Search *s, uint32_t node);

/* The most tickets of a round: `batch`, or fewer if max_iterations is near. */
static inline uint64_t search_round_limit(const Search *s)
{
    uint64_t left = s->options.max_iterations - s->iterations;
    return left < s->options.batch ? left : s->options.batch;
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
double search_gamma(SearchDraw *d, double x);
double search_beta(SearchDraw *d, double x, double y);

#endif

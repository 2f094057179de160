/*
 * search_path.h -- what astar and idastar share (in search_astar.c): the cost of a path and the
 * estimate of the rest.
 */
#ifndef PONDER_CORE_SEARCH_PATH_H
#define PONDER_CORE_SEARCH_PATH_H

#include "core/search_policy.h"

typedef struct PathNode {
    double g, h;
} PathNode;

static inline PathNode *path_node(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

/* f = g + weight * h */
static inline double path_f(const Search *s, uint32_t id)
{
    return 0 - search_node(s, id)->score;
}

/* Whether a cheaper node with the same key exists; a stale node is never processed. */
static inline bool path_is_stale(const Search *s, uint32_t id)
{
    return !search_node(s, id)->open;
}

void path_add(Search *s, const SearchTicket *t, uint32_t id);
void path_score(Search *s, uint32_t id, double h);
bool path_makes_duplicate(const Search *s, const SearchTicket *t, uint32_t holder);
bool path_better(const Search *s, uint32_t a, uint32_t b);
void path_facts(const Search *s, uint32_t id, SearchFacts *facts);

#endif

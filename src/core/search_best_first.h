/*
 * search_best_first.h -- the frontier of a best-first search, for the ToT machine, whose caller may
 * list it and choose from it.
 */
#ifndef PONDER_CORE_SEARCH_BEST_FIRST_H
#define PONDER_CORE_SEARCH_BEST_FIRST_H

#include "core/search_policy.h"

uint32_t best_first_count(const Search *s);

/* Writes the open nodes, next first, to `ids`, which has room for them. False: no memory. */
bool best_first_list(const Search *s, uint32_t *ids);

/* Puts a node on the frontier. False: no memory. */
bool best_first_open(Search *s, uint32_t id);

/* Removes nodes from the frontier. False, and no change, unless each is on it and named once. */
bool best_first_remove(Search *s, const uint32_t *ids, uint32_t count);

#endif

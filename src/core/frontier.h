/*
 * frontier.h -- the open nodes of a best-first search, best or worst first.
 *
 * Of two nodes with the same score the older one (the lower id) is the better. The worst-first
 * order is the exact reverse, which is what a capped frontier drops from.
 *
 * Most open nodes are never taken, so only the first of them are kept in order: a 4-ary heap of
 * `ready` entries. The others follow it in `entries` in no order; all of them come after `limit`.
 * When the heap runs empty, the first of the others become the next one; when it has grown too big
 * for the cache, its last half joins the others. Either takes time linear in the entries looked at,
 * and only happens after a share of as many pushes or pops.
 */
#ifndef PONDER_CORE_FRONTIER_H
#define PONDER_CORE_FRONTIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/alloc.h"

typedef struct FrontierEntry {
    double score;
    uint32_t id;
} FrontierEntry;

typedef struct Frontier {
    FrontierEntry *entries;
    size_t count, capacity;
    size_t ready;
    size_t most_ready; /* a bigger heap is split */
    FrontierEntry limit;
    bool worst_first;
} Frontier;

void frontier_free(Frontier *f, const Alloc *alloc);

/* Makes room for `extra` more entries; false if there is no memory, with the frontier unchanged. */
bool frontier_reserve(Frontier *f, const Alloc *alloc, size_t extra);

/* Adds an entry; room must have been reserved. */
void frontier_push(Frontier *f, double score, uint32_t id);

/* The first entry of a frontier that is not empty; frontier_pop takes it. */
FrontierEntry frontier_first(Frontier *f);
FrontierEntry frontier_pop(Frontier *f);

/* Puts the first `wanted` entries in front, in order; the others follow in no order. */
void frontier_sort(Frontier *f, size_t wanted);

/* Keeps the first `count` of the entries, which may have been moved. */
void frontier_keep(Frontier *f, size_t count);

#endif

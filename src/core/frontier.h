/*
 * frontier.h -- the open nodes of a best-first search, best or worst first.
 *
 * A 4-ary heap of {score, id}. Of two nodes with the same score the older one (the lower id) is the
 * better. The worst-first order is the exact reverse, which is what a capped frontier drops from.
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
    bool worst_first;
} Frontier;

void frontier_free(Frontier *f, const Alloc *alloc);

/* Makes room for `extra` more entries; false if there is no memory, with the frontier unchanged. */
bool frontier_reserve(Frontier *f, const Alloc *alloc, size_t extra);

/* Adds an entry; room must have been reserved. */
void frontier_push(Frontier *f, double score, uint32_t id);

/* Takes the first entry of a frontier that is not empty. */
FrontierEntry frontier_pop(Frontier *f);

/* Appends without ordering (room reserved); frontier_order makes it a heap again, in linear time.
 */
void frontier_append(Frontier *f, double score, uint32_t id);
void frontier_order(Frontier *f);

#endif

/*
 * frontier.h -- the open nodes of a best-first search, best or worst first: a heap (heap.h).
 *
 * Of two nodes with the same score the older one (the lower id) is the better. The worst-first
 * order is the exact reverse, which is what a capped frontier drops from.
 */
#ifndef PONDER_CORE_FRONTIER_H
#define PONDER_CORE_FRONTIER_H

#include "core/heap.h"

typedef struct FrontierEntry {
    double score;
    uint32_t id;
} FrontierEntry;

typedef struct Frontier {
    HEAP_OF(FrontierEntry);
    bool worst_first;
} Frontier;

static inline bool frontier_before(const Frontier *f, FrontierEntry a, FrontierEntry b)
{
    /* Which of two scores is higher cannot be predicted, that they differ mostly can: one branch.
     */
    bool better = a.score > b.score;
    if (__builtin_expect(a.score == b.score, 0))
        better = a.id < b.id;
    return better != f->worst_first;
}

#define HEAP_TYPE   Frontier
#define HEAP_ENTRY  FrontierEntry
#define HEAP_BEFORE frontier_before
#define HEAP(name)  frontier_##name
#include "core/heap.h"

#endif

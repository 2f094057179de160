/*
 * frontier.h -- the open nodes of a best-first search, best or worst first: a heap (heap.h).
 *
 * Of two nodes with the same score the older (lower id) is better. Worst first is the exact
 * reverse; a capped frontier drops nodes in that order.
 */
#ifndef PONDER_CORE_FRONTIER_H
#define PONDER_CORE_FRONTIER_H

#include "core/heap.h"

/* Packed: 12 bytes rather than 16, since a frontier may hold most of a tree. */
typedef struct __attribute__((packed, aligned(4))) FrontierEntry {
    double score;
    uint32_t id;
} FrontierEntry;

typedef struct Frontier {
    HEAP_OF(FrontierEntry);
    bool worst_first;
} Frontier;

static inline bool frontier_before(const Frontier *f, FrontierEntry a, FrontierEntry b)
{
    /* Only the rare tie is a branch: which score is higher cannot be predicted. */
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

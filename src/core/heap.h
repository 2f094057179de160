/*
 * heap.h -- the open nodes of a search: a binary heap, which is also a vec.h array (vec_reserve
 * before a push, vec_free at the end). The least key is first, ties to the least h, then to the
 * oldest.
 */
#ifndef PONDER_CORE_HEAP_H
#define PONDER_CORE_HEAP_H

#include "core/vec.h"

typedef struct HeapEntry {
    double key, h;
    uint32_t id;
} HeapEntry;

typedef struct Heap {
    VEC_OF(HeapEntry);
} Heap;

static inline bool heap_before(HeapEntry a, HeapEntry b)
{
    /* Only the rare tie is a branch: which key is less cannot be predicted. */
    if (__builtin_expect(a.key == b.key, 0))
        return a.h < b.h || (a.h == b.h && a.id < b.id);
    return a.key < b.key;
}

static inline void heap_push(Heap *h, HeapEntry entry)
{
    size_t at = h->count++;
    for (; at > 0 && heap_before(entry, h->items[(at - 1) / 2]); at = (at - 1) / 2)
        h->items[at] = h->items[(at - 1) / 2];
    h->items[at] = entry;
}

/* Removes and returns the first node of a heap that is not empty. */
static inline uint32_t heap_pop(Heap *h)
{
    uint32_t first = h->items[0].id;
    HeapEntry last = h->items[--h->count];
    size_t at = 0, child;
    for (; (child = 2 * at + 1) < h->count; at = child) {
        child += child + 1 < h->count && heap_before(h->items[child + 1], h->items[child]);
        if (!heap_before(h->items[child], last))
            break;
        h->items[at] = h->items[child];
    }
    if (h->count > 0)
        h->items[at] = last;
    return first;
}

#endif

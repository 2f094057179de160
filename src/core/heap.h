/*
 * heap.h -- a binary heap, used throughout src, for any type of entry. Include it for HEAP_OF, and
 * again after defining
 *
 *     HEAP_TYPE            a struct with HEAP_OF(entry type), and what HEAP_BEFORE needs
 *     HEAP_ENTRY           the entry type
 *     HEAP_BEFORE(h, a, b) whether entry a is popped before entry b: a strict order
 *     HEAP(name)           the names of the functions: frontier_##name
 *
 * A heap is also a vec.h array: vec_reserve(h, alloc, extra) before a push, vec_free at the end.
 */
#include "core/vec.h"

#ifndef PONDER_CORE_HEAP_H
#define PONDER_CORE_HEAP_H
#define HEAP_OF(T)  VEC_OF(T)
#define HEAP_STATIC __attribute__((unused)) static
#endif

#ifdef HEAP_TYPE

/* Adds an entry into reserved room. */
HEAP_STATIC void HEAP(push)(HEAP_TYPE *h, HEAP_ENTRY entry)
{
    size_t at = h->count++;
    for (; at > 0 && HEAP_BEFORE(h, entry, h->items[(at - 1) / 2]); at = (at - 1) / 2)
        h->items[at] = h->items[(at - 1) / 2];
    h->items[at] = entry;
}

/* Removes and returns the first entry of a heap that is not empty. */
HEAP_STATIC HEAP_ENTRY HEAP(pop)(HEAP_TYPE *h)
{
    HEAP_ENTRY first = h->items[0], last = h->items[--h->count];
    size_t at = 0, child;
    for (; (child = 2 * at + 1) < h->count; at = child) {
        child += child + 1 < h->count && HEAP_BEFORE(h, h->items[child + 1], h->items[child]);
        if (!HEAP_BEFORE(h, h->items[child], last))
            break;
        h->items[at] = h->items[child];
    }
    if (h->count > 0)
        h->items[at] = last;
    return first;
}

/* Makes a heap of entries in any order. */
HEAP_STATIC void HEAP(restore)(HEAP_TYPE *h)
{
    size_t count = h->count;
    for (h->count = 0; h->count < count;)
        HEAP(push)(h, h->items[h->count]);
}

#undef HEAP_TYPE
#undef HEAP_ENTRY
#undef HEAP_BEFORE
#undef HEAP
#endif

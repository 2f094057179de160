/*
 * heap.h -- a priority queue, used throughout src, for any type of entry. Include it for HEAP_OF,
 * and again after defining
 *
 *     HEAP_TYPE            a struct with HEAP_OF(entry type), and what HEAP_BEFORE needs
 *     HEAP_ENTRY           the entry type
 *     HEAP_BEFORE(h, a, b) whether entry a is popped before entry b: a strict order
 *     HEAP(name)           the names of the functions: frontier_##name
 *
 * A heap is also a vec.h array: vec_reserve(h, alloc, extra) before a push, vec_free at the end.
 *
 * Most entries of a big queue are never popped, so only the first of them are kept in a 4-ary heap
 * of `ready` entries. (It has half the levels of a binary heap, and four children share a cache
 * line.) The rest follow in `items`, unordered; none of them comes before `limit`. When the heap
 * runs empty, the first of the rest become the next heap; when it outgrows the cache, its last half
 * joins the rest. Both take time linear in the entries they look at, and happen only after a
 * proportional number of pushes or pops.
 */
#include "core/vec.h"

#ifndef PONDER_CORE_HEAP_H
#define PONDER_CORE_HEAP_H

#define HEAP_OF(T)                                                                                 \
    VEC_OF(T);                                                                                     \
    size_t ready;                                                                                  \
    size_t max_ready; /* a bigger heap is split */                                                 \
    T limit

#define HEAP_STATIC __attribute__((unused)) static

enum {
    HEAP_ARITY = 4,
    HEAP_FEW = 1024, /* the least a refill takes: these fit the L1 cache */
    HEAP_SHARE = 8,  /* a refill takes one in this many entries */
    HEAP_SMALL = 12, /* up to this many entries are sorted by insertion */
    HEAP_GROWTH = 2  /* a heap is split once it has grown by this factor */
};

#endif

#ifdef HEAP_TYPE

/* Moves `moving` up from the hole at `at`, no higher than `root`. */
HEAP_STATIC void HEAP(sift_up)(HEAP_TYPE *h, size_t at, size_t root, HEAP_ENTRY moving)
{
    while (at > root) {
        size_t parent = (at - 1) / HEAP_ARITY;
        if (!HEAP_BEFORE(h, moving, h->items[parent]))
            break;
        h->items[at] = h->items[parent];
        at = parent;
    }
    h->items[at] = moving;
}

/* The first of the four entries from `at` on: compares two pairs, then their winners. */
HEAP_STATIC size_t HEAP(first_of_four)(const HEAP_TYPE *h, size_t at)
{
    const HEAP_ENTRY *four = &h->items[at];
    size_t left = HEAP_BEFORE(h, four[1], four[0]), right = 2 + HEAP_BEFORE(h, four[3], four[2]);
    return at + (HEAP_BEFORE(h, four[right], four[left]) ? right : left);
}

/* Inserts `moving` below the hole at `root`. As it mostly belongs near the bottom, the hole first
 * sinks all the way, and `moving` rises from there. */
HEAP_STATIC void HEAP(sift_down)(HEAP_TYPE *h, size_t root, HEAP_ENTRY moving)
{
    size_t at = root;
    for (;;) {
        size_t child = at * HEAP_ARITY + 1, first = child;
        if (child >= h->ready)
            break;
        if (child + HEAP_ARITY <= h->ready)
            first = HEAP(first_of_four)(h, child);
        else
            while (++child < h->ready)
                first = HEAP_BEFORE(h, h->items[child], h->items[first]) ? child : first;
        h->items[at] = h->items[first];
        at = first;
    }
    HEAP(sift_up)(h, at, root, moving);
}

/* Makes a heap of the first `ready` entries. */
HEAP_STATIC void HEAP(order_ready)(HEAP_TYPE *h, size_t ready)
{
    h->ready = ready;
    if (ready < 2)
        return;
    for (size_t at = (ready - 2) / HEAP_ARITY + 1; at-- > 0;)
        HEAP(sift_down)(h, at, h->items[at]);
}

/* Partitions [start, end) around a pivot and returns the pivot's index. Pivots come from a fixed
 * pseudo-random sequence, so that sorted input is not a slow case. */
HEAP_STATIC size_t HEAP(partition)(HEAP_TYPE *h, size_t start, size_t end, uint32_t *draw)
{
    *draw = *draw * 1664525u + 1013904223u;
    size_t front = start, at = start + (size_t)(*draw >> 8) % (end - start);
    HEAP_ENTRY *items = h->items, pivot = items[at];
    items[at] = items[--end];
    for (size_t i = start; i < end; i++) {
        HEAP_ENTRY entry = items[i];
        items[i] = items[front];
        items[front] = entry;
        front += HEAP_BEFORE(h, entry, pivot);
    }
    items[end] = items[front];
    items[front] = pivot;
    return front;
}

/* Quickselect: moves the `wanted` (>= 1) foremost of the first `count` entries to the front; the
 * last of them becomes the limit. */
HEAP_STATIC void HEAP(select)(HEAP_TYPE *h, size_t count, size_t wanted)
{
    uint32_t draw = 1;
    size_t start = 0, end = count;
    while (start < wanted && end - start > 1) {
        size_t at = HEAP(partition)(h, start, end, &draw);
        if (at >= wanted)
            end = at;
        else
            start = at + 1;
    }
    h->limit = h->items[wanted - 1];
}

/* The same, and makes a heap of them. */
HEAP_STATIC void HEAP(split)(HEAP_TYPE *h, size_t count, size_t wanted)
{
    HEAP(select)(h, count, wanted);
    HEAP(order_ready)(h, wanted);
}

HEAP_STATIC void HEAP(refill)(HEAP_TYPE *h)
{
    size_t wanted = h->count / HEAP_SHARE > HEAP_FEW ? h->count / HEAP_SHARE : HEAP_FEW;
    h->max_ready = wanted * HEAP_GROWTH;
    if (wanted < h->count)
        HEAP(split)(h, h->count, wanted);
    else
        HEAP(order_ready)(h, h->count);
}

/* Adds an entry into reserved room. */
HEAP_STATIC void HEAP(push)(HEAP_TYPE *h, HEAP_ENTRY entry)
{
    size_t last = h->count++;
    if (h->ready == 0 || (h->ready < last && !HEAP_BEFORE(h, entry, h->limit))) {
        h->items[last] = entry;
        return;
    }
    h->items[last] = h->items[h->ready]; /* makes room behind the heap */
    HEAP(sift_up)(h, h->ready++, 0, entry);
    if (h->ready > h->max_ready)
        HEAP(split)(h, h->ready, h->ready / 2);
}

/* The first entry of a non-empty heap; pop removes it. */
HEAP_STATIC HEAP_ENTRY HEAP(first)(HEAP_TYPE *h)
{
    if (h->ready == 0)
        HEAP(refill)(h);
    return h->items[0];
}

HEAP_STATIC HEAP_ENTRY HEAP(pop)(HEAP_TYPE *h)
{
    HEAP_ENTRY first = HEAP(first)(h), moving = h->items[--h->ready];
    h->items[h->ready] = h->items[--h->count];
    if (h->ready > 0)
        HEAP(sift_down)(h, 0, moving);
    return first;
}

/* Quicksort of [start, end), skipping what lies beyond the first `wanted` entries of all. */
HEAP_STATIC void HEAP(sort_part)(HEAP_TYPE *h, size_t start, size_t end, size_t wanted,
                                 uint32_t *draw)
{
    while (start < wanted && end - start > HEAP_SMALL) {
        size_t at = HEAP(partition)(h, start, end, draw);
        if (at - start < end - at) { /* recurse into the shorter part: bounds the stack */
            HEAP(sort_part)(h, start, at, wanted, draw);
            start = at + 1;
        } else {
            HEAP(sort_part)(h, at + 1, end, wanted, draw);
            end = at;
        }
    }
    for (size_t i = start + 1; start < wanted && i < end; i++) {
        HEAP_ENTRY moving = h->items[i];
        size_t at = i;
        for (; at > start && HEAP_BEFORE(h, moving, h->items[at - 1]); at--)
            h->items[at] = h->items[at - 1];
        h->items[at] = moving;
    }
}

/* Moves the first `wanted` entries to the front, in order; the others follow unordered. */
HEAP_STATIC void HEAP(sort)(HEAP_TYPE *h, size_t wanted)
{
    uint32_t draw = 1;
    HEAP(sort_part)(h, 0, h->count, wanted, &draw);
    h->ready = 0;
}

/* Truncates to `count` entries, after the caller has rearranged `items`. */
HEAP_STATIC void HEAP(keep)(HEAP_TYPE *h, size_t count)
{
    h->count = count;
    h->ready = 0;
}

#undef HEAP_TYPE
#undef HEAP_ENTRY
#undef HEAP_BEFORE
#undef HEAP
#endif

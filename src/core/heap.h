/*
 * heap.h -- the heap of all of src, for any type of entry. Include it for HEAP_OF, and again after
 * defining
 *
 *     HEAP_TYPE            a struct with HEAP_OF(entry type), and what HEAP_BEFORE needs
 *     HEAP_ENTRY           the entry type
 *     HEAP_BEFORE(h, a, b) whether entry a leaves the heap h before entry b: a strict order
 *     HEAP(name)           the names of its functions: frontier_##name
 *
 * Room is that of vec.h: vec_reserve(h, alloc, extra) before a push, vec_free at the end.
 *
 * Most entries of a big heap are never popped, so only the first of them are kept in order: a 4-ary
 * heap of `ready` entries. (It has half the levels of a binary one, and a node's four children
 * share a cache line.) The others follow it in `items` in no order; all of them come after `limit`.
 * When the heap runs empty, the first of the others become the next one; when it has grown too big
 * for the cache, its last half joins the others. Either takes time linear in the entries looked at,
 * and only happens after a share of as many pushes or pops.
 */
#include "core/vec.h"

#ifndef PONDER_CORE_HEAP_H
#define PONDER_CORE_HEAP_H

#define HEAP_OF(T)                                                                                 \
    VEC_OF(T);                                                                                     \
    size_t ready;                                                                                  \
    size_t most_ready; /* a bigger heap is split */                                                \
    T limit

#define HEAP_STATIC __attribute__((unused)) static

enum {
    HEAP_ARITY = 4,
    HEAP_FEW = 1024, /* entries of a small heap: they stay in the nearest cache */
    HEAP_SHARE = 8,  /* of all entries, one in so many becomes a heap */
    HEAP_SMALL = 12, /* so many entries are sorted without further parting */
    HEAP_GROWTH = 2  /* a heap may grow to so many times its size */
};

#endif

#ifdef HEAP_TYPE

/* Moves `moving` up from the hole at `at` to where it belongs, no higher than `root`. */
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

/* The first of the four entries from `at` on: two pairs at once, then the better of both. */
HEAP_STATIC size_t HEAP(first_of_four)(const HEAP_TYPE *h, size_t at)
{
    const HEAP_ENTRY *four = &h->items[at];
    size_t left = HEAP_BEFORE(h, four[1], four[0]), right = 2 + HEAP_BEFORE(h, four[3], four[2]);
    return at + (HEAP_BEFORE(h, four[right], four[left]) ? right : left);
}

/* Puts `moving` below `root`, which is a hole. It mostly belongs near the bottom: the hole goes all
 * the way down without looking at it, and it comes up from there. */
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

/* Puts what comes before some entry, the pivot, in front of it, from `start` to before `end`;
 * returns where the pivot is then. Pivots are drawn from a fixed sequence, so that no order of
 * scores is slow as such. */
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

/* Of the first `count` entries, moves the first `wanted` (>= 1) to the front (quickselect) and
 * makes them the heap; the last of them is the limit. */
HEAP_STATIC void HEAP(split)(HEAP_TYPE *h, size_t count, size_t wanted)
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
    HEAP(order_ready)(h, wanted);
}

HEAP_STATIC void HEAP(refill)(HEAP_TYPE *h)
{
    size_t wanted = h->count / HEAP_SHARE > HEAP_FEW ? h->count / HEAP_SHARE : HEAP_FEW;
    h->most_ready = wanted * HEAP_GROWTH;
    if (wanted < h->count)
        HEAP(split)(h, h->count, wanted);
    else
        HEAP(order_ready)(h, h->count);
}

/* Adds an entry, for which there must be room. */
HEAP_STATIC void HEAP(push)(HEAP_TYPE *h, HEAP_ENTRY entry)
{
    size_t last = h->count++;
    if (h->ready == 0 || (h->ready < last && !HEAP_BEFORE(h, entry, h->limit))) {
        h->items[last] = entry;
        return;
    }
    h->items[last] = h->items[h->ready]; /* makes room behind the heap */
    HEAP(sift_up)(h, h->ready++, 0, entry);
    if (h->ready > h->most_ready)
        HEAP(split)(h, h->ready, h->ready / 2);
}

/* The first entry of a heap that is not empty; pop removes it. */
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

/* Sorts the entries from `start` to before `end`, but not beyond the first `wanted` of all. */
HEAP_STATIC void HEAP(sort_part)(HEAP_TYPE *h, size_t start, size_t end, size_t wanted,
                                 uint32_t *draw)
{
    while (start < wanted && end - start > HEAP_SMALL) {
        size_t at = HEAP(partition)(h, start, end, draw);
        if (at - start < end - at) { /* the shorter part first: the stack stays low */
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

/* Puts the first `wanted` entries in front, in order; the others follow in no order. */
HEAP_STATIC void HEAP(sort)(HEAP_TYPE *h, size_t wanted)
{
    uint32_t draw = 1;
    HEAP(sort_part)(h, 0, h->count, wanted, &draw);
    h->ready = 0;
}

/* Keeps the first `count` of the entries, which may have been moved. */
HEAP_STATIC void HEAP(keep)(HEAP_TYPE *h, size_t count)
{
    h->count = count;
    h->ready = 0;
}

/* Orders all entries at once, however few will be popped: no order of pushes is slow. */
HEAP_STATIC void HEAP(order)(HEAP_TYPE *h)
{
    h->most_ready = SIZE_MAX;
    HEAP(order_ready)(h, h->count);
}

#undef HEAP_TYPE
#undef HEAP_ENTRY
#undef HEAP_BEFORE
#undef HEAP
#endif

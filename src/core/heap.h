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
 * Most entries of a big queue are never popped, so entries are sorted only as far as pops need: an
 * incremental quicksort (the quickheap of Navarro and Paredes 2010). `items` is a sequence of
 * segments: each entry comes before all those of later segments, but within a segment the order is
 * open. A pop partitions the first segment until it is short, and sorts that: in reverse, so that
 * the first entry is its last. A new entry makes room by moving one entry of each segment behind
 * it. Whatever the number of entries, there are few segments, and only their ends are touched.
 */
#include <string.h>

#include "core/vec.h"

#ifndef PONDER_CORE_HEAP_H
#define PONDER_CORE_HEAP_H

enum {
    HEAP_SMALL = 12,   /* up to this many entries are sorted by insertion */
    HEAP_MOST = 32,    /* the most entries of a sorted segment */
    HEAP_SEGMENTS = 32 /* each is longer than the one before, when it is made */
};

#define HEAP_OF(T)                                                                                 \
    VEC_OF(T);                                                                                     \
    size_t sorted; /* the length of the first segment if it is sorted; else 0 */                   \
    size_t splits; /* the segments after the first, the last one first: */                         \
    struct {                                                                                       \
        size_t start;                                                                              \
        T least; /* all that come before it are in earlier segments */                             \
    } split[HEAP_SEGMENTS]

#define HEAP_STATIC __attribute__((unused)) static

#endif

#ifdef HEAP_TYPE

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

/* Quickselect: moves the `wanted` (>= 1) foremost entries to the front; returns the last one. What
 * equals a pivot that nothing precedes is moved in one pass, so many equal entries are no slow
 * case.
 */
HEAP_STATIC HEAP_ENTRY HEAP(select)(HEAP_TYPE *h, size_t wanted)
{
    uint32_t draw = 1;
    size_t start = 0, end = h->count;
    while (start < wanted && end - start > 1) {
        size_t at = HEAP(partition)(h, start, end, &draw);
        if (at >= wanted) {
            end = at;
            continue;
        }
        bool is_first = at == start;
        HEAP_ENTRY pivot = h->items[at];
        start = at + 1;
        for (size_t i = start; is_first && i < end; i++) {
            HEAP_ENTRY entry = h->items[i];
            if (!HEAP_BEFORE(h, pivot, entry)) {
                h->items[i] = h->items[start];
                h->items[start++] = entry;
            }
        }
    }
    return h->items[wanted - 1];
}

/* Inserts an entry into the reverse order of the first `at` entries. */
HEAP_STATIC void HEAP(insert)(HEAP_TYPE *h, size_t at, HEAP_ENTRY entry)
{
    for (; at > 0 && HEAP_BEFORE(h, h->items[at - 1], entry); at--)
        h->items[at] = h->items[at - 1];
    h->items[at] = entry;
}

/* The end of the segment after split `i`; of the first one for i = splits. */
HEAP_STATIC size_t HEAP(end_of)(const HEAP_TYPE *h, size_t i)
{
    return i > 0 ? h->split[i - 1].start : h->count;
}

/* Splits the first segment at `at`, from where on nothing comes before `least`. Shorter segments
 * that follow are joined to the new one: so there are few. */
HEAP_STATIC void HEAP(split_at)(HEAP_TYPE *h, size_t at, HEAP_ENTRY least)
{
    size_t end = HEAP(end_of)(h, h->splits);
    while (h->splits > 0 && HEAP(end_of)(h, h->splits - 1) - end < end - at)
        end = HEAP(end_of)(h, --h->splits);
    if (h->splits == HEAP_SEGMENTS)
        memmove(h->split, h->split + 1, --h->splits * sizeof *h->split);
    h->split[h->splits].start = at;
    h->split[h->splits++].least = least;
}

/* Adds an entry into reserved room. */
HEAP_STATIC void HEAP(push)(HEAP_TYPE *h, HEAP_ENTRY entry)
{
    size_t hole = h->count++, i = 0;
    for (; i < h->splits && HEAP_BEFORE(h, entry, h->split[i].least); i++) {
        h->items[hole] = h->items[h->split[i].start];
        hole = h->split[i].start++;
    }
    if (i < h->splits || h->sorted == 0) {
        h->items[hole] = entry;
        return;
    }
    HEAP(insert)(h, hole, entry);
    h->sorted = h->sorted < HEAP_MOST ? h->sorted + 1 : 0;
}

/* The first entry of a non-empty heap; pop removes it. It may be changed if it stays the first. */
HEAP_STATIC HEAP_ENTRY *HEAP(first)(HEAP_TYPE *h)
{
    uint32_t draw = 1;
    if (h->sorted > 0)
        return &h->items[h->sorted - 1];
    size_t end = HEAP(end_of)(h, h->splits);
    while (end > HEAP_SMALL) {
        size_t at = HEAP(partition)(h, 0, end, &draw);
        end = at > 0 ? at : 1;
        HEAP(split_at)(h, end, h->items[at]);
    }
    for (size_t i = 1; i < end; i++)
        HEAP(insert)(h, i, h->items[i]);
    h->sorted = end;
    return &h->items[end - 1];
}

HEAP_STATIC HEAP_ENTRY HEAP(pop)(HEAP_TYPE *h)
{
    HEAP_ENTRY first = *HEAP(first)(h);
    size_t hole = --h->sorted;
    for (size_t i = h->splits; i-- > 0;) {
        size_t last = HEAP(end_of)(h, i) - 1;
        h->split[i].start--;
        h->items[hole] = h->items[last];
        hole = last;
    }
    h->count--;
    h->splits -= h->sorted == 0 && h->splits > 0;
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
    h->sorted = h->splits = 0;
}

/* Truncates to `count` entries, after the caller has rearranged `items`. */
HEAP_STATIC void HEAP(keep)(HEAP_TYPE *h, size_t count)
{
    h->count = count;
    h->sorted = h->splits = 0;
}

#undef HEAP_TYPE
#undef HEAP_ENTRY
#undef HEAP_BEFORE
#undef HEAP
#endif

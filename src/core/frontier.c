/*
 * frontier.c -- see frontier.h. A 4-ary heap has half the levels of a binary one, and a node's four
 * children share a cache line.
 */
#include "core/frontier.h"

#define ARITY  4
#define FEW    1024 /* entries of a small heap: they stay in the nearest cache */
#define SHARE  64   /* of all entries, one in so many becomes a heap */
#define SMALL  12   /* so many entries are sorted without further parting */
#define GROWTH 2    /* a heap may grow to so many times its size */

static inline bool comes_first(const Frontier *f, FrontierEntry a, FrontierEntry b)
{
    /* Which of two scores is higher cannot be predicted, that they differ mostly can: one branch.
     */
    bool better = a.score > b.score;
    if (__builtin_expect(a.score == b.score, 0))
        better = a.id < b.id;
    return better != f->worst_first;
}

/* Moves `moving` up from the hole at `at` to where it belongs, no higher than `root`. */
static void sift_up(Frontier *f, size_t at, size_t root, FrontierEntry moving)
{
    while (at > root) {
        size_t parent = (at - 1) / ARITY;
        if (!comes_first(f, moving, f->entries[parent]))
            break;
        f->entries[at] = f->entries[parent];
        at = parent;
    }
    f->entries[at] = moving;
}

/* The first of the ARITY entries from `at` on: two pairs at once, then the better of both. */
static size_t first_of_four(const Frontier *f, size_t at)
{
    const FrontierEntry *four = &f->entries[at];
    size_t left = comes_first(f, four[1], four[0]), right = 2 + comes_first(f, four[3], four[2]);
    return at + (comes_first(f, four[right], four[left]) ? right : left);
}

/* Puts `moving` below `root`, which is a hole. It mostly belongs near the bottom: the hole goes all
 * the way down without looking at it, and it comes up from there. */
static void sift_down(Frontier *f, size_t root, FrontierEntry moving)
{
    size_t at = root;
    for (;;) {
        size_t child = at * ARITY + 1, first = child;
        if (child >= f->ready)
            break;
        if (child + ARITY <= f->ready)
            first = first_of_four(f, child);
        else
            while (++child < f->ready)
                first = comes_first(f, f->entries[child], f->entries[first]) ? child : first;
        f->entries[at] = f->entries[first];
        at = first;
    }
    sift_up(f, at, root, moving);
}

/* Makes a heap of the first `ready` entries. */
static void order_ready(Frontier *f, size_t ready)
{
    f->ready = ready;
    if (ready < 2)
        return;
    for (size_t at = (ready - 2) / ARITY + 1; at-- > 0;)
        sift_down(f, at, f->entries[at]);
}

/* Puts what comes before some entry, the pivot, in front of it, from `start` to before `end`;
 * returns where the pivot is then. Pivots are drawn from a fixed sequence, so that no order of
 * scores is slow as such. */
static size_t partition(Frontier *f, size_t start, size_t end, uint32_t *draw)
{
    *draw = *draw * 1664525u + 1013904223u;
    size_t front = start, at = start + (size_t)(*draw >> 8) % (end - start);
    FrontierEntry *entries = f->entries, pivot = entries[at];
    entries[at] = entries[--end];
    for (size_t i = start; i < end; i++) {
        FrontierEntry entry = entries[i];
        entries[i] = entries[front];
        entries[front] = entry;
        front += comes_first(f, entry, pivot);
    }
    entries[end] = entries[front];
    entries[front] = pivot;
    return front;
}

/* Of the first `count` entries, moves the first `wanted` (>= 1) to the front (quickselect) and
 * makes them the heap; the last of them is the limit. */
static void split(Frontier *f, size_t count, size_t wanted)
{
    uint32_t draw = 1;
    size_t start = 0, end = count;
    while (start < wanted && end - start > 1) {
        size_t at = partition(f, start, end, &draw);
        if (at >= wanted)
            end = at;
        else
            start = at + 1;
    }
    f->limit = f->entries[wanted - 1];
    order_ready(f, wanted);
}

static void refill(Frontier *f)
{
    size_t wanted = f->count / SHARE > FEW ? f->count / SHARE : FEW;
    f->most_ready = wanted * GROWTH;
    if (wanted < f->count)
        split(f, f->count, wanted);
    else
        order_ready(f, f->count);
}

void frontier_free(Frontier *f, const Alloc *alloc)
{
    alloc_free(alloc, f->entries, f->capacity * sizeof *f->entries);
    f->entries = NULL;
    f->count = f->capacity = f->ready = 0;
}

bool frontier_reserve(Frontier *f, const Alloc *alloc, size_t extra)
{
    size_t needed = f->count + extra;
    if (needed <= f->capacity)
        return true;
    size_t grown = f->capacity + f->capacity / 2 + 16;
    if (grown < needed)
        grown = needed;
    FrontierEntry *entries =
        alloc_resize(alloc, f->entries, f->capacity * sizeof *entries, grown * sizeof *entries);
    if (entries == NULL)
        return false;
    f->entries = entries;
    f->capacity = grown;
    return true;
}

void frontier_push(Frontier *f, double score, uint32_t id)
{
    FrontierEntry entry = {score, id};
    size_t last = f->count++;
    if (f->ready == 0 || (f->ready < last && !comes_first(f, entry, f->limit))) {
        f->entries[last] = entry;
        return;
    }
    f->entries[last] = f->entries[f->ready]; /* makes room behind the heap */
    sift_up(f, f->ready++, 0, entry);
    if (f->ready > f->most_ready)
        split(f, f->ready, f->ready / 2);
}

FrontierEntry frontier_first(Frontier *f)
{
    if (f->ready == 0)
        refill(f);
    return f->entries[0];
}

FrontierEntry frontier_pop(Frontier *f)
{
    FrontierEntry first = frontier_first(f), moving = f->entries[--f->ready];
    f->entries[f->ready] = f->entries[--f->count];
    if (f->ready > 0)
        sift_down(f, 0, moving);
    return first;
}

/* Sorts the entries from `start` to before `end`, but not beyond the first `wanted` of all. */
static void sort(Frontier *f, size_t start, size_t end, size_t wanted, uint32_t *draw)
{
    while (start < wanted && end - start > SMALL) {
        size_t at = partition(f, start, end, draw);
        if (at - start < end - at) { /* the shorter part first: the stack stays low */
            sort(f, start, at, wanted, draw);
            start = at + 1;
        } else {
            sort(f, at + 1, end, wanted, draw);
            end = at;
        }
    }
    for (size_t i = start + 1; start < wanted && i < end; i++) {
        FrontierEntry moving = f->entries[i];
        size_t at = i;
        for (; at > start && comes_first(f, moving, f->entries[at - 1]); at--)
            f->entries[at] = f->entries[at - 1];
        f->entries[at] = moving;
    }
}

void frontier_sort(Frontier *f, size_t wanted)
{
    uint32_t draw = 1;
    sort(f, 0, f->count, wanted, &draw);
    f->ready = 0;
}

void frontier_keep(Frontier *f, size_t count)
{
    f->count = count;
    f->ready = 0;
}

/*
 * frontier.c -- a 4-ary heap: half the levels of a binary one, and a node's four children share a
 * cache line.
 */
#include "core/frontier.h"

#define ARITY 4

static inline bool comes_first(const Frontier *f, FrontierEntry a, FrontierEntry b)
{
    /* No branch: which of two scores is higher cannot be predicted. */
    bool better = (a.score > b.score) | ((a.score == b.score) & (a.id < b.id));
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

/* Has the children of `count` entries brought into the cache: a big heap's time goes into waiting
 * for them, and it is not known yet which will be needed. */
static void fetch_children(const Frontier *f, size_t first, size_t count)
{
    size_t child = first * ARITY + 1, end = child + count * ARITY;
    for (; end <= f->count && child < end; child += ARITY)
        __builtin_prefetch(&f->entries[child]);
}

/* Puts `moving` below `root`, which is a hole. It mostly belongs near the bottom: the hole goes all
 * the way down without looking at it, and it comes up from there. */
static void sift_down(Frontier *f, size_t root, FrontierEntry moving)
{
    size_t at = root;
    for (;;) {
        size_t child = at * ARITY + 1, end = child + ARITY;
        if (child >= f->count)
            break;
        if (end > f->count)
            end = f->count;
        size_t first = child;
        fetch_children(f, child, ARITY);
        for (child++; child < end; child++)
            first = comes_first(f, f->entries[child], f->entries[first]) ? child : first;
        f->entries[at] = f->entries[first];
        at = first;
    }
    sift_up(f, at, root, moving);
}

void frontier_free(Frontier *f, const Alloc *alloc)
{
    alloc_free(alloc, f->entries, f->capacity * sizeof *f->entries);
    f->entries = NULL;
    f->count = f->capacity = 0;
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

void frontier_append(Frontier *f, double score, uint32_t id)
{
    f->entries[f->count++] = (FrontierEntry){score, id};
}

void frontier_push(Frontier *f, double score, uint32_t id)
{
    f->count++;
    sift_up(f, f->count - 1, 0, (FrontierEntry){score, id});
}

FrontierEntry frontier_pop(Frontier *f)
{
    FrontierEntry first = f->entries[0];
    f->count--;
    if (f->count > 0)
        sift_down(f, 0, f->entries[f->count]);
    return first;
}

void frontier_order(Frontier *f)
{
    if (f->count < 2)
        return;
    for (size_t at = (f->count - 2) / ARITY + 1; at-- > 0;)
        sift_down(f, at, f->entries[at]);
}

/*
 * search_best_first.c -- best-first search: a round is the best `batch` nodes of the frontier; and
 * beam search: a round is a level, of which only the best `beam_width` nodes are selected.
 *
 * A frontier with a cap is two heaps of the same nodes, best first and worst first. A node popped
 * from one of them is no longer `open`, and the other drops it on reaching it.
 */
#include <stdlib.h>

#include "core/search_policy.h"

typedef struct BestFirst {
    size_t open_count;
} BestFirst;

static int compare(const void *a, const void *b)
{
    const HeapEntry *x = a, *y = b;
    return heap_before(*x, *y) ? -1 : 1;
}

/* The next level, in order, is in `open`. */
static bool back_up_level(Search *s)
{
    size_t count = s->count - s->round_children, width = s->options.beam_width;
    s->open.count = 0;
    if (!vec_reserve(&s->open, &s->alloc, count) || !vec_reserve(&s->pruned, &s->alloc, count))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++)
        vec_push(&s->open, ((HeapEntry){0 - search_node(s, id)->score, 0, id}));
    if (count > 1)
        qsort(s->open.items, count, sizeof *s->open.items, compare);
    for (size_t i = width; i < count; i++)
        vec_push(&s->pruned, s->open.items[i].id);
    s->open.count = count < width ? count : width;
    return true;
}

static SearchStatus select_level(Search *s)
{
    if (s->open.count > 0 && search_node(s, s->open.items[0].id)->depth >= s->options.max_depth)
        return SEARCH_OVER;
    for (size_t i = 0; i < s->open.count; i++)
        if (search_select(s, s->open.items[i].id) == NULL)
            return SEARCH_NO_MEMORY;
    return SEARCH_OK;
}

/* Drops the entries of nodes that are no longer open, once they are most of the heap. */
static void drop_closed(const Search *s, Heap *h)
{
    const BestFirst *b = s->data;
    size_t count = h->count;
    if (count < 2 * b->open_count + 64)
        return;
    h->count = 0;
    for (size_t i = 0; i < count; i++)
        if (search_node(s, h->items[i].id)->open)
            heap_push(h, h->items[i]);
}

static uint32_t pop_open(Search *s, Heap *h)
{
    BestFirst *b = s->data;
    uint32_t id;
    do
        id = heap_pop(h);
    while (!search_node(s, id)->open);
    search_node(s, id)->open = false;
    b->open_count--;
    return id;
}

static bool back_up(Search *s)
{
    BestFirst *b = s->data;
    size_t cap = s->options.beam_width, count = s->count - s->round_children;
    if (!vec_reserve(&s->open, &s->alloc, count) ||
        (cap > 0 &&
         (!vec_reserve(&s->worst, &s->alloc, count) || !vec_reserve(&s->pruned, &s->alloc, count))))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++) {
        double score = search_node(s, id)->score;
        search_node(s, id)->open = true;
        heap_push(&s->open, (HeapEntry){0 - score, 0, id});
        if (cap > 0)
            heap_push(&s->worst, (HeapEntry){score, -(double)id, id});
    }
    b->open_count += count;
    while (cap > 0 && b->open_count > cap)
        vec_push(&s->pruned, pop_open(s, &s->worst));
    drop_closed(s, &s->open);
    drop_closed(s, &s->worst);
    return true;
}

static SearchStatus select_best(Search *s)
{
    BestFirst *b = s->data;
    size_t count = b->open_count < s->options.batch ? b->open_count : s->options.batch;
    for (; count > 0; count--)
        if (search_select(s, pop_open(s, &s->open)) == NULL)
            return SEARCH_NO_MEMORY;
    return SEARCH_OK;
}

const SearchPolicy search_best_first = {
    .name = "best_first",
    .data_size = sizeof(BestFirst),
    .back_up = back_up,
    .select = select_best,
};

const SearchPolicy search_beam = {
    .name = "beam",
    .back_up = back_up_level,
    .select = select_level,
};

/*
 * search_best_first.c -- best-first search: a round is the best `batch` nodes of the frontier; and
 * beam search: a round is a level, of which only the best `beam_width` nodes are selected.
 *
 * A frontier is a heap. With a cap, which beam always has, it is a list in order instead, the best
 * node last, whose first nodes are dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "core/heap.h"

static int worst_first(const void *a, const void *b)
{
    const HeapEntry *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return x->id > y->id ? -1 : 1;
}

/* Inserts an entry in its place in the list. */
static void insert(const Search *s, Heap *list, HeapEntry entry)
{
    size_t low = 0, high = list->count++;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (heap_before(s, entry, list->items[middle]))
            low = middle + 1;
        else
            high = middle;
    }
    memmove(list->items + low + 1, list->items + low,
            (list->count - 1 - low) * sizeof *list->items);
    list->items[low] = entry;
}

static bool back_up(Search *s)
{
    Heap *open = s->data;
    size_t cap = s->options.beam_width, before = open->count;
    if (!vec_reserve(open, &s->alloc, s->count - s->round_children))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++) {
        HeapEntry entry = {0 - search_node(s, id)->score, id};
        if (cap == 0)
            heap_push(s, open, entry);
        else if (before > 0)
            insert(s, open, entry);
        else
            vec_push(open, entry);
    }
    if (cap > 0 && before == 0 && open->count > 1)
        qsort(open->items, open->count, sizeof *open->items, worst_first);
    if (cap == 0 || open->count <= cap)
        return true;
    size_t excess = open->count - cap;
    if (!vec_reserve(&s->pruned, &s->alloc, excess))
        return false;
    for (size_t i = 0; i < excess; i++)
        vec_push(&s->pruned, open->items[i].id);
    memmove(open->items, open->items + excess, cap * sizeof *open->items);
    open->count = cap;
    return true;
}

static SearchStatus select_best(Search *s)
{
    Heap *open = s->data;
    bool is_beam = s->policy == &search_beam;
    if (is_beam && open->count > 0 &&
        search_node(s, open->items[0].id)->depth >= s->options.max_depth)
        return SEARCH_OVER;
    while (open->count > 0 && (is_beam || s->tickets.count < s->options.batch)) {
        uint32_t id =
            s->options.beam_width == 0 ? heap_pop(s, open) : open->items[--open->count].id;
        if (search_select(s, id) == NULL)
            return SEARCH_NO_MEMORY;
    }
    return SEARCH_OK;
}

static void free_data(Search *s)
{
    Heap *open = s->data;
    vec_free(open, &s->alloc);
}

const SearchPolicy search_best_first = {
    .name = "best_first",
    .data_size = sizeof(Heap),
    .back_up = back_up,
    .select = select_best,
    .free = free_data,
};

const SearchPolicy search_beam = {
    .name = "beam",
    .data_size = sizeof(Heap),
    .back_up = back_up,
    .select = select_best,
    .free = free_data,
};

/*
 * search_best_first.c -- best-first search: a round is the best `batch` nodes of the frontier,
 * which may be capped to its best `beam_width` nodes.
 *
 * A capped frontier is two heaps of the same nodes, best first and worst first. A node popped from
 * one of them is no longer `open`, and the other drops it on reaching it.
 */
#include "core/frontier.h"
#include "core/search_policy.h"

typedef struct BestFirst {
    Frontier best, worst;
    size_t open_count;
} BestFirst;

/* Drops the entries of nodes that are no longer open, once they are most of the heap. */
static void drop_closed(const Search *s, Frontier *f, size_t open_count)
{
    size_t kept = 0;
    if (f->count < 2 * open_count + 64)
        return;
    for (size_t i = 0; i < f->count; i++)
        if (search_node(s, f->items[i].id)->open)
            f->items[kept++] = f->items[i];
    f->count = kept;
    frontier_restore(f);
}

static uint32_t pop_open(Search *s, Frontier *f)
{
    BestFirst *b = s->data;
    for (;;) {
        uint32_t id = frontier_pop(f).id;
        SearchNode *node = search_node(s, id);
        if (node->open) {
            node->open = false;
            b->open_count--;
            return id;
        }
    }
}

static bool back_up(Search *s)
{
    BestFirst *b = s->data;
    size_t cap = s->options.beam_width, count = s->count - s->round_children;
    b->worst.worst_first = true;
    if (!vec_reserve(&b->best, &s->alloc, count) ||
        (cap > 0 && !vec_reserve(&b->worst, &s->alloc, count)))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++) {
        FrontierEntry entry = {search_node(s, id)->score, id};
        search_node(s, id)->open = true;
        frontier_push(&b->best, entry);
        if (cap > 0)
            frontier_push(&b->worst, entry);
    }
    b->open_count += count;
    if (cap == 0 || b->open_count <= cap)
        return true;
    if (!vec_reserve(&s->pruned, &s->alloc, b->open_count - cap))
        return false;
    while (b->open_count > cap)
        vec_push(&s->pruned, pop_open(s, &b->worst));
    drop_closed(s, &b->best, b->open_count);
    drop_closed(s, &b->worst, b->open_count);
    return true;
}

static SearchStatus select_next(Search *s)
{
    BestFirst *b = s->data;
    size_t count = b->open_count < s->options.batch ? b->open_count : s->options.batch;
    for (; count > 0; count--)
        if (search_select(s, pop_open(s, &b->best)) == NULL)
            return SEARCH_NO_MEMORY;
    return SEARCH_OK;
}

static void free_data(Search *s)
{
    BestFirst *b = s->data;
    vec_free(&b->best, &s->alloc);
    vec_free(&b->worst, &s->alloc);
}

const SearchPolicy search_best_first = {
    .name = "best_first",
    .data_size = sizeof(BestFirst),
    .back_up = back_up,
    .select = select_next,
    .free = free_data,
};

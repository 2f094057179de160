/*
 * search_best_first.c -- best-first search: a round is the best `batch` nodes of the frontier,
 * which keeps its best `beam_width` nodes where that is given.
 *
 * A capped frontier is two heaps of the same nodes, best first and worst first. A node that leaves
 * by one of them is no longer `open`; the other drops it when it comes up.
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
    if (f->count < 2 * open_count + 64)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++)
        if (search_node(s, f->items[i].id)->open)
            f->items[kept++] = f->items[i];
    frontier_keep(f, kept);
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
    size_t children = s->count - s->round_children, cap = s->options.beam_width;
    b->worst.worst_first = true;
    if (!vec_reserve(&b->best, &s->alloc, children) ||
        (cap > 0 && (!vec_reserve(&b->worst, &s->alloc, children) ||
                     !vec_reserve(&s->pruned, &s->alloc, children))))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++) {
        SearchNode *node = search_node(s, id);
        node->open = true;
        b->open_count++;
        frontier_push(&b->best, (FrontierEntry){node->score, id});
        if (cap > 0)
            frontier_push(&b->worst, (FrontierEntry){node->score, id});
    }
    if (cap == 0)
        return true;
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
    if (!search_reserve_tickets(s, count))
        return SEARCH_NO_MEMORY;
    for (; count > 0; count--)
        search_select(s, pop_open(s, &b->best));
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

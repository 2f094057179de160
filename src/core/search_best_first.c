/*
 * search_best_first.c -- best-first search: a round is the best `batch` nodes of the frontier,
 * which may be capped to its best `beam_width` nodes.
 *
 * A capped frontier is two heaps of the same nodes, best first and worst first. A node popped from
 * one of them is no longer `open`, and the other heap drops it on reaching it.
 */
#include "core/search_best_first.h"

#include "core/frontier.h"

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

bool best_first_open(Search *s, uint32_t id)
{
    BestFirst *b = s->data;
    SearchNode *node = search_node(s, id);
    size_t cap = s->options.beam_width;
    b->worst.worst_first = true;
    if (!vec_reserve(&b->best, &s->alloc, 1) || (cap > 0 && !vec_reserve(&b->worst, &s->alloc, 1)))
        return false;
    node->open = true;
    b->open_count++;
    frontier_push(&b->best, (FrontierEntry){node->score, id});
    if (cap > 0)
        frontier_push(&b->worst, (FrontierEntry){node->score, id});
    return true;
}

static bool back_up(Search *s)
{
    BestFirst *b = s->data;
    size_t cap = s->options.beam_width;
    for (uint32_t id = s->round_children; id < s->count; id++)
        if ((!s->options.expandable_only || search_expandable(s, id)) && !best_first_open(s, id))
            return false;
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
    if (!search_reserve_tickets(s, count))
        return SEARCH_NO_MEMORY;
    for (; count > 0; count--)
        search_select(s, pop_open(s, &b->best));
    return SEARCH_OK;
}

uint32_t best_first_count(const Search *s)
{
    const BestFirst *b = s->data;
    return (uint32_t)b->open_count;
}

bool best_first_list(const Search *s, uint32_t *ids)
{
    const BestFirst *b = s->data;
    Frontier copy = {0};
    if (!vec_reserve(&copy, &s->alloc, b->best.count))
        return false;
    for (size_t i = 0; i < b->best.count; i++)
        if (search_node(s, b->best.items[i].id)->open)
            frontier_push(&copy, b->best.items[i]);
    while (copy.count > 0)
        *ids++ = frontier_pop(&copy).id;
    vec_free(&copy, &s->alloc);
    return true;
}

bool best_first_remove(Search *s, const uint32_t *ids, uint32_t count)
{
    BestFirst *b = s->data;
    uint32_t removed = 0;
    for (; removed < count; removed++) {
        if (ids[removed] >= s->count || !search_node(s, ids[removed])->open)
            break;
        search_node(s, ids[removed])->open = false; /* refuses a repeated id */
    }
    if (removed < count)
        while (removed > 0)
            search_node(s, ids[--removed])->open = true;
    b->open_count -= removed;
    return removed == count;
}

static void free_data(Search *s)
{
    BestFirst *b = s->data;
    vec_free(&b->best, &s->alloc);
    vec_free(&b->worst, &s->alloc);
}

const SearchPolicy search_best_first = {
    .data_size = sizeof(BestFirst),
    .back_up = back_up,
    .select = select_next,
    .free = free_data,
};

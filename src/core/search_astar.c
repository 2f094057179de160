/*
 * search_astar.c -- A* (Hart, Nilsson and Raphael 1968): the open node of least f = g + weight * h,
 * ties to the least h, then to the oldest.
 *
 * A state may be in the tree twice: a cheaper path to it makes another node, and the costlier one
 * is stale and dropped when it is selected. So h need not be consistent.
 */
#include "core/heap.h"
#include "core/search_path.h"

static bool back_up(Search *s)
{
    Heap *open = s->data;
    if (!vec_reserve(open, &s->alloc, s->count - s->round_children))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++)
        heap_push(s, open, (HeapEntry){path_f(s, id), id});
    return true;
}

static SearchStatus select_least(Search *s)
{
    Heap *open = s->data;
    while (open->count > 0 && s->tickets.count < s->options.batch) {
        uint32_t id = open->items[0].id;
        bool terminal = search_node(s, id)->terminal, stale = path_is_stale(s, id);
        if (terminal && !stale && s->tickets.count > 0)
            break;
        heap_pop(s, open);
        if (stale)
            continue;
        if (search_select(s, id) == NULL)
            return SEARCH_NO_MEMORY;
        if (terminal)
            break;
    }
    return SEARCH_OK;
}

static void free_data(Search *s)
{
    Heap *open = s->data;
    vec_free(open, &s->alloc);
}

/* ---- shared with idastar ---- */

void path_add(Search *s, const SearchTicket *t, uint32_t id)
{
    path_node(s, id)->g = id == 0 ? 0 : path_node(s, t->node)->g + t->cost;
    search_node(s, id)->open = true;
}

void path_score(Search *s, uint32_t id, double h)
{
    PathNode *node = path_node(s, id);
    double weight = s->options.weight, rest = weight > 0 ? weight * h : 0; /* 0, even of infinity */
    node->h = h;
    search_node(s, id)->score = 0 - (node->g + rest);
}

/* The costlier node with the same key becomes stale: the driver makes the new one now. */
bool path_makes_duplicate(const Search *s, const SearchTicket *t, uint32_t holder)
{
    bool cheaper = path_node(s, t->node)->g + t->cost < path_node(s, holder)->g;
    if (cheaper && s->count < s->options.max_nodes)
        search_node(s, holder)->open = false;
    return cheaper;
}

bool path_better(const Search *s, uint32_t a, uint32_t b)
{
    double x = path_node(s, a)->h, y = path_node(s, b)->h;
    return x < y || (x == y && a < b);
}

void path_facts(const Search *s, uint32_t id, SearchFacts *facts)
{
    facts->has_g = true;
    facts->g = path_node(s, id)->g;
}

const SearchPolicy search_astar = {
    .name = "astar",
    .extra_size = sizeof(PathNode),
    .data_size = sizeof(Heap),
    .back_up = back_up,
    .select = select_least,
    .free = free_data,
    .add = path_add,
    .score = path_score,
    .makes_duplicate = path_makes_duplicate,
    .better = path_better,
    .facts = path_facts,
    .terminal_ends = true,
};

/*
 * search_astar.c -- A* (Hart, Nilsson and Raphael 1968): the open node of least f = g + weight * h,
 * ties to the least h, then to the oldest.
 *
 * A state may be in the tree twice: a cheaper path to it makes another node, and the costlier one
 * is stale and dropped when it is selected. So h need not be consistent.
 */
#include "core/heap.h"
#include "core/search_path.h"

typedef struct OpenNode {
    double f, h;
    uint32_t id;
} OpenNode;

typedef struct Astar {
    struct OpenHeap {
        HEAP_OF(OpenNode);
    } open;
} Astar;

/* Branch-free, since the outcome cannot be predicted. */
static bool least_first(const struct OpenHeap *heap, OpenNode a, OpenNode b)
{
    (void)heap;
    bool least_h = (a.h < b.h) | ((a.h == b.h) & (a.id < b.id));
    return (a.f < b.f) | ((a.f == b.f) & least_h);
}

#define HEAP_TYPE   struct OpenHeap
#define HEAP_ENTRY  OpenNode
#define HEAP_BEFORE least_first
#define HEAP(name)  open_##name
#include "core/heap.h"

static bool back_up(Search *s)
{
    Astar *astar = s->data;
    if (!vec_reserve(&astar->open, &s->alloc, s->count - s->round_children))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++) {
        const PathNode *node = path_node(s, id);
        open_push(&astar->open, (OpenNode){path_f(s, node), node->h, id});
    }
    return true;
}

static SearchStatus select_least(Search *s)
{
    Astar *astar = s->data;
    while (astar->open.count > 0 && s->tickets.count < s->options.batch) {
        uint32_t id = open_first(&astar->open)->id;
        if (path_is_stale(s, id)) {
            open_pop(&astar->open);
            continue;
        }
        bool terminal = search_node(s, id)->terminal;
        if (terminal && s->tickets.count > 0)
            break;
        if (!search_reserve_tickets(s, 1))
            return SEARCH_NO_MEMORY;
        open_pop(&astar->open);
        search_select(s, id);
        if (terminal)
            break;
    }
    return SEARCH_OK;
}

static void free_data(Search *s)
{
    Astar *astar = s->data;
    vec_free(&astar->open, &s->alloc);
}

/* ---- shared with idastar ---- */

void path_add(Search *s, const SearchTicket *ticket, uint32_t id, uint32_t index)
{
    PathNode *node = path_node(s, id);
    (void)index;
    node->g = id == 0 ? 0 : path_node(s, ticket->node)->g + ticket->cost;
    search_node(s, id)->open = true;
    if (s->options.asks[SEARCH_KEY]) {
        uint32_t *cheapest = search_keys_node(&s->keys, ticket->key_entry);
        if (*cheapest != SEARCH_NO_NODE)
            search_node(s, *cheapest)->open = false;
        *cheapest = id;
    }
    if (!s->options.asks[SEARCH_EVALUATE])
        path_score(s, id, 0);
}

void path_score(Search *s, uint32_t id, double h)
{
    path_node(s, id)->h = h;
    search_node(s, id)->score = 0 - path_f(s, path_node(s, id));
}

bool path_is_cheaper(const Search *s, const SearchTicket *ticket)
{
    uint32_t cheapest = *search_keys_node(&s->keys, ticket->key_entry);
    return path_node(s, ticket->node)->g + ticket->cost < path_node(s, cheapest)->g;
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
    .node_size = sizeof(PathNode),
    .data_size = sizeof(Astar),
    .back_up = back_up,
    .select = select_least,
    .free = free_data,
    .add = path_add,
    .score = path_score,
    .makes_duplicate = path_is_cheaper,
    .better = path_better,
    .facts = path_facts,
    .terminal_ends = true,
};

/*
 * search_astar.c -- A* (Hart, Nilsson and Raphael 1968): the open node of least f = g + weight * h,
 * ties to the least h, then to the oldest.
 *
 * A state may be in the tree twice: a cheaper path to it makes another node, and the costlier one
 * is stale and dropped when it is selected. So h need not be consistent.
 *
 * Many nodes have the same f and h, as in puzzles. They are made in the order in which they are
 * taken, so they form a run: only its first node is in the heap, and each knows the next one.
 */
#include "core/heap.h"
#include "core/search_path.h"

enum { GROWING_BITS = 7 }; /* runs that grow at the same time */

typedef struct AstarNode {
    PathNode path;
    uint32_t next; /* of its run; 0: none */
} AstarNode;

typedef struct OpenNode {
    double f, h;
    uint32_t id;
} OpenNode;

typedef struct Astar {
    struct OpenHeap {
        HEAP_OF(OpenNode);
    } open;
    OpenNode growing[1 << GROWING_BITS]; /* by hash: the last nodes of runs; id 0: none */
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

static AstarNode *astar_node(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

/* Where the last node of the run with that f and h is, if the run still grows. */
static OpenNode *growing_run(Astar *astar, double f, double h)
{
    uint64_t a, b;
    f += 0.0, h += 0.0; /* -0 equals 0 */
    memcpy(&a, &f, sizeof a);
    memcpy(&b, &h, sizeof b);
    return &astar->growing[(a * 0x9E3779B97F4A7C15u + b) * 0xBF58476D1CE4E5B9u >>
                           (64 - GROWING_BITS)];
}

static void push_open(Search *s, OpenNode node)
{
    Astar *astar = s->data;
    OpenNode *last = growing_run(astar, node.f, node.h);
    if (last->id != 0 && last->f == node.f && last->h == node.h)
        astar_node(s, last->id)->next = node.id;
    else
        open_push(&astar->open, node);
    *last = node;
}

/* The next of the run takes the place of the first: a run begins only after an earlier one with the
 * same f and h has ended, so the order stays. */
static void pop_open(Search *s)
{
    Astar *astar = s->data;
    OpenNode *first = open_first(&astar->open), *last = growing_run(astar, first->f, first->h);
    uint32_t next = astar_node(s, first->id)->next;
    if (last->id == first->id)
        last->id = 0;
    if (next != 0)
        first->id = next;
    else
        open_pop(&astar->open);
}

static bool back_up(Search *s)
{
    Astar *astar = s->data;
    if (!vec_reserve(&astar->open, &s->alloc, s->count - s->round_children))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++)
        push_open(s, (OpenNode){path_f(s, id), path_node(s, id)->h, id});
    return true;
}

static SearchStatus select_least(Search *s)
{
    Astar *astar = s->data;
    while (astar->open.count > 0 && s->tickets.count < s->options.batch) {
        uint32_t id = open_first(&astar->open)->id;
        if (path_is_stale(s, id)) {
            pop_open(s);
            continue;
        }
        bool terminal = search_node(s, id)->terminal;
        if (terminal && s->tickets.count > 0)
            break;
        if (!search_reserve_tickets(s, 1))
            return SEARCH_NO_MEMORY;
        pop_open(s);
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
    PathNode *node = path_node(s, id);
    double weight = s->options.weight, rest = weight > 0 ? weight * h : 0; /* 0, even of infinity */
    node->h = h;
    search_node(s, id)->score = 0 - (node->g + rest);
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
    .node_size = sizeof(AstarNode),
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

/*
 * search_astar.c -- A* (Hart, Nilsson and Raphael 1968): the open node of least f = g + weight * h,
 * ties to the least h, then to the oldest. And IDA* (Korf 1985): depth-first passes over the nodes
 * with f <= limit; the next limit is the least f beyond it.
 *
 * A state may be in the tree twice: a cheaper path to it makes another node, and the costlier one
 * is stale and dropped when it is selected. So h need not be consistent.
 *
 * IDA* keeps the tree, so nothing is expanded twice and a pass walks it again. With retain_path
 * each pass expands again what it needs, in flat memory; only the root stays.
 */
#include "core/search_policy.h"

typedef struct PathNode {
    double g, h;
} PathNode;

static inline PathNode *path_node(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

/* f = g + weight * h */
static inline double path_f(const Search *s, uint32_t id)
{
    return 0 - search_node(s, id)->score;
}

/* Whether a cheaper node with the same key exists; a stale node is never processed. */
static inline bool path_is_stale(const Search *s, uint32_t id)
{
    return !search_node(s, id)->open;
}

static void path_add(Search *s, const SearchTicket *t, uint32_t id)
{
    path_node(s, id)->g = id == 0 ? 0 : path_node(s, t->node)->g + t->cost;
    search_node(s, id)->open = true;
}

static void path_score(Search *s, uint32_t id, double h)
{
    PathNode *node = path_node(s, id);
    double weight = s->options.weight, rest = weight > 0 ? weight * h : 0; /* 0, even of infinity */
    node->h = h;
    search_node(s, id)->score = 0 - (node->g + rest);
}

/* The costlier node with the same key becomes stale: the driver makes the new one now. */
static bool path_makes_duplicate(const Search *s, const SearchTicket *t, uint32_t holder)
{
    bool cheaper = path_node(s, t->node)->g + t->cost < path_node(s, holder)->g;
    if (cheaper && s->count < s->options.max_nodes)
        search_node(s, holder)->open = false;
    return cheaper;
}

static bool path_better(const Search *s, uint32_t a, uint32_t b)
{
    double x = path_node(s, a)->h, y = path_node(s, b)->h;
    return x < y || (x == y && a < b);
}

static void path_facts(const Search *s, uint32_t id, SearchFacts *facts)
{
    facts->g = path_node(s, id)->g;
}

/* ---- A* ---- */

static bool back_up_open(Search *s)
{
    if (!vec_reserve(&s->open, &s->alloc, s->count - s->round_children))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++)
        heap_push(&s->open, (HeapEntry){path_f(s, id), path_node(s, id)->h, id});
    return true;
}

static SearchStatus select_least(Search *s)
{
    while (s->open.count > 0 && s->tickets.count < s->options.batch) {
        uint32_t id = s->open.items[0].id;
        bool terminal = search_node(s, id)->terminal, stale = path_is_stale(s, id);
        if (terminal && !stale && s->tickets.count > 0)
            break;
        heap_pop(&s->open);
        if (stale)
            continue;
        if (search_select(s, id) == NULL)
            return SEARCH_NO_MEMORY;
        if (terminal)
            break;
    }
    return SEARCH_OK;
}

const SearchPolicy search_astar = {
    .name = "astar",
    .extra_size = sizeof(PathNode),
    .back_up = back_up_open,
    .select = select_least,
    .add = path_add,
    .score = path_score,
    .makes_duplicate = path_makes_duplicate,
    .better = path_better,
    .facts = path_facts,
    .terminal_ends = true,
};

/* ---- IDA* ---- */

typedef struct IdastarNode {
    PathNode path;
    uint32_t first;
    uint32_t child_count : 31, processed : 1;
} IdastarNode;

typedef struct Idastar {
    double limit, next_limit;
} Idastar;

static IdastarNode *idastar_node(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

static bool push_children(Search *s, uint32_t first, uint32_t count)
{
    if (!vec_reserve(&s->list, &s->alloc, count))
        return false;
    for (uint32_t i = count; i-- > 0;)
        vec_push(&s->list, first + i);
    return true;
}

static bool back_up_pass(Search *s)
{
    Idastar *ida = s->data;
    if (s->rounds == 1) {
        ida->limit = path_f(s, 0);
        ida->next_limit = INFINITY;
        search_hold(s, 0); /* all passes begin with it */
        return push_children(s, 0, 1);
    }
    for (size_t i = s->tickets.count; i-- > 0;) {
        const SearchTicket *t = &s->tickets.items[i];
        IdastarNode *node = idastar_node(s, t->node);
        node->processed = !s->options.retain_path;
        node->first = t->first;
        node->child_count = t->end - t->first;
        if (!push_children(s, t->first, t->end - t->first))
            return false;
        search_release(s, t->node);
    }
    return true;
}

/* Fills a round from the rest of the pass; false: no memory. */
static bool fill_round(Search *s)
{
    Idastar *ida = s->data;
    while (s->list.count > 0 && s->tickets.count < s->options.batch) {
        uint32_t id = s->list.items[--s->list.count];
        const IdastarNode *node = idastar_node(s, id);
        bool stale = path_is_stale(s, id), terminal = search_node(s, id)->terminal;
        double f = path_f(s, id);
        if (stale || f > ida->limit) {
            if (!stale && f < ida->next_limit)
                ida->next_limit = f;
            search_release(s, id);
        } else if (node->processed) {
            if (!push_children(s, node->first, node->child_count))
                return false;
        } else if (terminal && s->tickets.count > 0) {
            s->list.count++; /* for a round of its own */
            return true;
        } else {
            if (search_select(s, id) == NULL)
                return false;
            if (terminal)
                return true;
        }
    }
    return true;
}

static SearchStatus select_in_pass(Search *s)
{
    Idastar *ida = s->data;
    for (;;) {
        if (!fill_round(s))
            return SEARCH_NO_MEMORY;
        if (s->tickets.count > 0)
            return SEARCH_OK;
        if (isinf(ida->next_limit))
            return SEARCH_OVER;
        ida->limit = ida->next_limit;
        ida->next_limit = INFINITY;
        search_hold(s, 0);
        if (!push_children(s, 0, 1))
            return SEARCH_NO_MEMORY;
    }
}

const SearchPolicy search_idastar = {
    .name = "idastar",
    .extra_size = sizeof(IdastarNode),
    .data_size = sizeof(Idastar),
    .back_up = back_up_pass,
    .select = select_in_pass,
    .add = path_add,
    .score = path_score,
    .makes_duplicate = path_makes_duplicate,
    .better = path_better,
    .facts = path_facts,
    .terminal_ends = true,
};

/*
 * search_idastar.c -- IDA* (Korf 1985): depth-first passes over the nodes with f <= limit; the next
 * limit is the least f beyond it.
 *
 * The tree is kept, so nothing is expanded twice and a pass walks it again. With retain_path each
 * pass expands again what it needs, in flat memory; only the root stays.
 */
#include "core/search_path.h"

typedef struct IdastarNode {
    PathNode path;
    uint32_t first;
    uint32_t child_count : 31, processed : 1;
} IdastarNode;

typedef struct Idastar {
    IdList stack; /* the next node last */
    double limit, next_limit;
} Idastar;

static IdastarNode *idastar_node(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

static bool push_children(Search *s, uint32_t first, uint32_t count)
{
    Idastar *ida = s->data;
    if (!vec_reserve(&ida->stack, &s->alloc, count))
        return false;
    for (uint32_t i = count; i-- > 0;)
        vec_push(&ida->stack, first + i);
    return true;
}

static bool back_up(Search *s)
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
    while (ida->stack.count > 0 && s->tickets.count < s->options.batch) {
        uint32_t id = ida->stack.items[--ida->stack.count];
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
            ida->stack.count++; /* for a round of its own */
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

static SearchStatus select_next(Search *s)
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

static void free_data(Search *s)
{
    Idastar *ida = s->data;
    vec_free(&ida->stack, &s->alloc);
}

const SearchPolicy search_idastar = {
    .name = "idastar",
    .extra_size = sizeof(IdastarNode),
    .data_size = sizeof(Idastar),
    .back_up = back_up,
    .select = select_next,
    .free = free_data,
    .add = path_add,
    .score = path_score,
    .makes_duplicate = path_makes_duplicate,
    .better = path_better,
    .facts = path_facts,
    .terminal_ends = true,
};

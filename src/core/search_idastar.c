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
    uint32_t child_count : 30, expanded : 1, processed : 1;
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
        ida->limit = path_f(s, path_node(s, 0));
        ida->next_limit = INFINITY;
        search_hold(s, 0); /* all passes begin with it */
        return push_children(s, 0, 1);
    }
    for (size_t i = s->tickets.count; i-- > 0;) {
        const SearchTicket *t = &s->tickets.items[i];
        IdastarNode *node = idastar_node(s, t->node);
        node->expanded = t->expands && !s->options.retain_path;
        node->first = t->first;
        node->child_count = t->end - t->first;
        if (!push_children(s, t->first, t->end - t->first))
            return false;
    }
    for (size_t i = 0; i < s->tickets.count; i++)
        search_release(s, s->tickets.items[i].node);
    return true;
}

/* Processes a popped node. */
typedef enum Popped { POPPED_DROP, POPPED_WALK, POPPED_TICKET, POPPED_LATER } Popped;

static Popped classify(const Search *s, uint32_t id, double limit)
{
    const IdastarNode *node = idastar_node(s, id);
    if (path_is_stale(s, id) || path_f(s, &node->path) > limit)
        return POPPED_DROP;
    if (node->expanded)
        return POPPED_WALK;
    if (node->processed)
        return POPPED_DROP;
    return search_node(s, id)->terminal && s->tickets.count > 0 ? POPPED_LATER : POPPED_TICKET;
}

static void drop(Search *s, uint32_t id)
{
    Idastar *ida = s->data;
    const PathNode *node = path_node(s, id);
    double f = path_f(s, node);
    if (f > ida->limit && f < ida->next_limit && !path_is_stale(s, id))
        ida->next_limit = f;
    search_release(s, id);
}

/* Fills a round from the rest of the pass; false: no memory. */
static bool fill_round(Search *s)
{
    Idastar *ida = s->data;
    while (ida->stack.count > 0 && s->tickets.count < s->options.batch) {
        uint32_t id = ida->stack.items[--ida->stack.count];
        IdastarNode *node = idastar_node(s, id);
        switch (classify(s, id, ida->limit)) {
        case POPPED_DROP: drop(s, id); break;
        case POPPED_WALK:
            if (!push_children(s, node->first, node->child_count))
                return false;
            break;
        case POPPED_TICKET:
            if (!search_reserve_tickets(s, 1))
                return false;
            search_select(s, id);
            node->processed = !s->options.retain_path;
            if (search_node(s, id)->terminal)
                return true;
            break;
        case POPPED_LATER: ida->stack.count++; return true;
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
    .node_size = sizeof(IdastarNode),
    .data_size = sizeof(Idastar),
    .back_up = back_up,
    .select = select_next,
    .free = free_data,
    .add = path_add,
    .score = path_score,
    .makes_duplicate = path_is_cheaper,
    .better = path_better,
    .facts = path_facts,
    .terminal_ends = true,
};

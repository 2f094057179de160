/*
 * search_bfs.c -- breadth-first search: the oldest node is next.
 *
 * New nodes do not change the order, so a round grows while nodes are evaluated.
 */
#include "core/search_policy.h"

enum { MAX_ROUND = 256 }; /* tickets; their memory goes back between rounds */

typedef struct Bfs {
    uint32_t next;
} Bfs;

static bool back_up(Search *s)
{
    (void)s;
    return true;
}

/* Adds up to `max` tickets for nodes that are evaluated; false: no memory. */
static bool add_tickets(Search *s, uint32_t max)
{
    Bfs *bfs = s->data;
    for (; max > 0 && bfs->next < s->evaluated_prefix; max--) {
        if (!search_reserve_tickets(s, 1))
            return false;
        search_select(s, bfs->next++);
    }
    return true;
}

/* Adds all evaluated nodes, except with reflect, whose results count from the next round on. */
static SearchStatus select_next(Search *s)
{
    uint32_t max = s->options.asks[SEARCH_REFLECT] ? s->options.batch : MAX_ROUND;
    return add_tickets(s, max) ? SEARCH_OK : SEARCH_NO_MEMORY;
}

static bool extend(Search *s, SearchStatus *status)
{
    size_t before = s->tickets.count;
    if (before >= MAX_ROUND)
        return false;
    if (!add_tickets(s, s->options.window))
        *status = SEARCH_NO_MEMORY;
    return s->tickets.count > before;
}

const SearchPolicy search_bfs = {
    .data_size = sizeof(Bfs),
    .back_up = back_up,
    .select = select_next,
    .extend = extend,
};

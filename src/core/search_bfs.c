/*
 * search_bfs.c -- breadth-first search: the oldest node is next.
 *
 * New nodes do not change the order, so a round may grow while its nodes are scored.
 */
#include "core/search_policy.h"

enum { MAX_ROUND = 256 }; /* tickets; their memory goes back between rounds */

typedef struct Bfs {
    uint32_t next;
} Bfs;

static bool extend(Search *s, uint32_t max)
{
    Bfs *bfs = s->data;
    size_t before = s->tickets.count;
    for (; max > 0 && bfs->next < s->count && search_node(s, bfs->next)->scored; max--) {
        if (s->tickets.count == MAX_ROUND || search_select(s, bfs->next) == NULL)
            break;
        bfs->next++;
        s->selected++;
    }
    return s->tickets.count > before;
}

/* Rounds have `batch` tickets where their end counts: results of reflect join the memory,
 * stop_score is looked at. */
static bool has_rounds(const Search *s)
{
    return s->options.reflects || !isnan(s->options.stop_score);
}

static SearchStatus select_next(Search *s)
{
    const Bfs *bfs = s->data;
    bool found = extend(s, has_rounds(s) ? s->options.batch : MAX_ROUND);
    s->selected = 0; /* counted by search_next_round */
    return !found && bfs->next < s->count ? SEARCH_NO_MEMORY : SEARCH_OK;
}

static bool extend_running(Search *s, uint32_t max)
{
    return !has_rounds(s) && extend(s, max);
}

const SearchPolicy search_bfs = {
    .name = "bfs",
    .data_size = sizeof(Bfs),
    .select = select_next,
    .extend = extend_running,
};

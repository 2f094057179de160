/*
 * search_bfs.c -- breadth-first search: the oldest node is next.
 *
 * New nodes do not change the order, so a round may be longer than `batch`.
 */
#include "core/search_policy.h"

enum { MAX_ROUND = 256 }; /* tickets; their memory goes back between rounds */

typedef struct Bfs {
    uint32_t next;
} Bfs;

/* Rounds have `batch` tickets where their end counts: results of reflect join the memory,
 * stop_score is looked at. */
static SearchStatus select_next(Search *s)
{
    Bfs *bfs = s->data;
    bool has_rounds = s->options.reflects || !isnan(s->options.stop_score);
    uint32_t most = has_rounds ? s->options.batch : MAX_ROUND;
    for (; bfs->next < s->count && s->tickets.count < most; bfs->next++)
        if (search_select(s, bfs->next) == NULL)
            return SEARCH_NO_MEMORY;
    return SEARCH_OK;
}

const SearchPolicy search_bfs = {
    .name = "bfs",
    .data_size = sizeof(Bfs),
    .select = select_next,
};

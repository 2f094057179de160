/*
 * search_dfs.c -- depth-first search: a round is the newest `batch` nodes; the first child of its
 * first node is next.
 */
#include "core/search_policy.h"

typedef struct Dfs {
    IdList stack; /* the next node last */
} Dfs;

static bool back_up(Search *s)
{
    Dfs *dfs = s->data;
    if (!vec_reserve(&dfs->stack, &s->alloc, s->count - s->round_children))
        return false;
    for (uint32_t id = s->count; id-- > s->round_children;)
        vec_push(&dfs->stack, id);
    for (size_t i = 0; i < s->tickets.count && s->options.retain_path; i++)
        search_release(s, s->tickets.items[i].node);
    return true;
}

static SearchStatus select_next(Search *s)
{
    Dfs *dfs = s->data;
    while (dfs->stack.count > 0 && s->tickets.count < s->options.batch) {
        if (search_select(s, dfs->stack.items[dfs->stack.count - 1]) == NULL)
            return SEARCH_NO_MEMORY;
        dfs->stack.count--;
    }
    return SEARCH_OK;
}

static void free_data(Search *s)
{
    Dfs *dfs = s->data;
    vec_free(&dfs->stack, &s->alloc);
}

const SearchPolicy search_dfs = {
    .name = "dfs",
    .data_size = sizeof(Dfs),
    .back_up = back_up,
    .select = select_next,
    .free = free_data,
};

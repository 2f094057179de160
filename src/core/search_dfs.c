/*
 * search_dfs.c -- depth-first search: a round is the newest `batch` nodes; the first child of its
 * first node is next.
 */
#include "core/search_policy.h"

static bool back_up(Search *s)
{
    if (!vec_reserve(&s->list, &s->alloc, s->count - s->round_children))
        return false;
    for (uint32_t id = s->count; id-- > s->round_children;)
        vec_push(&s->list, id);
    for (size_t i = 0; i < s->tickets.count && s->options.retain_path; i++)
        search_release(s, s->tickets.items[i].node);
    return true;
}

static SearchStatus select_next(Search *s)
{
    while (s->list.count > 0 && s->tickets.count < s->options.batch) {
        if (search_select(s, s->list.items[s->list.count - 1]) == NULL)
            return SEARCH_NO_MEMORY;
        s->list.count--;
    }
    return SEARCH_OK;
}

const SearchPolicy search_dfs = {
    .name = "dfs",
    .back_up = back_up,
    .select = select_next,
};

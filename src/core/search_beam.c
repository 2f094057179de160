/*
 * search_beam.c -- beam search: a round is a level; the best `beam_width` of its children are the
 * next.
 */
#include "core/frontier.h"
#include "core/search_policy.h"

static bool back_up(Search *s)
{
    Frontier *level = s->data; /* the next level, in order */
    size_t candidates = s->count - s->round_children, width = s->options.beam_width;
    size_t kept = candidates < width ? candidates : width;
    frontier_keep(level, 0);
    if (!vec_reserve(level, &s->alloc, candidates) ||
        !vec_reserve(&s->pruned, &s->alloc, candidates - kept))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++)
        frontier_push(level, (FrontierEntry){search_node(s, id)->score, id});
    frontier_sort(level, kept);
    for (size_t i = kept; i < candidates; i++)
        vec_push(&s->pruned, level->items[i].id);
    frontier_keep(level, kept);
    return true;
}

static SearchStatus select_next(Search *s)
{
    const Frontier *level = s->data;
    if (level->count > 0 && search_node(s, level->items[0].id)->depth >= s->options.max_depth)
        return SEARCH_OVER;
    if (!search_reserve_tickets(s, level->count))
        return SEARCH_NO_MEMORY;
    for (size_t i = 0; i < level->count; i++)
        search_select(s, level->items[i].id);
    return SEARCH_OK;
}

static void free_data(Search *s)
{
    Frontier *level = s->data;
    vec_free(level, &s->alloc);
}

const SearchPolicy search_beam = {
    .data_size = sizeof(Frontier),
    .back_up = back_up,
    .select = select_next,
    .free = free_data,
    .scores_levels = true,
};

/*
 * search_beam.c -- beam search: a round is a level; the best `beam_width` of its children are the
 * next.
 */
#include "core/frontier.h"
#include "core/search_policy.h"

typedef struct Beam {
    Frontier level; /* the candidates; of these the first `kept`, in order */
    size_t kept;
} Beam;

static bool back_up(Search *s)
{
    Beam *beam = s->data;
    size_t candidates = s->count - s->round_children, width = s->options.beam_width;
    beam->kept = candidates < width ? candidates : width;
    frontier_keep(&beam->level, 0);
    if (!vec_reserve(&beam->level, &s->alloc, candidates) ||
        !vec_reserve(&s->pruned, &s->alloc, candidates - beam->kept))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++)
        frontier_push(&beam->level, (FrontierEntry){search_node(s, id)->score, id});
    frontier_sort(&beam->level, beam->kept);
    for (size_t i = beam->kept; i < candidates; i++)
        vec_push(&s->pruned, beam->level.items[i].id);
    return true;
}

static SearchStatus select_next(Search *s)
{
    const Beam *beam = s->data;
    if (beam->kept > 0 && search_node(s, beam->level.items[0].id)->depth >= s->options.max_depth)
        return SEARCH_OVER;
    if (!search_reserve_tickets(s, beam->kept))
        return SEARCH_NO_MEMORY;
    for (size_t i = 0; i < beam->kept; i++)
        search_select(s, beam->level.items[i].id);
    return SEARCH_OK;
}

static void free_data(Search *s)
{
    Beam *beam = s->data;
    vec_free(&beam->level, &s->alloc);
}

const SearchPolicy search_beam = {
    .data_size = sizeof(Beam),
    .back_up = back_up,
    .select = select_next,
    .free = free_data,
    .scores_levels = true,
};

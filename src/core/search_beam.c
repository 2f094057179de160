/*
 * search_beam.c -- beam search: a round is a level; the best `beam_width` of its children are the
 * next.
 */
#include <stdlib.h>

#include "core/search_policy.h"

typedef struct Candidate {
    double score;
    uint32_t id;
} Candidate;

typedef struct Beam {
    VEC(Candidate) level; /* the next one, in order */
} Beam;

static int best_first(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static bool back_up(Search *s)
{
    Beam *beam = s->data;
    size_t count = s->count - s->round_children, width = s->options.beam_width;
    beam->level.count = 0;
    if (!vec_reserve(&beam->level, &s->alloc, count) ||
        !vec_reserve(&s->pruned, &s->alloc, count > width ? count - width : 0))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++)
        vec_push(&beam->level, ((Candidate){search_node(s, id)->score, id}));
    if (count > 1)
        qsort(beam->level.items, count, sizeof *beam->level.items, best_first);
    for (size_t i = width; i < count; i++)
        vec_push(&s->pruned, beam->level.items[i].id);
    beam->level.count = count < width ? count : width;
    return true;
}

static SearchStatus select_next(Search *s)
{
    const Beam *beam = s->data;
    size_t count = beam->level.count;
    if (count > 0 && search_node(s, beam->level.items[0].id)->depth >= s->options.max_depth)
        return SEARCH_OVER;
    for (size_t i = 0; i < count; i++)
        if (search_select(s, beam->level.items[i].id) == NULL)
            return SEARCH_NO_MEMORY;
    return SEARCH_OK;
}

static void free_data(Search *s)
{
    Beam *beam = s->data;
    vec_free(&beam->level, &s->alloc);
}

const SearchPolicy search_beam = {
    .name = "beam",
    .data_size = sizeof(Beam),
    .back_up = back_up,
    .select = select_next,
    .free = free_data,
};

/*
 * search_dvts.c -- diverse verifier tree search (Beeching, Tunstall and Rush 2024): the children of
 * the root begin independent subtrees, each with its own beam.
 */
#include "core/frontier.h"
#include "core/search_policy.h"

typedef struct Dvts {
    Frontier candidates; /* of one subtree */
    IdList kept;         /* all levels, the root first; subtree by subtree, the best first */
    IdList starts;       /* where each level starts in `kept`; the last one may be empty */
} Dvts;

static uint32_t *subtree_of(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

static void add(Search *s, const SearchTicket *ticket, uint32_t id, uint32_t index)
{
    if (ticket->node != SEARCH_NO_NODE)
        *subtree_of(s, id) =
            ticket->node == 0 ? index / s->options.k : *subtree_of(s, ticket->node);
}

/* Keeps the best candidates of a subtree, in reserved room. */
static void keep_best(Search *s)
{
    Dvts *dvts = s->data;
    size_t count = dvts->candidates.count, width = s->options.beam_width;
    size_t kept = count < width ? count : width;
    frontier_sort(&dvts->candidates, kept);
    for (size_t i = 0; i < kept; i++)
        vec_push(&dvts->kept, dvts->candidates.items[i].id);
    for (size_t i = kept; i < count; i++)
        vec_push(&s->pruned, dvts->candidates.items[i].id);
    frontier_keep(&dvts->candidates, 0);
}

static bool back_up(Search *s)
{
    Dvts *dvts = s->data;
    size_t children = s->count - s->round_children;
    if (!vec_reserve(&dvts->kept, &s->alloc, children) ||
        !vec_reserve(&dvts->starts, &s->alloc, 1) ||
        !vec_reserve(&s->pruned, &s->alloc, children) ||
        !vec_reserve(&dvts->candidates, &s->alloc, children))
        return false;
    vec_push(&dvts->starts, (uint32_t)dvts->kept.count);
    /* A level is in the order of its subtrees, and so are the children of the tickets. */
    for (uint32_t id = s->round_children; id < s->count; id++) {
        frontier_push(&dvts->candidates, (FrontierEntry){search_value(s, id), id});
        if (id + 1 == s->count || *subtree_of(s, id + 1) != *subtree_of(s, id))
            keep_best(s);
    }
    return true;
}

static SearchStatus select_level(Search *s)
{
    const Dvts *dvts = s->data;
    size_t first = dvts->starts.items[dvts->starts.count - 1], end = dvts->kept.count;
    if (first < end && search_node(s, dvts->kept.items[first])->depth >= s->options.max_depth)
        return SEARCH_OVER;
    if (!search_reserve_tickets(s, end - first))
        return SEARCH_NO_MEMORY;
    for (size_t i = first; i < end; i++) {
        SearchTicket *t = search_select(s, dvts->kept.items[i]);
        uint64_t width = (uint64_t)s->options.subtrees * s->options.k;
        if (t->node == 0)
            t->width = width < SEARCH_ALL ? (uint32_t)width : SEARCH_ALL - 1;
    }
    return SEARCH_OK;
}

static bool level_of(const Search *s, uint32_t i, const uint32_t **ids, size_t *count)
{
    const Dvts *dvts = s->data;
    size_t level = (size_t)i + 1; /* without the root's */
    if (level >= dvts->starts.count)
        return false;
    bool is_last = level + 1 == dvts->starts.count;
    size_t first = dvts->starts.items[level];
    size_t end = is_last ? dvts->kept.count : dvts->starts.items[level + 1];
    *ids = dvts->kept.items + first;
    *count = end - first;
    return end > first;
}

static void free_data(Search *s)
{
    Dvts *dvts = s->data;
    vec_free(&dvts->candidates, &s->alloc);
    vec_free(&dvts->kept, &s->alloc);
    vec_free(&dvts->starts, &s->alloc);
}

const SearchPolicy search_dvts = {
    .node_size = sizeof(uint32_t),
    .data_size = sizeof(Dvts),
    .back_up = back_up,
    .select = select_level,
    .free = free_data,
    .add = add,
    .group = level_of,
    .scores_levels = true,
};

/*
 * search_dvts.c -- diverse verifier tree search (Beeching, Tunstall and Rush 2024): the children of
 * the root begin independent subtrees, each with its own beam.
 */
#include "core/frontier.h"
#include "core/search_policy.h"

typedef struct DvtsNode {
    uint32_t subtree;
} DvtsNode;

typedef struct Dvts {
    Frontier candidates; /* of one subtree */
    IdList level;        /* subtree by subtree, the best first */
    IdList kept;         /* all levels */
    IdList ends;         /* where each level ends in `kept` */
} Dvts;

static DvtsNode *dvts_node(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

static void add(Search *s, const SearchTicket *ticket, uint32_t id, uint32_t index)
{
    if (ticket->node != SEARCH_NO_NODE)
        dvts_node(s, id)->subtree =
            ticket->node == 0 ? index / s->options.k : dvts_node(s, ticket->node)->subtree;
}

/* Keeps the best candidates of a subtree, in reserved room. */
static void keep_best(Search *s)
{
    Dvts *dvts = s->data;
    size_t count = dvts->candidates.count, width = s->options.beam_width;
    size_t kept = count < width ? count : width;
    frontier_sort(&dvts->candidates, kept);
    for (size_t i = 0; i < kept; i++) {
        vec_push(&dvts->level, dvts->candidates.items[i].id);
        vec_push(&dvts->kept, dvts->candidates.items[i].id);
    }
    for (size_t i = kept; i < count; i++)
        vec_push(&s->pruned, dvts->candidates.items[i].id);
    frontier_keep(&dvts->candidates, 0);
}

static bool back_up(Search *s)
{
    Dvts *dvts = s->data;
    size_t children = s->count - s->round_children;
    dvts->level.count = 0;
    if (!vec_reserve(&dvts->level, &s->alloc, children) ||
        !vec_reserve(&dvts->kept, &s->alloc, children) || !vec_reserve(&dvts->ends, &s->alloc, 1) ||
        !vec_reserve(&s->pruned, &s->alloc, children) ||
        !vec_reserve(&dvts->candidates, &s->alloc, children))
        return false;
    if (s->rounds == 1) {
        vec_push(&dvts->level, 0);
        return true;
    }
    /* A level is in the order of its subtrees, and so are the children of the tickets. */
    for (uint32_t id = s->round_children; id < s->count; id++) {
        frontier_push(&dvts->candidates, (FrontierEntry){search_value(s, id), id});
        if (id + 1 == s->count || dvts_node(s, id + 1)->subtree != dvts_node(s, id)->subtree)
            keep_best(s);
    }
    if (dvts->level.count > 0)
        vec_push(&dvts->ends, (uint32_t)dvts->kept.count);
    return true;
}

static SearchStatus select_level(Search *s)
{
    const Dvts *dvts = s->data;
    if (dvts->level.count > 0 &&
        search_node(s, dvts->level.items[0])->depth >= s->options.max_depth)
        return SEARCH_OVER;
    if (!search_reserve_tickets(s, dvts->level.count))
        return SEARCH_NO_MEMORY;
    for (size_t i = 0; i < dvts->level.count; i++) {
        SearchTicket *t = search_select(s, dvts->level.items[i]);
        uint64_t width = (uint64_t)s->options.subtrees * s->options.k;
        if (t->node == 0)
            t->width = width < SEARCH_ALL ? (uint32_t)width : SEARCH_ALL - 1;
    }
    return SEARCH_OK;
}

static bool level_of(const Search *s, uint32_t i, const uint32_t **ids, size_t *count)
{
    const Dvts *dvts = s->data;
    if (i >= dvts->ends.count)
        return false;
    uint32_t first = i == 0 ? 0 : dvts->ends.items[i - 1];
    *ids = dvts->kept.items + first;
    *count = dvts->ends.items[i] - first;
    return true;
}

static void free_data(Search *s)
{
    Dvts *dvts = s->data;
    vec_free(&dvts->candidates, &s->alloc);
    vec_free(&dvts->level, &s->alloc);
    vec_free(&dvts->kept, &s->alloc);
    vec_free(&dvts->ends, &s->alloc);
}

const SearchPolicy search_dvts = {
    .node_size = sizeof(DvtsNode),
    .data_size = sizeof(Dvts),
    .back_up = back_up,
    .select = select_level,
    .free = free_data,
    .add = add,
    .group = level_of,
    .scores_levels = true,
};

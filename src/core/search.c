/*
 * search.c -- the tree of a search, its rounds, its best node and its end; see search.h.
 */
#include "core/search_policy.h"

#include <string.h>

bool search_init(Search *s, Alloc alloc, const SearchOptions *options)
{
    memset(s, 0, sizeof *s);
    s->alloc = alloc;
    s->options = *options;
    s->policy = options->policy;
    s->best = s->answer = SEARCH_NO_NODE;
    s->best_score = -INFINITY;
    s->extra_size = s->policy->extra_size;
    if (options->prior >= PRIOR_SOFTMAX || !isnan(options->guide))
        s->extra_size += s->policy->more_size;
    s->values_at = SEARCH_CHUNK * (sizeof(SearchNode) + s->extra_size);
    s->references_at = s->values_at + (options->simulates ? SEARCH_CHUNK * sizeof(double) : 0);
    s->chunk_size =
        s->references_at + (options->retain_path ? (SEARCH_CHUNK + 1) * sizeof(uint32_t) : 0);
    if (s->policy->data_size == 0)
        return true;
    s->data = alloc_resize(&alloc, NULL, 0, s->policy->data_size);
    if (s->data != NULL)
        memset(s->data, 0, s->policy->data_size);
    return s->data != NULL;
}

void search_free(Search *s)
{
    for (size_t i = 0; i < s->chunks.count; i++)
        alloc_free(&s->alloc, s->chunks.items[i], s->chunk_size);
    vec_free(&s->chunks, &s->alloc);
    if (s->data != NULL)
        alloc_free(&s->alloc, s->data, s->policy->data_size);
    s->data = NULL;
    s->count = s->room = 0;
    s->ended = true;
    vec_free(&s->tickets, &s->alloc);
    vec_free(&s->list, &s->alloc);
    vec_free(&s->open, &s->alloc);
    vec_free(&s->worst, &s->alloc);
    vec_free(&s->values, &s->alloc);
    vec_free(&s->pruned, &s->alloc);
    vec_free(&s->freed, &s->alloc);
}

/* ---- nodes ---- */

static bool add_chunk(Search *s)
{
    if (!vec_reserve(&s->chunks, &s->alloc, 1))
        return false;
    char *chunk = alloc_resize(&s->alloc, NULL, 0, s->chunk_size);
    if (chunk == NULL)
        return false;
    if (s->chunk_size > SEARCH_CHUNK * sizeof(SearchNode))
        memset(chunk + SEARCH_CHUNK * sizeof(SearchNode), 0,
               s->chunk_size - SEARCH_CHUNK * sizeof(SearchNode));
    vec_push(&s->chunks, chunk);
    s->room += SEARCH_CHUNK;
    return true;
}

SearchStatus search_add(Search *s, SearchTicket *t, uint32_t count)
{
    uint32_t depth = t->node == SEARCH_NO_NODE ? 0 : search_node(s, t->node)->depth + 1u;
    for (; count > 0; count--) {
        uint32_t id = s->count;
        if (id >= s->options.max_nodes || s->ended) {
            t->full = true;
            return SEARCH_FULL;
        }
        if (id == s->room && !add_chunk(s))
            return SEARCH_NO_MEMORY;
        *search_node(s, id) =
            (SearchNode){.score = NAN, .parent = t->node, .depth = depth & SEARCH_MAX_DEPTH};
        s->count = id + 1;
        /* References: one until its policy releases it, and one from each child. */
        search_hold(s, id);
        if (t->node != SEARCH_NO_NODE)
            search_hold(s, t->node);
        if (s->policy->add != NULL)
            s->policy->add(s, t, id);
    }
    return SEARCH_OK;
}

/* ---- retain_path ---- */

/* A chunk's references, and as the last of them the number of its freed nodes. */
static uint32_t *references_of(const Search *s, uint32_t id)
{
    return (uint32_t *)(void *)(search_chunk(s, id) + s->references_at);
}

bool search_has(const Search *s, uint32_t id)
{
    return !s->options.retain_path ||
           (search_chunk(s, id) != NULL && references_of(s, id)[id & (SEARCH_CHUNK - 1)] > 0);
}

void search_hold(Search *s, uint32_t id)
{
    if (s->options.retain_path)
        references_of(s, id)[id & (SEARCH_CHUNK - 1)]++;
}

/* Frees a chunk once all its nodes are gone. Without memory for `freed` the driver only keeps a
 * state longer than necessary. */
void search_release(Search *s, uint32_t id)
{
    while (s->options.retain_path && id != SEARCH_NO_NODE) {
        uint32_t *references = references_of(s, id);
        if (--references[id & (SEARCH_CHUNK - 1)] > 0)
            return;
        uint32_t parent = search_node(s, id)->parent;
        if (vec_reserve(&s->freed, &s->alloc, 1))
            vec_push(&s->freed, id);
        if (++references[SEARCH_CHUNK] == SEARCH_CHUNK) {
            alloc_free(&s->alloc, search_chunk(s, id), s->chunk_size);
            s->chunks.items[id >> SEARCH_CHUNK_BITS] = NULL;
        }
        id = parent;
    }
}

/* ---- the best node ---- */

/* Whether node `a` is the better answer: terminal, then the higher score, then the older. */
static bool is_better(const Search *s, uint32_t a, uint32_t b)
{
    const SearchNode *x = search_node(s, a), *y = search_node(s, b);
    if (x->terminal != y->terminal)
        return x->terminal;
    if (s->policy->better != NULL && !x->terminal)
        return s->policy->better(s, a, b);
    return x->score > y->score || (x->score == y->score && a < b);
}

void search_consider(Search *s, uint32_t id)
{
    const SearchNode *node = search_node(s, id);
    if (!s->options.lazy)
        s->committed = id + 1;
    s->depth_limited += !node->terminal && node->depth == s->options.max_depth;
    s->hit |= node->terminal && node->score >= s->options.stop_score;
    if (!node->terminal && node->score < s->best_score)
        return;
    if (s->best != SEARCH_NO_NODE && !is_better(s, id, s->best))
        return;
    search_hold(s, id);
    if (s->best != SEARCH_NO_NODE)
        search_release(s, s->best);
    s->best = id;
    if (s->policy->better == NULL)
        s->best_score = node->terminal ? INFINITY : node->score;
}

/* ---- rounds ---- */

SearchTicket *search_select(Search *s, uint32_t node)
{
    if (!vec_reserve(&s->tickets, &s->alloc, 1))
        return NULL;
    SearchTicket *t = &s->tickets.items[s->tickets.count++];
    memset(t, 0, sizeof *t);
    t->node = node;
    t->k = s->options.k;
    t->cost = 1;
    t->expands = node != SEARCH_NO_NODE && search_expandable(s, node);
    return t;
}

SearchStatus search_next_round(Search *s)
{
    s->tickets.count = 0;
    s->turn = 0;
    s->round_children = s->rounds == 0 ? 0 : s->count;
    SearchStatus status;
    if (s->rounds == 0)
        status = search_select(s, SEARCH_NO_NODE) != NULL ? SEARCH_OK : SEARCH_NO_MEMORY;
    else
        status = s->policy->select != NULL ? s->policy->select(s) : SEARCH_OK;
    if (status == SEARCH_OK && s->tickets.count == 0)
        status = SEARCH_OVER;
    s->rounds++;
    s->selected = (uint32_t)s->tickets.count;
    return status;
}

SearchStatus search_more(Search *s)
{
    return s->rounds > 1 && s->policy->wave != NULL ? s->policy->wave(s) : SEARCH_OVER;
}

uint32_t search_first_to_score(const Search *s, const SearchTicket *t)
{
    bool is_last = t == &s->tickets.items[s->tickets.count - 1];
    if (s->options.scores_levels && s->rounds > 1)
        return is_last ? s->round_children : t->end;
    return s->options.lazy && t->expands ? t->end : t->first;
}

void search_made(Search *s, const SearchTicket *t)
{
    if (t->full && s->options.scores_levels)
        s->tickets.count = s->selected = (uint32_t)(t - s->tickets.items) + 1;
}

void search_commit(Search *s)
{
    const SearchTicket *t = &s->tickets.items[s->turn];
    if (s->options.lazy && t->end > s->committed)
        s->committed = t->end;
    s->expansions += t->expands;
    s->duplicates += t->duplicates;
    s->children_dropped += t->dropped;
    if (t->full)
        search_end(s, OUTCOME_MAX_NODES);
    s->turn++;
}

bool search_back_up(Search *s)
{
    s->pruned.count = 0;
    if (s->policy->back_up != NULL && !s->policy->back_up(s))
        return false;
    s->pruned_total += s->pruned.count;
    if (s->policy->counts_iterations && s->rounds > 1)
        s->iterations += s->selected;
    if (s->hit)
        search_end(s, s->options.stops_at_terminal ? OUTCOME_OVER : OUTCOME_STOP);
    return true;
}

/* A frontier may still list dropped nodes, and a lazy node may have been scored ahead of its turn.
 */
void search_end(Search *s, SearchOutcome outcome)
{
    for (size_t i = s->turn + 1u; i < s->tickets.count; i++)
        if (s->tickets.items[i].scores && s->tickets.items[i].node < s->count)
            search_node(s, s->tickets.items[i].node)->scored = false;
    if (s->committed < s->count)
        s->count = s->committed;
    if (s->round_children > s->count) /* core:finish at a time of its caller's choice */
        s->round_children = s->count;
    s->ended = true;
    if (s->outcome == OUTCOME_NONE)
        s->outcome = outcome;
}

SearchFacts search_facts(const Search *s, uint32_t id)
{
    bool scored = search_node(s, id)->scored;
    SearchFacts facts = {NAN, s->options.simulates ? search_value(s, id) : NAN, NAN};
    if (s->policy->facts != NULL)
        s->policy->facts(s, id, &facts);
    if (!scored)
        facts.value = NAN;
    return facts;
}

/*
 * search.c -- see search.h for the model.
 */
#include "core/search.h"

#include <string.h>

/* ---- the tree ---- */

void search_init(Search *s, Alloc alloc, const SearchOptions *options)
{
    memset(s, 0, sizeof *s);
    s->alloc = alloc;
    s->options = *options;
    s->best = SEARCH_NO_NODE;
    s->bar = -INFINITY;
    s->worst.worst_first = true;
}

void search_free(Search *s)
{
    for (size_t i = 0; i < s->chunk_capacity && s->chunks[i] != NULL; i++)
        alloc_free(&s->alloc, s->chunks[i], SEARCH_CHUNK_SIZE * sizeof(SearchNode));
    alloc_free(&s->alloc, s->chunks, s->chunk_capacity * sizeof *s->chunks);
    s->chunks = NULL;
    s->chunk_capacity = s->count = 0;
    s->ended = true;
    vec_free(&s->round, &s->alloc);
    vec_free(&s->stack, &s->alloc);
    vec_free(&s->pruned, &s->alloc);
    vec_free(&s->frontier, &s->alloc);
    vec_free(&s->worst, &s->alloc);
}

bool search_add_chunk(Search *s, uint32_t id)
{
    size_t index = id >> SEARCH_CHUNK_BITS;
    if (index == s->chunk_capacity) {
        size_t grown = s->chunk_capacity * 2 + 4;
        SearchNode **chunks =
            alloc_resize(&s->alloc, s->chunks, index * sizeof *chunks, grown * sizeof *chunks);
        if (chunks == NULL)
            return false;
        memset(chunks + index, 0, (grown - index) * sizeof *chunks);
        s->chunks = chunks;
        s->chunk_capacity = grown;
    }
    if (s->chunks[index] == NULL)
        s->chunks[index] = alloc_resize(&s->alloc, NULL, 0, SEARCH_CHUNK_SIZE * sizeof(SearchNode));
    return s->chunks[index] != NULL;
}

/* Whether node `a` is the better answer: terminal, else with the higher score, else older. */
static bool better(const Search *s, uint32_t a, uint32_t b)
{
    const SearchNode *x = search_node(s, a), *y = search_node(s, b);
    if (x->terminal != y->terminal)
        return x->terminal;
    return x->score > y->score || (x->score == y->score && a < b);
}

void search_judge(Search *s, uint32_t id)
{
    if (s->best != SEARCH_NO_NODE && !better(s, id, s->best))
        return;
    const SearchNode *node = search_node(s, id);
    s->best = id;
    s->bar = node->terminal ? INFINITY : node->score;
}

bool search_expandable(const Search *s, uint32_t id)
{
    const SearchNode *node = search_node(s, id);
    return !node->terminal && node->depth < s->options.max_depth;
}

void search_truncate(Search *s, uint32_t count)
{
    if (count < s->count)
        s->count = count;
    s->ended = true; /* the frontier may hold what is forgotten */
}

void search_settle(Search *s)
{
    while (s->settled < s->count && search_node(s, s->settled)->tested)
        s->settled++;
    search_truncate(s, s->settled);
}

uint32_t search_best(const Search *s)
{
    if (s->best < s->count)
        return s->best;
    uint32_t best = SEARCH_NO_NODE; /* the best was forgotten */
    for (uint32_t id = 0; id < s->count; id++)
        if (search_node(s, id)->tested && (best == SEARCH_NO_NODE || better(s, id, best)))
            best = id;
    return best;
}

/* ---- the order ---- */

/* dfs: the first child of the round's first node ends up on top. */
static bool stack_children(Search *s)
{
    if (!vec_reserve(&s->stack, &s->alloc, s->count - s->round_children))
        return false;
    for (uint32_t id = s->count; id-- > s->round_children;)
        vec_push(&s->stack, id);
    return true;
}

/* Drops the entries of nodes that are no longer open, once they are most of the heap. */
static void drop_closed(const Search *s, Frontier *f)
{
    if (f->count < 2 * s->open_count + 64)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++)
        if (search_node(s, f->items[i].id)->open)
            f->items[kept++] = f->items[i];
    frontier_keep(f, kept);
}

/* Takes the first open node of a capped frontier's heap; the other heap still lists it. */
static uint32_t pop_open(Search *s, Frontier *f)
{
    for (;;) {
        uint32_t id = frontier_pop(f).id;
        SearchNode *node = search_node(s, id);
        if (node->open) {
            node->open = false;
            s->open_count--;
            return id;
        }
    }
}

static bool open_capped_children(Search *s)
{
    size_t children = s->count - s->round_children, cap = s->options.beam_width;
    if (!vec_reserve(&s->worst, &s->alloc, children) ||
        !vec_reserve(&s->pruned, &s->alloc, children))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++) {
        SearchNode *node = search_node(s, id);
        node->open = true;
        frontier_push(&s->frontier, (FrontierEntry){node->score, id});
        frontier_push(&s->worst, (FrontierEntry){node->score, id});
    }
    s->open_count += children;
    while (s->open_count > cap)
        vec_push(&s->pruned, pop_open(s, &s->worst));
    s->pruned_total += s->pruned.count;
    drop_closed(s, &s->frontier);
    drop_closed(s, &s->worst);
    return true;
}

static bool open_children(Search *s)
{
    if (!vec_reserve(&s->frontier, &s->alloc, s->count - s->round_children))
        return false;
    if (s->options.beam_width != 0)
        return open_capped_children(s);
    for (uint32_t id = s->round_children; id < s->count; id++)
        frontier_push(&s->frontier, (FrontierEntry){search_node(s, id)->score, id});
    return true;
}

/* dfs and best_first: the first open node. */
static uint32_t take_open(Search *s)
{
    if (s->options.strategy == SEARCH_DFS)
        return s->stack.items[--s->stack.count];
    if (s->options.beam_width != 0)
        return pop_open(s, &s->frontier);
    return frontier_pop(&s->frontier).id;
}

/* beam: the level's candidates, sorted as far as they are kept; the others are pruned. */
static bool keep_best_children(Search *s)
{
    size_t candidates = s->count - s->round_children, width = s->options.beam_width;
    size_t kept = candidates < width ? candidates : width;
    frontier_keep(&s->frontier, 0);
    if (!vec_reserve(&s->frontier, &s->alloc, candidates) ||
        !vec_reserve(&s->round, &s->alloc, kept) ||
        !vec_reserve(&s->pruned, &s->alloc, candidates - kept))
        return false;
    for (uint32_t id = s->round_children; id < s->count; id++)
        frontier_push(&s->frontier, (FrontierEntry){search_node(s, id)->score, id});
    frontier_sort(&s->frontier, kept);
    for (size_t i = 0; i < candidates; i++)
        vec_push(i < kept ? &s->round : &s->pruned, s->frontier.items[i].id);
    s->pruned_total += s->pruned.count;
    return true;
}

/* Puts the children of the round that is over where they wait, and fills the next round. */
static bool next_round(Search *s)
{
    const SearchOptions *o = &s->options;
    s->round.count = s->round_taken = s->pruned.count = 0;
    if (o->strategy == SEARCH_BEAM)
        return keep_best_children(s);
    if (!(o->strategy == SEARCH_DFS ? stack_children(s) : open_children(s)))
        return false;
    size_t open = o->strategy == SEARCH_DFS ? s->stack.count
                  : o->beam_width != 0      ? s->open_count
                                            : s->frontier.count;
    size_t taken = open < o->batch ? open : o->batch;
    if (!vec_reserve(&s->round, &s->alloc, taken))
        return false;
    while (s->round.count < taken)
        vec_push(&s->round, take_open(s));
    return true;
}

SearchStatus search_take(Search *s, uint32_t *id)
{
    if (s->ended)
        return SEARCH_OVER;
    if (s->options.strategy == SEARCH_BFS) {
        *id = s->bfs_cursor;
        if (s->bfs_cursor >= s->count)
            return SEARCH_OVER;
        s->bfs_cursor++;
        return SEARCH_OK;
    }
    if (s->round_taken == s->round.count) {
        if (!next_round(s)) {
            s->ended = true; /* the frontier is half made */
            return SEARCH_NO_MEMORY;
        }
        s->round_children = s->count;
        if (s->round.count == 0)
            return SEARCH_OVER;
    }
    *id = s->round.items[s->round_taken];
    if (s->options.strategy == SEARCH_BEAM && search_node(s, *id)->depth >= s->options.max_depth)
        return SEARCH_OVER;
    s->round_taken++;
    return SEARCH_OK;
}

uint32_t search_peek(const Search *s, size_t ahead)
{
    uint32_t id = SEARCH_NO_NODE;
    if (s->ended)
        return id;
    if (s->options.strategy == SEARCH_BFS) {
        if (ahead < s->count - s->bfs_cursor)
            id = s->bfs_cursor + (uint32_t)ahead;
    } else if (ahead < s->round.count - s->round_taken) {
        id = s->round.items[s->round_taken + ahead];
    }
    if (id == SEARCH_NO_NODE || !search_node(s, id)->tested)
        return SEARCH_NO_NODE;
    return id;
}

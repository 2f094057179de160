/*
 * search.c -- the engine of all searches: the tree, its rounds, its best node and its end; search.h
 * says how a driver uses it. The other parts:
 *
 *     search_work.c         the order of the work on a round: what is asked next
 *     search_tell.c         the results of callbacks
 *     search_keys.c         the keys of the states in the tree
 *     search_bfs.c...       one policy each: what a round selects, and how it backs up
 *     search_draw.c         random numbers of the policies
 *
 * Nodes are 16 bytes, in chunks of 4,096, together with the policy's data for each node.
 */
#include "core/search_policy.h"

#include <string.h>

static const struct {
    const char *name;
    const SearchPolicy *policy;
} strategies[SEARCH_STRATEGIES] = {
    [SEARCH_BFS] = {"bfs", &search_bfs},
    [SEARCH_DFS] = {"dfs", &search_dfs},
    [SEARCH_BEAM] = {"beam", &search_beam},
    [SEARCH_BEST_FIRST] = {"best_first", &search_best_first},
    [SEARCH_UCT] = {"uct", &search_uct},
    [SEARCH_PUCT] = {"puct", &search_uct},
    [SEARCH_AB_MCTS] = {"ab_mcts", &search_ab_mcts},
    [SEARCH_ASTAR] = {"astar", &search_astar},
    [SEARCH_IDASTAR] = {"idastar", &search_idastar},
    [SEARCH_DVTS] = {"dvts", &search_dvts},
    [SEARCH_EVOLVE] = {"evolve", &search_evolve},
};

const char *search_strategy_name(SearchStrategy strategy)
{
    return strategies[strategy].name;
}

bool search_init(Search *s, Alloc alloc, const SearchOptions *options)
{
    memset(s, 0, sizeof *s);
    s->alloc = alloc;
    s->options = *options;
    s->policy = strategies[options->strategy].policy;
    s->best = s->answer = SEARCH_NO_NODE;
    s->best_score = -INFINITY;
    s->keys.has_nodes = s->policy->makes_duplicate != NULL;
    s->node_size = s->policy->node_size;
    if (options->prior >= PRIOR_SOFTMAX || !isnan(options->guide))
        s->node_size += s->policy->more_size;
    s->value_offset = SEARCH_CHUNK_SIZE * (sizeof(SearchNode) + s->node_size);
    s->refs_offset = s->value_offset + (options->asks[SEARCH_SIMULATE] ? SEARCH_CHUNK_SIZE * 8 : 0);
    s->chunk_size = s->refs_offset + (options->retain_path ? (SEARCH_CHUNK_SIZE + 1) * 4 : 0);
    s->has_more_than_nodes = s->node_size > 0 || options->retain_path;
    s->has_policy_score = s->policy->score != NULL;
    if (s->policy->data_size == 0)
        return true;
    s->data = alloc_resize(&alloc, NULL, 0, s->policy->data_size);
    if (s->data != NULL)
        memset(s->data, 0, s->policy->data_size);
    return s->data != NULL;
}

void search_free(Search *s)
{
    if (s->data != NULL && s->policy->free != NULL)
        s->policy->free(s);
    for (size_t i = 0; i < s->chunks.count; i++)
        alloc_free(&s->alloc, s->chunks.items[i],
                   s->room < SEARCH_CHUNK_SIZE ? s->room * sizeof(SearchNode) : s->chunk_size);
    vec_free(&s->chunks, &s->alloc);
    if (s->data != NULL)
        alloc_free(&s->alloc, s->data, s->policy->data_size);
    s->data = NULL;
    s->count = s->room = 0;
    s->ended = true;
    search_keys_free(&s->keys, &s->alloc);
    vec_free(&s->tickets, &s->alloc);
    vec_free(&s->ready, &s->alloc);
    vec_free(&s->pruned, &s->alloc);
    vec_free(&s->freed, &s->alloc);
}

/* ---- nodes ---- */

/* Makes room for the node `id`. Thousands of small searches may live at once, so the first chunk
 * grows, unless more than nodes is in it. */
static bool add_room(Search *s, uint32_t id)
{
    size_t index = id >> SEARCH_CHUNK_BITS;
    bool is_new = index == s->chunks.count;
    bool grows = index == 0 && s->chunk_size == SEARCH_CHUNK_SIZE * sizeof(SearchNode);
    uint32_t room = !grows ? (uint32_t)(index + 1) << SEARCH_CHUNK_BITS : id == 0 ? 16 : id * 4;
    if (!vec_reserve(&s->chunks, &s->alloc, is_new))
        return false;
    SearchNode *chunk = alloc_resize(&s->alloc, is_new ? NULL : s->chunks.items[index],
                                     is_new ? 0 : id * sizeof(SearchNode),
                                     grows ? room * sizeof(SearchNode) : s->chunk_size);
    if (chunk == NULL)
        return false;
    s->chunks.items[index] = chunk;
    s->chunks.count += is_new;
    s->room = room;
    if (s->options.retain_path)
        memset((char *)chunk + s->refs_offset, 0, (SEARCH_CHUNK_SIZE + 1) * 4);
    return true;
}

/* References: one until its policy releases it, and one from each child. */
static void note_added(Search *s, uint32_t id)
{
    uint32_t parent = search_node(s, id)->parent;
    if (s->node_size > 0)
        memset(search_extra(s, id), 0, s->node_size);
    search_hold(s, id);
    if (parent != SEARCH_NO_NODE)
        search_hold(s, parent);
}

SearchStatus search_add(Search *s, uint32_t parent, uint32_t count)
{
    uint32_t depth = parent == SEARCH_NO_NODE ? 0 : search_node(s, parent)->depth + 1u;
    for (; count > 0; count--) {
        uint32_t id = s->count;
        if (id >= s->options.max_nodes || s->ended)
            return SEARCH_FULL;
        if (id == s->room && !add_room(s, id))
            return SEARCH_NO_MEMORY;
        *search_node(s, id) =
            (SearchNode){.score = NAN, .parent = parent, .depth = depth & SEARCH_MAX_DEPTH};
        s->count = id + 1;
        if (s->has_more_than_nodes)
            note_added(s, id);
    }
    return SEARCH_OK;
}

SearchStatus search_make(Search *s, SearchTicket *t)
{
    bool is_asked = s->options.asks[SEARCH_KEY] || s->options.asks[SEARCH_COST];
    uint32_t first = s->count;
    SearchStatus status = search_add(s, t->node, is_asked ? 1 : t->last - t->next);
    if (status == SEARCH_FULL)
        t->full = s->refused = true;
    for (uint32_t id = first; id < s->count && s->policy->add != NULL; id++)
        s->policy->add(s, t, id, t->next + (id - first));
    search_set_next(t, t->next + (s->count - first));
    return status;
}

/* ---- retain_path ---- */

static uint32_t *refs_of(const Search *s, uint32_t id)
{
    char *chunk = (char *)s->chunks.items[id >> SEARCH_CHUNK_BITS];
    return (uint32_t *)(void *)(chunk + s->refs_offset) + (id & (SEARCH_CHUNK_SIZE - 1));
}

/* The number of freed nodes in its chunk. */
static uint32_t *freed_of(const Search *s, uint32_t id)
{
    char *chunk = (char *)s->chunks.items[id >> SEARCH_CHUNK_BITS];
    return (uint32_t *)(void *)(chunk + s->refs_offset) + SEARCH_CHUNK_SIZE;
}

bool search_has(const Search *s, uint32_t id)
{
    return !s->options.retain_path ||
           (s->chunks.items[id >> SEARCH_CHUNK_BITS] != NULL && *refs_of(s, id) > 0);
}

void search_hold(Search *s, uint32_t id)
{
    if (s->options.retain_path)
        ++*refs_of(s, id);
}

/* Frees a chunk once all its nodes are gone. Without memory for `freed` the driver only keeps a
 * state longer than necessary. */
void search_release(Search *s, uint32_t id)
{
    while (s->options.retain_path && id != SEARCH_NO_NODE && --*refs_of(s, id) == 0) {
        uint32_t parent = search_node(s, id)->parent;
        if (vec_reserve(&s->freed, &s->alloc, 1))
            vec_push(&s->freed, id);
        if (++*freed_of(s, id) == SEARCH_CHUNK_SIZE) {
            alloc_free(&s->alloc, s->chunks.items[id >> SEARCH_CHUNK_BITS], s->chunk_size);
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

void search_update_best(Search *s, uint32_t end)
{
    for (; s->considered < end && s->promising; s->considered++) {
        uint32_t id = s->considered;
        const SearchNode *node = search_node(s, id);
        bool promising = node->terminal || node->score >= s->best_score;
        if (!promising || (s->best != SEARCH_NO_NODE && !is_better(s, id, s->best)))
            continue;
        search_hold(s, id);
        if (s->best != SEARCH_NO_NODE)
            search_release(s, s->best);
        s->best = id;
        if (s->policy->better == NULL)
            s->best_score = node->terminal ? INFINITY : node->score;
    }
    s->considered = end;
    s->promising = end < s->count;
}

/* Whether max_depth alone keeps an evaluated node from being expanded. */
static bool is_depth_limited(const Search *s, const SearchNode *node)
{
    return node->evaluated && node->depth == s->options.max_depth && !node->terminal;
}

void search_advance_prefix(Search *s)
{
    while (s->evaluated_prefix < s->count && search_node(s, s->evaluated_prefix)->evaluated)
        s->evaluated_prefix++;
}

uint32_t search_best(const Search *s)
{
    if (s->answer < s->count)
        return s->answer;
    uint32_t best = s->best;
    for (uint32_t id = s->considered; id < s->count && id < s->evaluated_prefix; id++)
        if (best == SEARCH_NO_NODE || is_better(s, id, best))
            best = id;
    return best;
}

/* ---- rounds ---- */

SearchTicket *search_select(Search *s, uint32_t node)
{
    SearchTicket *t = &s->tickets.items[s->tickets.count++];
    memset(t, 0, sizeof *t); /* in place: copying would stall on the stores just made */
    t->node = node;
    t->width = s->options.k;
    t->failed_from = SEARCH_NO_NODE;
    t->expands = search_expandable(s, node);
    return t;
}

/* The ticket of the first round; the driver has made the root. */
static bool add_root_ticket(Search *s)
{
    if (!search_reserve_tickets(s, 1))
        return false;
    SearchTicket ticket = {.node = SEARCH_NO_NODE, .failed_from = SEARCH_NO_NODE, .end = 1};
    vec_push(&s->tickets, ticket);
    return true;
}

void search_note_root(Search *s)
{
    if (s->policy->add != NULL)
        s->policy->add(s, &s->tickets.items[0], 0, 0);
}

bool search_start_round(Search *s, uint32_t count)
{
    s->tickets.count = 0;
    s->round_children = s->count;
    s->rounds++;
    return search_reserve_tickets(s, count);
}

bool search_next_wave(Search *s, SearchStatus *status)
{
    return s->rounds > 0 && s->policy->wave != NULL && s->policy->wave(s, status);
}

SearchStatus search_next_round(Search *s)
{
    if (s->ended)
        return SEARCH_OVER;
    SearchStatus status = SEARCH_OK;
    if (s->rounds == 0) {
        s->round_children = 0;
        status = add_root_ticket(s) ? SEARCH_OK : SEARCH_NO_MEMORY;
    } else {
        s->tickets.count = 0;
        s->round_children = s->count;
        status = s->policy->select(s);
    }
    if (status == SEARCH_OK && s->tickets.count == 0)
        status = SEARCH_OVER;
    s->rounds++;
    s->selected = (uint32_t)s->tickets.count;
    if (status == SEARCH_NO_MEMORY)
        s->ended = true;
    return status;
}

bool search_back_up(Search *s)
{
    s->pruned.count = 0;
    if (!s->policy->back_up(s)) {
        s->ended = true; /* the statistics are incomplete */
        return false;
    }
    s->pruned_total += s->pruned.count;
    if (s->policy->counts_iterations && s->rounds > 1)
        s->iterations += s->selected;
    return true;
}

/* ---- the end ---- */

void search_end(Search *s, SearchOutcome outcome, uint32_t keep)
{
    if (keep > s->evaluated_prefix)
        keep = s->evaluated_prefix;
    for (uint32_t id = keep; id < s->count; id++)
        s->depth_limited -= search_has(s, id) && is_depth_limited(s, search_node(s, id));
    if (keep < s->count)
        s->count = keep;
    s->ended = true; /* a frontier may still list dropped nodes */
    if (s->outcome == OUTCOME_NONE)
        s->outcome = outcome;
}

void search_facts(const Search *s, uint32_t id, SearchFacts *facts)
{
    bool known = search_node(s, id)->evaluated;
    memset(facts, 0, sizeof *facts);
    facts->value = s->options.asks[SEARCH_SIMULATE] && known ? search_value(s, id) : NAN;
    if (s->policy->facts != NULL)
        s->policy->facts(s, id, facts);
    if (!known)
        facts->value = NAN;
}

bool search_group(const Search *s, uint32_t i, const uint32_t **ids, size_t *count)
{
    return s->policy->group != NULL && s->policy->group(s, i, ids, count);
}

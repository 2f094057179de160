/*
 * search.h -- the tree and the order of a search: which node comes next, which child is made.
 *
 * The engine calls nothing and reads no clock. A driver (a C loop or a Lua one, in l_search.c and
 * lua/ponder/search/) asks it for the next node, runs the callbacks, and tells it what came:
 *
 *     search_add(root)
 *     while search_take(&node)            in the order of the strategy
 *         for each next state of node     unless it is a leaf: terminal or at max_depth
 *             search_add(node)            ids count up from 0, in order of creation
 *             search_set_score(child), search_set_terminal(child)
 *
 * Nodes are taken up in rounds; what a round's nodes made joins the frontier when it is over.
 * Since ids count up, a round's children are always the ids from `round_children` to the end:
 *
 *     strategy    a round is                              its children
 *     bfs         the oldest node                         wait in order of creation
 *     dfs         the newest `batch` nodes                are explored first child first
 *     best_first  the best `batch` nodes of the frontier  join it; it keeps its best `beam_width`
 *     beam        a level                                 the best `beam_width` are the next one
 */
#ifndef PONDER_CORE_SEARCH_H
#define PONDER_CORE_SEARCH_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/alloc.h"
#include "core/frontier.h"

#define SEARCH_NO_NODE   UINT32_MAX
#define SEARCH_MAX_DEPTH 0x1fffffffu

typedef enum SearchStrategy {
    SEARCH_BFS,
    SEARCH_DFS,
    SEARCH_BEAM,
    SEARCH_BEST_FIRST
} SearchStrategy;

typedef enum SearchStatus {
    SEARCH_OK,
    SEARCH_OVER,     /* no node is left to take up */
    SEARCH_FULL,     /* max_nodes: the child was not made */
    SEARCH_NO_MEMORY /* search_add: nothing was changed; search_take: the search has ended */
} SearchStatus;

typedef struct SearchOptions {
    SearchStrategy strategy;
    uint32_t max_depth;  /* the deepest child, at most SEARCH_MAX_DEPTH */
    uint32_t max_nodes;  /* the root included */
    uint32_t beam_width; /* beam: nodes kept a level; best_first: cap of the frontier, 0 for none */
    uint32_t batch;      /* dfs and best_first: nodes a round takes up */
} SearchOptions;

/* 16 bytes; the state itself is the driver's. */
typedef struct SearchNode {
    double score; /* NaN until scored */
    uint32_t parent;
    uint32_t depth : 29;
    uint32_t tested : 1; /* scored, and `terminal` is known */
    uint32_t terminal : 1;
    uint32_t open : 1; /* on a capped frontier, neither taken up nor pruned yet */
} SearchNode;

typedef struct IdList {
    VEC_OF(uint32_t);
} IdList;

typedef struct Search {
    Alloc alloc;
    SearchOptions options;
    SearchNode **chunks; /* never moved: a search that grows copies no node */
    size_t chunk_capacity;
    uint32_t count;
    uint32_t settled;        /* all nodes below it are tested, maybe more */
    uint32_t best;           /* SEARCH_NO_NODE if none is judged */
    double bar;              /* below it only a terminal node can be the best */
    uint32_t round_children; /* the first id that the current round made */
    uint32_t bfs_cursor;
    IdList round; /* the nodes of this round, and how many of them were taken up */
    size_t round_taken;
    IdList stack;      /* dfs: the next node last */
    Frontier frontier; /* best_first: the open nodes; beam: a level's candidates */
    Frontier worst;    /* capped best_first: the same nodes, worst first */
    size_t open_count; /* capped best_first: how many of them are still open */
    IdList pruned;     /* the nodes that the latest round dropped, in no order */
    size_t pruned_total;
    bool ended; /* nothing is taken up or made any more */
} Search;

/* A search without nodes. `options` must be in range. Allocates nothing. */
void search_init(Search *s, Alloc alloc, const SearchOptions *options);
void search_free(Search *s);

/* Makes the node `count`, below `parent` (SEARCH_NO_NODE for the root): OK, FULL or NO_MEMORY. */
static inline SearchStatus search_add(Search *s, uint32_t parent);

/* The node `id` < count. */
static inline SearchNode *search_node(const Search *s, uint32_t id);

/* What the callbacks said of a node: first its score (not NaN), then whether it is terminal. */
static inline void search_set_score(Search *s, uint32_t id, double score);
static inline void search_set_terminal(Search *s, uint32_t id, bool terminal);

/* The next node to take up: OK, OVER or NO_MEMORY. All nodes made so far must be tested. */
SearchStatus search_take(Search *s, uint32_t *id);

/* The `ahead`-th node (0: the next) that search_take will return whatever happens until then, or
 * SEARCH_NO_NODE if that is not certain yet or the node is not tested. */
uint32_t search_peek(const Search *s, size_t ahead);

/* Whether every node of the current round was taken up. */
static inline bool search_round_over(const Search *s)
{
    return s->round_taken == s->round.count;
}

/* Whether the node may have children: it is neither terminal nor at max_depth. */
bool search_expandable(const Search *s, uint32_t id);

/* Ends a search: forgets the nodes from `count` on. */
void search_truncate(Search *s, uint32_t count);

/* Ends a search: forgets the first node that is not tested, and all after it. */
void search_settle(Search *s);

/* The terminal node with the highest score, else the node with the highest score; ties to the
 * oldest. SEARCH_NO_NODE if none was tested. */
uint32_t search_best(const Search *s);

/* ---- inline ---- */

#define SEARCH_CHUNK_BITS 12
#define SEARCH_CHUNK_SIZE (1u << SEARCH_CHUNK_BITS)

static inline SearchNode *search_node(const Search *s, uint32_t id)
{
    return &s->chunks[id >> SEARCH_CHUNK_BITS][id & (SEARCH_CHUNK_SIZE - 1)];
}

/* Makes room for the node `id`, the first of a chunk. */
bool search_add_chunk(Search *s, uint32_t id);

static inline SearchStatus search_add(Search *s, uint32_t parent)
{
    uint32_t id = s->count;
    if (id >= s->options.max_nodes || s->ended)
        return SEARCH_FULL;
    if ((id & (SEARCH_CHUNK_SIZE - 1)) == 0 && !search_add_chunk(s, id))
        return SEARCH_NO_MEMORY;
    uint32_t depth = parent == SEARCH_NO_NODE ? 0 : search_node(s, parent)->depth + 1u;
    *search_node(s, id) =
        (SearchNode){.score = NAN, .parent = parent, .depth = depth & SEARCH_MAX_DEPTH};
    s->count++;
    return SEARCH_OK;
}

/* Makes `id` the best node if it is better than the best so far. */
void search_judge(Search *s, uint32_t id);

static inline void search_set_score(Search *s, uint32_t id, double score)
{
    search_node(s, id)->score = score;
}

static inline void search_set_terminal(Search *s, uint32_t id, bool terminal)
{
    SearchNode *node = search_node(s, id);
    node->terminal = terminal;
    node->tested = true;
    s->settled += id == s->settled;
    if (terminal || node->score >= s->bar)
        search_judge(s, id);
}

#endif

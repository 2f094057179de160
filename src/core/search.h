/*
 * search.h -- the engine of all searches: the tree, its rounds, its end. No calls, no clock, no
 * user states: these are the driver's (api/search_program.c).
 *
 * The way of the data:
 *
 *      +--> search_next_round: the policy selects up to `batch` tickets, each for one node
 *      |        |
 *      |        v
 *      |    the program of each ticket, in order (one C function, api/search_program.c):
 *      |        stop -> expand -> cost, key, search_add for each state
 *      |             -> evaluate, is_terminal, simulate... for each child -> prior
 *      |             -> search_consider for each child, search_commit: they count
 *      |        |
 *      |        v
 *      |    search_more: tickets that follow from the children (a rollout, the lazy child that
 *      |        |        joins a path)
 *      |        v
 *      +--- search_back_up: the policy takes in the children of each ticket, in order
 *
 * With one call at a time core:run runs the programs one after the other, between rounds too. The
 * concurrent driver (lua/ponder/think/search/concurrent.lua) runs each in a task, and the part
 * about each child in one of its own, ahead of its turn; a ticket makes its children after the
 * tickets before it have made theirs, and commits them in its turn. So ids, statistics and the end
 * are the same; what was done for tickets after the end is dropped. Ask and tell
 * (search/session.lua) uses core:run, in a coroutine that waits in expand for the answer.
 *
 * What to select and how to back up is the policy's (search_policy.h): search_bfs.c,
 * search_uct.c... here, or functions of Lua (api/search_lua.c). `ponder help searches` says which
 * search does what, `ponder help policies` how to write one.
 */
#ifndef PONDER_CORE_SEARCH_H
#define PONDER_CORE_SEARCH_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/heap.h"

#define SEARCH_NO_NODE   UINT32_MAX
#define SEARCH_MAX_DEPTH 0xfffffffu
#define SEARCH_ALL       UINT32_MAX /* of k: all children */

typedef enum SearchPrior { PRIOR_NONE, PRIOR_UNIFORM, PRIOR_SOFTMAX, PRIOR_ASKED } SearchPrior;
typedef enum SearchUnvisited {
    UNVISITED_INFINITE,
    UNVISITED_PARENT,
    UNVISITED_NUMBER
} SearchUnvisited;

typedef enum SearchStatus {
    SEARCH_OK,
    SEARCH_OVER,     /* no node is left to select */
    SEARCH_LIMIT,    /* max_iterations, with nodes still open */
    SEARCH_FULL,     /* max_nodes: the child was not made */
    SEARCH_NO_MEMORY /* nothing was changed; from the round's functions: the search has ended */
} SearchStatus;

typedef enum SearchOutcome {
    OUTCOME_NONE, /* the search is running */
    OUTCOME_OVER, /* "terminal" or "exhausted" */
    OUTCOME_STOP,
    OUTCOME_MAX_NODES,
    OUTCOME_MAX_DURATION,
    OUTCOME_MAX_ITERATIONS,
    OUTCOME_FAILED
} SearchOutcome;

struct SearchPolicy;

typedef struct SearchOptions {
    const struct SearchPolicy *policy;
    uint32_t k;              /* children used per expansion, or SEARCH_ALL */
    uint32_t max_depth;      /* the deepest child, at most SEARCH_MAX_DEPTH */
    uint32_t max_nodes;      /* the root included */
    uint32_t beam_width;     /* beam: nodes kept per level; best_first: cap, 0: none */
    uint32_t batch;          /* tickets per round */
    uint32_t max_iterations; /* UINT32_MAX: no limit */
    double stop_score;      /* a terminal node with at least this ends the search; NaN: none does */
    bool stops_at_terminal; /* with -infinity as stop_score */
    bool retain_path;       /* dfs, idastar: frees a node once nothing open descends from it */
    bool simulates, reflects, scores_levels, lazy;
    /* uct, puct, halving */
    double c, c_init, c_base, guide; /* guide is NaN for none */
    SearchPrior prior;
    bool is_puct, is_halving, normalize, backs_up_max, greedy, revisit, asks_spent;
    SearchUnvisited unvisited;
    double unvisited_value;
    double weight; /* astar, idastar */
    /* halving */
    uint32_t considered;
    uint64_t seed;
    double gumbel, value_scale, maxvisit_init;
} SearchOptions;

/* 16 bytes; the state itself is the driver's. */
typedef struct SearchNode {
    double score; /* NaN until scored; with `given` only kept for later if it is not scored */
    uint32_t parent;
    uint32_t depth : 28;
    uint32_t scored : 1; /* all its callbacks have returned */
    uint32_t terminal : 1;
    uint32_t open : 1;  /* the policy's own */
    uint32_t given : 1; /* its score came from expand */
} SearchNode;

typedef struct IdList {
    VEC_OF(uint32_t);
} IdList;

typedef struct SearchTicket {
    uint32_t node;       /* SEARCH_NO_NODE: scores the root */
    uint32_t k;          /* the number of children to ask expand for */
    uint32_t first, end; /* the nodes that it makes, or that it scores: first .. end - 1 */
    uint32_t next, last; /* indexes in the list that expand returned: the next, and the end */
    uint32_t arm;        /* the policy's own */
    uint32_t expansions; /* earlier ones of its node (policies in Lua) */
    uint32_t duplicates;
    uint64_t dropped; /* items of the list beyond k */
    double cost;      /* of the next child */
    bool expands;
    bool scores; /* lazy: scores its node, then asks stop */
    bool full;   /* max_nodes refused a child */
} SearchTicket;

typedef struct Search {
    Alloc alloc;
    SearchOptions options;
    const struct SearchPolicy *policy;
    void *data;         /* the policy's own; so are the lists: */
    IdList list;        /* nodes to select, the last first (dfs, idastar); halving: its schedule */
    Heap open, worst;   /* nodes to select, the best first; with a cap also the worst first */
    VEC(double) values; /* of children (uct, halving) */
    VEC(char *) chunks; /* of SEARCH_CHUNK nodes, then the policy's data, values, references */
    size_t extra_size, values_at, references_at, chunk_size;
    uint32_t count, room; /* nodes, and their capacity */
    uint32_t best;        /* of those that count; SEARCH_NO_NODE if there are none */
    double best_score;    /* below it only a terminal node can be the best */
    uint32_t answer;      /* the terminal node that ended the search (astar, idastar) */
    bool hit;             /* a node that counts satisfies stop_score */

    VEC(SearchTicket) tickets; /* of the round */
    uint32_t selected;         /* selected tickets; waves follow them */
    uint32_t turn;             /* the ticket that commits next */
    uint32_t committed;        /* nodes below it count (all of them but unscored lazy ones) */
    uint32_t round_children;   /* the first id that the round made */
    uint64_t rounds, iterations;
    double spent;  /* what the callback `spent` said at the beginning of the round */
    IdList pruned; /* the nodes that the last round dropped, unordered */
    IdList freed;  /* retain_path: the nodes that were freed since the driver last looked */

    bool ended; /* no more nodes are selected or made */
    SearchOutcome outcome;
    uint64_t expansions, duplicates, pruned_total, children_dropped, depth_limited;
} Search;

/* A search without nodes. `options` must be in range. False: no memory. */
bool search_init(Search *s, Alloc alloc, const SearchOptions *options);
void search_free(Search *s);

/* Makes `count` children of the ticket's node, or the root for a ticket without a node: OK; or FULL
 * or NO_MEMORY, with fewer of them made. */
SearchStatus search_add(Search *s, SearchTicket *t, uint32_t count);

/* Whether the node is there: with retain_path it may be gone. */
bool search_has(const Search *s, uint32_t id);

/* Begins a round: the first one's only ticket scores the root. */
SearchStatus search_next_round(Search *s);

/* Adds tickets that follow from the round's children once the others are over. OVER: none. */
SearchStatus search_more(Search *s);

/* The first of the nodes that a ticket scores, up to its `end`; that: it scores none. The children
 * of a level are scored by its last ticket, lazy ones when they are selected. */
uint32_t search_first_to_score(const Search *s, const SearchTicket *t);

/* The children of a ticket are made. In a level that is full it becomes the last ticket. */
void search_made(Search *s, const SearchTicket *t);

/* The ticket in turn is over: its nodes count. */
void search_commit(Search *s);

/* Backs up the round that is over; ends the search where stop_score says so. False: no memory. */
bool search_back_up(Search *s);

/* Ends a search; what has not been committed does not count. */
void search_end(Search *s, SearchOutcome outcome);

/* A node's callbacks have returned, in a ticket that is in turn: it counts. */
void search_consider(Search *s, uint32_t id);

/* ---- a policy's statistics of a node, for callbacks and results ---- */

typedef struct SearchFacts {
    double visits, value, g; /* NaN: none */
} SearchFacts;

SearchFacts search_facts(const Search *s, uint32_t id);

/* ---- inline ---- */

#define SEARCH_CHUNK_BITS 8
#define SEARCH_CHUNK      (1u << SEARCH_CHUNK_BITS)

static inline char *search_chunk(const Search *s, uint32_t id)
{
    return s->chunks.items[id >> SEARCH_CHUNK_BITS];
}

/* The node `id` < count. */
static inline SearchNode *search_node(const Search *s, uint32_t id)
{
    return (SearchNode *)(void *)search_chunk(s, id) + (id & (SEARCH_CHUNK - 1));
}

/* The policy's data of a node, zero in a new node. */
static inline void *search_extra(const Search *s, uint32_t id)
{
    return search_chunk(s, id) + SEARCH_CHUNK * sizeof(SearchNode) +
           (id & (SEARCH_CHUNK - 1)) * s->extra_size;
}

/* Where the result of simulate goes. */
static inline double *search_simulated(const Search *s, uint32_t id)
{
    return (double *)(void *)(search_chunk(s, id) + s->values_at) + (id & (SEARCH_CHUNK - 1));
}

/* simulate's result, else the score. */
static inline double search_value(const Search *s, uint32_t id)
{
    const SearchNode *node = search_node(s, id);
    return s->options.simulates && id > 0 && !node->terminal ? *search_simulated(s, id)
                                                             : node->score;
}

/* Whether the node may have children: it is neither terminal nor at max_depth. */
static inline bool search_expandable(const Search *s, uint32_t id)
{
    const SearchNode *node = search_node(s, id);
    return !node->terminal && node->depth < s->options.max_depth;
}

#endif

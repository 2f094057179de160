/*
 * search.h -- the engine of all searches: the tree, its statistics, and the order of the work.
 *
 * A search is a sequence of rounds. A round selects up to `batch` tickets from the statistics of
 * the tree, works on them (callbacks, which may overlap), and backs up the results in the order of
 * the tickets. What to select and how to back up is the policy's (search_policy.h; one file each:
 * search_bfs.c, search_uct.c...); everything else is here and in search_work.c.
 *
 * The engine makes no calls, reads no clock and stores no user states. A driver asks it what to do
 * next, does it, and tells it the result:
 *
 *     search_ask(s, &ask)          a unit of work: EXPAND, MAKE, EVALUATE...
 *     do                           run the callback, search_tell_...(s, &ask, result)
 *     while search_continue(s, &ask)     the next callback of the same unit, if it has one
 *
 * A driver that does one unit at a time sets SearchOptions.window to 1; with more it may ask again
 * while units are in flight. The tree, the ids and the answer are the same. Work done in advance
 * for later tickets is dropped if the search ends before their turn.
 *
 * The ToT machine (tot.h) drives rounds itself: search_next_round, search_add, search_set_...
 */
#ifndef PONDER_CORE_SEARCH_H
#define PONDER_CORE_SEARCH_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/search_keys.h"
#include "core/vec.h"

#define SEARCH_NO_NODE   UINT32_MAX
#define SEARCH_MAX_DEPTH 0x1fffffffu
#define SEARCH_ALL       UINT32_MAX /* of k: all children */

typedef enum SearchStrategy {
    SEARCH_BFS,
    SEARCH_DFS,
    SEARCH_BEAM,
    SEARCH_BEST_FIRST,
    SEARCH_UCT,
    SEARCH_PUCT,
    SEARCH_AB_MCTS,
    SEARCH_ASTAR,
    SEARCH_IDASTAR,
    SEARCH_DVTS,
    SEARCH_EVOLVE,
    SEARCH_STRATEGIES
} SearchStrategy;

typedef enum SearchPrior { PRIOR_NONE, PRIOR_UNIFORM, PRIOR_SOFTMAX, PRIOR_ASKED } SearchPrior;
typedef enum SearchPosterior {
    POSTERIOR_GAUSSIAN,
    POSTERIOR_BETA,
    POSTERIOR_MIXED
} SearchPosterior;
typedef enum SearchParent { PARENT_WEIGHTED, PARENT_PUCT, PARENT_BEST } SearchParent;

typedef enum SearchStatus {
    SEARCH_OK,
    SEARCH_OVER,     /* no node is left to select */
    SEARCH_LIMIT,    /* max_iterations, with nodes still open */
    SEARCH_FULL,     /* max_nodes: the child was not made */
    SEARCH_NO_MEMORY /* nothing was changed; from search_next_round: the search has ended */
} SearchStatus;

typedef enum SearchOutcome {
    OUTCOME_NONE, /* the search is running */
    OUTCOME_OVER, /* "terminal" or "exhausted" */
    OUTCOME_STOP,
    OUTCOME_MAX_NODES,
    OUTCOME_MAX_DURATION,
    OUTCOME_MAX_ITERATIONS,
    OUTCOME_FAILED,
    OUTCOME_NO_MEMORY
} SearchOutcome;

/* A unit of work. The first are callbacks about a ticket, then those about a new node. */
typedef enum SearchCall {
    SEARCH_STOP,
    SEARCH_EXPAND,
    SEARCH_COST,
    SEARCH_KEY,
    SEARCH_MAKE, /* search_make, then store the states of the new nodes */
    SEARCH_EVALUATE_ALL,
    SEARCH_PRIOR,
    SEARCH_SPENT,
    SEARCH_EVALUATE,
    SEARCH_IS_TERMINAL,
    SEARCH_SIMULATE,
    SEARCH_FEATURES,
    SEARCH_REFLECT,
    SEARCH_EXPANDED_EVENT,
    SEARCH_SCORED_EVENT,
    SEARCH_PRUNED_EVENT,
    SEARCH_WAIT, /* nothing can start before a unit in flight is finished */
    SEARCH_DONE
} SearchCall;

typedef struct SearchOptions {
    SearchStrategy strategy;
    uint32_t k;          /* children used per expansion, or SEARCH_ALL */
    uint32_t max_depth;  /* the deepest child, at most SEARCH_MAX_DEPTH */
    uint32_t max_nodes;  /* the root included */
    uint32_t beam_width; /* nodes kept per level (dvts: per subtree); best_first: cap, 0: none */
    uint32_t batch;      /* tickets per round */
    uint32_t window;     /* tickets worked on at the same time */
    uint64_t max_iterations;
    bool asks[SEARCH_DONE]; /* which callbacks exist */
    bool retain_path;       /* dfs, idastar: a node is freed once nothing open descends from it */
    bool expandable_only;   /* best_first: what cannot be expanded is not selected */
    /* uct, puct */
    double c, c_init, c_base, guide; /* c is evolve's too; guide is NaN for none */
    SearchPrior prior;
    bool normalize, backs_up_max, greedy, revisit;
    /* ab_mcts, evolve */
    SearchPosterior posterior;
    uint32_t actions; /* 0: none */
    uint64_t seed;
    double weight;     /* astar, idastar */
    uint32_t subtrees; /* dvts */
    /* evolve */
    SearchParent select;
    uint32_t islands, population, migrate; /* population 0: no limit */
    uint64_t migrate_every;                /* 0: never */
    double sharpness;
} SearchOptions;

/* 16 bytes; the state itself is the driver's. */
typedef struct SearchNode {
    double score; /* NaN until scored */
    uint32_t parent;
    uint32_t depth : 29;
    uint32_t evaluated : 1; /* all its callbacks have returned */
    uint32_t terminal : 1;
    uint32_t open : 1; /* the policy's own */
} SearchNode;

typedef struct IdList {
    VEC_OF(uint32_t);
} IdList;

/* The progress of the work on a ticket. */
typedef enum SearchStage {
    STAGE_QUEUED,
    STAGE_EXPANDING,
    STAGE_LISTED, /* has its list, and waits for earlier tickets to make their children */
    STAGE_MAKING,
    STAGE_EVALUATING,
    STAGE_DONE
} SearchStage;

typedef struct SearchTicket {
    uint32_t node;       /* SEARCH_NO_NODE: evaluates the root, or a level */
    uint32_t width;      /* the number of children to ask expand for */
    uint32_t first, end; /* its children are first .. end - 1 */
    uint32_t next, last; /* indexes in the list that expand returned: the next, and the end */
    uint32_t evaluated;  /* children */
    uint32_t duplicates;
    uint32_t expansions;  /* earlier ones of its node (ab_mcts, evolve) */
    uint32_t arm;         /* its action (ab_mcts), island (evolve), the path's last node (uct) */
    uint32_t failed_from; /* the first child whose callback failed; SEARCH_NO_NODE */
    uint32_t key_entry;   /* of the next child; valid if key_known */
    double cost;          /* of the next child; valid if cost_known */
    uint64_t dropped;     /* items of the list beyond the width */
    uint8_t stage;        /* SearchStage */
    bool expands;
    bool fetched, cost_known, key_known; /* of the next child */
    bool failed;                         /* in a callback about the ticket itself */
    bool fails_at_once;                  /* does not wait for the children before failed_from */
    bool full;                           /* max_nodes refused a child */
} SearchTicket;

/* Whether the call is about one new node, rather than a ticket. */
static inline bool search_is_about_child(SearchCall call)
{
    return call >= SEARCH_EVALUATE && call <= SEARCH_REFLECT;
}

typedef struct SearchAsk {
    SearchCall call;
    uint32_t ticket;
    uint32_t node; /* the ticket's node or the new one; evaluate_all and prior: the first child */
    uint32_t last; /* evaluate_all and prior: the last child */
} SearchAsk;

typedef enum SearchTurn { TURN_STOP, TURN_WORK, TURN_SCORED } SearchTurn;
typedef enum SearchRoundStep { ROUND_OVER, ROUND_BACKED_UP, ROUND_SPENT } SearchRoundStep;

struct SearchPolicy;

typedef struct Search {
    Alloc alloc;
    SearchOptions options;
    const struct SearchPolicy *policy;
    void *data;               /* the policy's own */
    VEC(SearchNode *) chunks; /* never moved, except the first: growing copies no nodes */
    size_t node_size, value_offset, refs_offset, chunk_size; /* see search_extra */
    bool has_more_than_nodes;                                /* chunks also hold other data */
    bool has_policy_score;
    bool has_plain_children;   /* see search_is_range; set by search_begin */
    SearchCall first_call;     /* the first callback about a new node */
    uint32_t count, room;      /* nodes, and their capacity */
    uint32_t evaluated_prefix; /* all nodes below it are evaluated, maybe more */
    uint32_t considered;       /* all nodes below it were considered for the best */
    uint32_t best;             /* of them; SEARCH_NO_NODE if there are none */
    double best_score;         /* below it only a terminal node can be the best */
    bool promising;            /* a node from `considered` on may be better */
    uint32_t answer;           /* the terminal node that ended the search (astar, idastar) */
    SearchKeys keys;

    /* the round */
    VEC(SearchTicket) tickets;
    uint32_t selected;       /* selected tickets; waves and levels follow them */
    uint32_t round_children; /* the first id that the round made */
    uint64_t rounds, iterations;
    double spent;
    IdList pruned; /* the nodes that the last round dropped, unordered */
    IdList freed;  /* retain_path: the nodes that were freed since the driver last looked */

    /* the work (search_work.c) */
    VEC(SearchAsk) ready;
    size_t ready_next;
    uint32_t head;      /* the ticket in turn */
    uint32_t opened;    /* work on the tickets before it has begun */
    uint32_t maker;     /* the ticket that makes its children, or is next to */
    uint32_t committed; /* nodes that count: those of the tickets before `head` */
    uint32_t reported;  /* nodes below it had their event */
    uint32_t in_flight;
    uint8_t turn;       /* SearchTurn */
    uint8_t round_step; /* SearchRoundStep */
    bool in_turn_call;  /* a callback of the turn is in flight: nothing may start meanwhile */
    bool full, refused; /* max_nodes: in a ticket's turn; ahead of it */
    bool ended;         /* no more nodes are selected or made */
    SearchOutcome outcome;
    SearchAsk failure; /* with OUTCOME_FAILED: which callback */

    uint64_t expansions, duplicates, pruned_total, children_dropped, depth_limited;
} Search;

/* The name of a strategy, as users give it. */
const char *search_strategy_name(SearchStrategy strategy);

/* A search without nodes. `options` must be in range. False: no memory. */
bool search_init(Search *s, Alloc alloc, const SearchOptions *options);
void search_free(Search *s);

/* Makes `count` nodes below `parent` (SEARCH_NO_NODE for the root): OK; or FULL or NO_MEMORY, with
 * fewer of them made. */
SearchStatus search_add(Search *s, uint32_t parent, uint32_t count);

/* The node `id` < count; with retain_path it may be gone (search_has). */
static inline SearchNode *search_node(const Search *s, uint32_t id);
bool search_has(const Search *s, uint32_t id);

/* simulate's result, else the score. */
static inline double search_value(const Search *s, uint32_t id);

/* Whether the node may have children: it is neither terminal nor at max_depth. */
static inline bool search_expandable(const Search *s, uint32_t id);

/* All callbacks of a new node have returned. */
static inline void search_set_evaluated(Search *s, uint32_t id);

/* Selects the next round's tickets. The first round is the root's, which the driver has made. */
SearchStatus search_next_round(Search *s);

/* Passes the root to the policy, in the first round. */
void search_note_root(Search *s);

/* Begins a round of nodes that the caller selects (search_select in search_policy.h), `count` at
 * the most. False: no memory. */
bool search_start_round(Search *s, uint32_t count);

/* Adds tickets to a finished round that follow from its new children (SearchPolicy.wave). */
bool search_next_wave(Search *s, SearchStatus *status);

/* Backs up the round that is over. False: no memory, and the search has ended. */
bool search_back_up(Search *s);

/* Ends a search. Drops the nodes from `keep` on, and from the first unevaluated one on. */
void search_end(Search *s, SearchOutcome outcome, uint32_t keep);

/* The best node: see "The best node" in the documentation of search.run. SEARCH_NO_NODE if no node
 * was evaluated. */
uint32_t search_best(const Search *s);

/* ---- ask and tell (search_work.c) ---- */

/* Call it before the first search_ask, once `options` says which callbacks exist. */
void search_begin(Search *s);

/* The next unit of work. False: no memory, and the search has ended. */
bool search_ask(Search *s, SearchAsk *ask);

/* The next callback of a unit, after the last one's result was told; false: the unit is over. */
bool search_continue(Search *s, SearchAsk *ask);

/* Each tells the result of a callback; not once the search has ended. */
void search_tell_stop(Search *s, bool stop);
void search_tell_list(Search *s, const SearchAsk *ask, uint64_t length);
void search_tell_cost(Search *s, const SearchAsk *ask, double cost);
bool search_tell_key(Search *s, const SearchAsk *ask, const SearchKey *key);  /* false: no memory */
static inline void search_tell_score(Search *s, uint32_t node, double score); /* or heuristic */
static inline void search_tell_terminal(Search *s, uint32_t node, bool terminal);
void search_tell_cell(Search *s, uint32_t node, int64_t cell);  /* features */
void search_tell_prior(Search *s, uint32_t node, double prior); /* of one child */

/* MAKE: makes the next child of the ticket; all that are left, if no callback is asked about each
 * of them. Returns the same as search_add. */
SearchStatus search_make(Search *s, SearchTicket *t);

/* The callback failed: its unit is over. The search ends in its ticket's turn, with the nodes that
 * were evaluated before one at a time; `at_once`: without waiting for them. */
void search_fail(Search *s, const SearchAsk *ask, bool at_once);

/* ---- a policy's statistics of a node, for callbacks and results ---- */

typedef struct SearchFacts {
    bool has_visits, has_g, has_expansions;
    double visits, value, g;
    uint32_t expansions, action; /* action counts from 1; 0: none */
} SearchFacts;

void search_facts(const Search *s, uint32_t id, SearchFacts *facts);

/* dvts: level `i` of `kept`; evolve: the members of island `i`. False: there is no such list. */
bool search_group(const Search *s, uint32_t i, const uint32_t **ids, size_t *count);

/* ---- inline ---- */

#define SEARCH_CHUNK_BITS 12
#define SEARCH_CHUNK_SIZE (1u << SEARCH_CHUNK_BITS)

static inline SearchNode *search_node(const Search *s, uint32_t id)
{
    return &s->chunks.items[id >> SEARCH_CHUNK_BITS][id & (SEARCH_CHUNK_SIZE - 1)];
}

/* The policy's data of a node, zero in a new node. */
static inline void *search_extra(const Search *s, uint32_t id)
{
    char *chunk = (char *)s->chunks.items[id >> SEARCH_CHUNK_BITS];
    return chunk + SEARCH_CHUNK_SIZE * sizeof(SearchNode) +
           (id & (SEARCH_CHUNK_SIZE - 1)) * s->node_size;
}

/* Where the result of simulate goes. */
static inline double *search_simulated(const Search *s, uint32_t id)
{
    char *chunk = (char *)s->chunks.items[id >> SEARCH_CHUNK_BITS];
    return (double *)(void *)(chunk + s->value_offset) + (id & (SEARCH_CHUNK_SIZE - 1));
}

static inline double search_value(const Search *s, uint32_t id)
{
    const SearchNode *node = search_node(s, id);
    return s->options.asks[SEARCH_SIMULATE] && id > 0 && !node->terminal ? *search_simulated(s, id)
                                                                         : node->score;
}

static inline bool search_expandable(const Search *s, uint32_t id)
{
    const SearchNode *node = search_node(s, id);
    return !node->terminal && node->depth < s->options.max_depth;
}

/* Less frequent paths, in search.c and search_work.c. */
void search_update_best(Search *s, uint32_t end);
void search_advance_prefix(Search *s);
void search_tell_policy_score(Search *s, uint32_t node, double score);

/* The next child is at `index` in the ticket's list. */
static inline void search_set_next(SearchTicket *t, uint32_t index)
{
    t->next = index;
    t->cost = 1;
    t->fetched = t->cost_known = t->key_known = false;
}

static inline void search_tell_score(Search *s, uint32_t node, double score)
{
    if (s->has_policy_score)
        search_tell_policy_score(s, node, score);
    else
        search_node(s, node)->score = score;
}

static inline void search_tell_terminal(Search *s, uint32_t node, bool terminal)
{
    if (terminal) /* already false: later loads need not wait for a store */
        search_node(s, node)->terminal = true;
}

static inline void search_set_evaluated(Search *s, uint32_t id)
{
    SearchNode *node = search_node(s, id);
    /* Read the depth before storing the flag: they share a word, so a later load would stall. */
    s->depth_limited += !node->terminal && node->depth == s->options.max_depth;
    s->promising |= node->terminal || node->score >= s->best_score;
    node->evaluated = true;
    if (s->options.window > 1)
        search_advance_prefix(s);
    else
        s->evaluated_prefix = id + 1;
}

/* With a window of one ticket, and no callbacks about children but evaluate and is_terminal, one
 * unit covers all children of a ticket, from `node` to `last`. The driver moves `node` and `call`
 * from callback to callback, and calls search_continue after the last one. */
static inline bool search_is_range(const Search *s, SearchCall call)
{
    return s->has_plain_children && (call == SEARCH_EVALUATE || call == SEARCH_IS_TERMINAL);
}

#endif

/*
 * tot.h -- Tree of Thoughts: the tree, its frontier, and the rounds in which it grows.
 *
 * After Yao et al. 2023, "Tree of Thoughts: Deliberate Problem Solving with Large Language Models".
 * A search of the search engine (search.h) selects the nodes of each round and backs up scores. A
 * slot is a ticket of that search. It asks for thoughts, then for their scores; when every slot has
 * its scores the round is complete, and thoughts become children in the order of the slots, so the
 * tree does not depend on the order of replies.
 *
 *     from        to          on
 *     idle        generating  start
 *     generating  evaluating  thoughts: the last slot of the round has them
 *     evaluating  expanding   scores: the round is complete and no stopping rule holds
 *     evaluating  completed   scores: the round is complete and a stopping rule holds
 *     expanding   generating  next: the search selected nodes for the next round
 *     expanding   completed   next: it selected none
 *     generating  error       error
 *     evaluating  error       error
 *     expanding   error       error
 *
 * A busy status stays when one slot gets thoughts or scores while others are open, and on a repair,
 * which asks again for a reply that could not be parsed.
 *
 * Nodes are numbered in order of creation, the root is 0. The caller keeps the texts (machine.h).
 */
#ifndef PONDER_CORE_TOT_H
#define PONDER_CORE_TOT_H

#include "core/frontier.h"
#include "core/machine.h"
#include "core/search.h"

enum { TOT_GENERATING = MACHINE_BUSY, TOT_EVALUATING, TOT_EXPANDING };
enum { TOT_CALL_GENERATE, TOT_CALL_EVALUATE, TOT_CALLS };

/* The order of the frontier. The first three are best-first searches with different keys: the
 * score; a constant, so that the oldest comes first; the round, so that the newest does. The caller
 * can list their frontier and choose from it. TOT_SEARCH is any other search. */
enum { TOT_BEST_FIRST, TOT_BFS, TOT_DFS, TOT_SEARCH };
enum { TOT_BEST_SO_FAR, TOT_BEST_LEAF };

typedef struct TotOptions {
    SearchOptions search; /* expandable_only in the first three orders */
    uint32_t min_depth, convergence_window, max_parse_retries;
    uint8_t order, measure;
    bool stop_at_max_depth;
    double early_success_threshold, min_score_improvement;
    double max_duration_ms; /* infinite: none */
} TotOptions;

/* What node i has beside the search's node i. */
typedef struct TotNode {
    double score;                        /* NaN: the root, or unscored; the search's is a key */
    uint32_t last_child, sibling_before; /* 0: none */
    uint32_t child_count;
} TotNode;

typedef struct TotSlot {
    uint32_t node, ticket;
    uint32_t retries; /* repairs of the awaited reply so far */
    uint32_t awaits;  /* the kind of its open call; TOT_CALLS: none, it has its scores */
    uint32_t thought_count;
    double *scores; /* room for thought_count, filled in once done; NaN: unscored, ranks as 0 */
} TotSlot;

typedef struct Tot {
    Machine machine;
    TotOptions options;
    Search search;
    VEC(TotNode) nodes; /* as many as the search has, between messages */
    VEC(TotSlot) slots;
    uint32_t generating_count; /* slots that wait for thoughts */
    uint32_t first_ticket;     /* of the slots; earlier tickets belong to earlier waves */
    Frontier leaves;           /* for TOT_BEST_LEAF; may list nodes that have children by now */
    IdList expansions;         /* TOT_SEARCH: the number of children of each slot so far */
    uint32_t open_leaves;      /* leaves above max_depth */
    uint32_t first_new;        /* the first child that the last round made */
    uint32_t depth_reached;
    uint32_t answer;             /* the child that passed the threshold, else SEARCH_NO_NODE */
    double best_score;           /* of all nodes; NaN before the first */
    VEC(double) measures;        /* of the rounds */
    uint64_t retries[TOT_CALLS]; /* of the whole run, by kind of call */
    bool loaded;                 /* by tot_load_end or tot_init_root */
} Tot;

extern const MachineKind tot_kind;

typedef enum TotOutcome {
    TOT_DONE,
    TOT_NO_MEMORY,
    TOT_REFUSED,
    TOT_OVER, /* nothing is left to expand */
    TOT_LIMIT /* max_iterations */
} TotOutcome;

/* Call it after machine_init; the rest of `t` must be zero. False: no memory. */
bool tot_init(Tot *t, const TotOptions *options);
void tot_free(Tot *t);

/* Adds the root and the first round, whose slots all expand it. Call it before machine_start, which
 * opens the call of the first slot, and then tot_open_calls. */
TotOutcome tot_init_root(Tot *t);

/* Opens the calls of all slots that have none. */
void tot_open_calls(Tot *t);

/* The slot that waits for this open call of this kind, or NULL. */
TotSlot *tot_slot_of(const Tot *t, uint64_t number, uint32_t call_kind);

/* `count` thoughts arrived (at most tot_width are used): closes the call and opens the one for
 * their scores, whose number goes to *next. */
TotOutcome tot_thoughts(Tot *t, uint64_t number, uint32_t count, uint64_t *next);

/* The reply could not be parsed: closes the call and opens another of its kind. TOT_REFUSED after
 * max_parse_retries. */
TotOutcome tot_repair(Tot *t, uint64_t number, uint64_t *next);

/* The caller has filled in the scores of the call's slot: closes the call. The last one of a round
 * makes the children, as far as max_nodes allows, and records the measure. */
TotOutcome tot_scored(Tot *t, uint64_t number);
bool tot_round_complete(const Tot *t);

/* The measures of the last convergence_window rounds, or of all if there are fewer. */
const double *tot_recent(const Tot *t, uint32_t *count);

/* Which stopping rule holds after a round, NULL for none; `budgets_only` checks max_nodes and
 * max_duration. */
const char *tot_verdict(Tot *t, double now, bool budgets_only);

/* How many thoughts a slot asks for. */
uint32_t tot_width(const Tot *t, const TotSlot *slot);

/* Backs up the round's scores, adds the new children to the search's frontier and moves to
 * expanding. */
TotOutcome tot_enqueue_children(Tot *t);

/* Opens a slot and a call for each node that the search selects, and moves to generating; or
 * TOT_OVER, TOT_LIMIT. `chosen` selects these nodes instead: each must be on the frontier, once. */
TotOutcome tot_next_round(Tot *t, const uint32_t *chosen, uint32_t chosen_count);

/* Whether the order has a frontier to choose from. */
static inline bool tot_has_frontier(const Tot *t)
{
    return t->options.order != TOT_SEARCH;
}

/* Writes the frontier, next first, to `ids`, which has room for tot_frontier_size; without one, the
 * leaves that may still be expanded, in order of creation. */
uint32_t tot_frontier_size(const Tot *t);
TotOutcome tot_list_frontier(const Tot *t, uint32_t *ids);

static inline bool tot_is_leaf(const Tot *t, uint32_t node)
{
    return t->nodes.items[node].child_count == 0;
}

/* Writes the first `k` leaves with a score (the higher first, then the deeper, then the older) to
 * `ids`, which has room for all nodes; returns how many. */
uint32_t tot_candidates(const Tot *t, uint32_t *ids, uint32_t k);

/* ---- a saved machine (tot_load.c) ---- */

/* Adds the next node, the root first. TOT_REFUSED: its parent does not exist, or the children of a
 * node that is expanded only once are not contiguous. */
TotOutcome tot_load_node(Tot *t, uint32_t parent, double score);

/* Adds a slot to the round. If it is done, the caller fills in its scores. */
TotOutcome tot_load_slot(Tot *t, TotSlot slot);

/* Sets the frontier, next first. TOT_REFUSED: a node cannot be on it. */
TotOutcome tot_load_frontier(Tot *t, const uint32_t *ids, uint32_t count);

/* Checks slots against open calls, and derives the rest of the state. The caller has filled in
 * `measures` and `expansions`. */
TotOutcome tot_load_end(Tot *t, uint32_t answer);

/* ---- shared by tot.c and tot_load.c ---- */

/* Adds what the next node has beside the search's node; reserve first. */
bool tot_reserve_nodes(Tot *t, uint64_t more);
void tot_add_node(Tot *t, double score);

/* Makes room for the scores of its thoughts. False: no memory. */
bool tot_reserve_scores(Tot *t, TotSlot *slot);

/* The rounds of the search. Make the children of a ticket, then tell the score of each. */
TotOutcome tot_outcome(SearchStatus status);
TotOutcome tot_begin_search(Tot *t);
SearchStatus tot_make_children(Tot *t, uint32_t ticket, uint32_t count);
void tot_tell_score(Tot *t, uint32_t id, double score);
TotOutcome tot_back_up(Tot *t);
TotOutcome tot_select(Tot *t);

#endif

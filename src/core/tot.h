/*
 * tot.h -- Tree of Thoughts: the tree, its frontier, and the rounds that make it grow.
 *
 * After Yao et al. 2023, "Tree of Thoughts: Deliberate Problem Solving with Large Language Models".
 * Which nodes a round takes and what becomes of its scores is the search engine's (search.h): any
 * of its searches serves. Here a ticket of a round is a slot. A slot asks for thoughts, then for
 * their scores; when every slot has its scores the round is complete, and thoughts become children
 * in the order of the slots, so that the order of replies has no part in the tree.
 *
 *     from        to          on
 *     idle        generating  start
 *     generating  evaluating  thoughts: no generation of the round is open any more
 *     evaluating  expanding   scores: the round is complete and no stopping rule holds
 *     evaluating  completed   scores: the round is complete and a stopping rule holds
 *     expanding   generating  next: the search selected the nodes of the next round
 *     expanding   completed   next: it selected none
 *     generating  error       error
 *     evaluating  error       error
 *     expanding   error       error
 *
 * Within a busy status: thoughts or scores of one slot while others are open, and a repair, which
 * asks again for a reply that could not be read.
 *
 * Nodes are numbered in order of creation, the root 0. Texts are with the caller (machine.h).
 */
#ifndef PONDER_CORE_TOT_H
#define PONDER_CORE_TOT_H

#include "core/frontier.h"
#include "core/machine.h"
#include "core/search.h"

enum { TOT_GENERATING = MACHINE_BUSY, TOT_EVALUATING, TOT_EXPANDING };
enum { TOT_CALL_GENERATE, TOT_CALL_EVALUATE };

/* What the frontier is ordered by. The first three are best-first searches by different keys: the
 * score; none, so that the oldest is first; the round, so that the newest is. They show their
 * frontier, and let a caller choose from it. TOT_SEARCH is any other search in its own order. */
enum { TOT_BEST_FIRST, TOT_BFS, TOT_DFS, TOT_SEARCH };
enum { TOT_BEST_SO_FAR, TOT_BEST_LEAF };

typedef enum TotReason {
    TOT_GOES_ON,
    TOT_THRESHOLD,
    TOT_MAX_NODES,
    TOT_MAX_DURATION,
    TOT_CONVERGED,
    TOT_MAX_DEPTH
} TotReason;

#define TOT_NONE UINT32_MAX

typedef struct TotOptions {
    SearchOptions search; /* expandable_only in the first three orders */
    uint32_t branching_factor, max_depth, min_depth, max_nodes;
    uint32_t convergence_window, max_parse_retries;
    uint8_t order, measure;
    bool stop_at_max_depth;
    double early_success_threshold, min_score_improvement;
    double max_duration_ms; /* infinite: none */
} TotOptions;

/* Node i is also the search's node i. */
typedef struct TotNode {
    double score;    /* NaN: the root */
    uint32_t parent; /* TOT_NONE: the root */
    uint32_t depth;
    uint32_t first_child, last_child, next_sibling; /* 0: none */
    uint32_t child_count;
} TotNode;

typedef enum TotPhase { TOT_SLOT_GENERATING, TOT_SLOT_EVALUATING, TOT_SLOT_DONE } TotPhase;

typedef struct TotSlot {
    uint32_t node, ticket;
    uint32_t retries; /* repairs asked for the reply that is awaited */
    TotPhase phase;
    uint32_t thought_count;
    double *scores; /* thought_count of them, once done */
    bool marked;    /* while a saved round is checked */
} TotSlot;

typedef struct Tot {
    Machine machine;
    TotOptions options;
    Search search;
    TotNode *nodes;
    uint32_t node_count;
    TotSlot *slots;
    uint32_t slot_count;
    uint32_t generating_count; /* slots whose thoughts are not in */
    uint32_t first_ticket;     /* of the slots; those before it are of earlier waves */
    bool grown;                /* the round's children have been made */
    bool has_wave;             /* the search has added tickets to the round */
    Frontier leaves; /* only for the best leaf's score: may list nodes that have children by now */
    IdList expansions;    /* TOT_SEARCH: how many children each slot has made, for tot_copy */
    uint32_t open_leaves; /* leaves above max_depth */
    uint32_t joins;       /* rounds that have grown */
    uint32_t new_from;    /* the first child of the round that has just been grown */
    uint32_t depth_reached;
    uint32_t answer;   /* the child that passed the threshold, else TOT_NONE */
    double best_score; /* of all nodes; NaN before the first */
    double *recent;    /* the measure of the last rounds: at most convergence_window of them */
    uint32_t recent_start, recent_end;
    size_t node_capacity, slot_capacity, recent_capacity;
    uint64_t generation_retries, evaluation_retries; /* in the whole run */
    bool loaded;                                     /* tot_load_end has been, or tot_plant */
} Tot;

extern const MachineKind tot_kind;

typedef enum TotOutcome {
    TOT_DONE,
    TOT_NO_MEMORY,
    TOT_REFUSED,
    TOT_OVER, /* nothing is left to expand */
    TOT_LIMIT /* max_iterations */
} TotOutcome;

/* For a struct that machine_init has begun and that is otherwise zero. False: no memory. */
bool tot_init(Tot *t, const TotOptions *options);
void tot_free(Tot *t);
TotOutcome tot_copy(Tot *to, const Tot *from);

/* The root, and the first round, whose slots are all for it; before machine_start, which opens the
 * call of the first slot. */
TotOutcome tot_plant(Tot *t);

/* The calls of the other slots: after machine_start. */
TotOutcome tot_open_rest(Tot *t);

/* The slot that an open call of this kind is about, if that is what the slot waits for; or NULL. */
TotSlot *tot_slot_of(const Tot *t, uint64_t number, uint32_t call_kind);

/* `count` thoughts are in (at most tot_width are used): closes the call and opens the one
 * for their scores, whose number goes to *next. */
TotOutcome tot_thoughts(Tot *t, uint64_t number, uint32_t count, uint64_t *next);

/* The reply could not be read: closes the call and opens another of its kind. TOT_REFUSED where
 * max_parse_retries are used up. */
TotOutcome tot_repair(Tot *t, uint64_t number, uint64_t *next);

/* Room for the scores of the slot of this call, which the caller fills in; NULL: no memory, or no
 * such call. Nothing is changed before tot_scored. */
double *tot_score_room(Tot *t, uint64_t number);

/* The scores are in: closes the call. */
void tot_scored(Tot *t, uint64_t number);
bool tot_round_complete(const Tot *t);

/* Makes the children of a complete round, as far as max_nodes allows, and records the measure. */
TotOutcome tot_grow(Tot *t);

/* Which stopping rule holds after tot_grow; with `budgets_only`, of max_nodes and max_duration. */
TotReason tot_verdict(Tot *t, double now, bool budgets_only);

/* How many thoughts a slot asks for. */
uint32_t tot_width(const Tot *t, const TotSlot *slot);

/* To expanding: the search learns of the new children. */
TotOutcome tot_join(Tot *t);

/* The next round: opens a slot and a call for each node that the search selects, and moves to
 * generating; or TOT_OVER, TOT_LIMIT. With `chosen`, takes those nodes; they must be on the
 * frontier, each once. */
TotOutcome tot_take(Tot *t, const uint32_t *chosen, uint32_t chosen_count);

/* Whether the order has a frontier to choose from. */
static inline bool tot_has_frontier(const Tot *t)
{
    return t->options.order != TOT_SEARCH;
}

/* The frontier, next first, into `ids`, which has room for tot_frontier_size; where there is none,
 * the leaves that may still be expanded, in order of creation. */
uint32_t tot_frontier_size(const Tot *t);
TotOutcome tot_list_frontier(const Tot *t, uint32_t *ids);

/* ---- which nodes are best (tot_rank.c) ---- */

static inline bool tot_is_leaf(const Tot *t, uint32_t node)
{
    return t->nodes[node].child_count == 0;
}

/* The leaf with the highest score; ties to the deeper, then the older. TOT_NONE before the first.
 */
uint32_t tot_best_leaf(const Tot *t);

/* What the run found: the answer that passed the threshold, else the best leaf. */
uint32_t tot_best(const Tot *t);

/* The first `k` leaves in that order, into `ids`, which has room for `k`. Returns how many. */
uint32_t tot_candidates(const Tot *t, uint32_t *ids, uint32_t k);

/* ---- a saved machine (tot_load.c) ---- */

/* Adds the next node, the root first. TOT_REFUSED: its parent is not there, or the children of one
 * node would not be together although it is expanded once. */
TotOutcome tot_load_node(Tot *t, uint32_t parent, double score);

/* Adds a slot to the round. `scores` is NULL unless it is done. */
TotOutcome tot_load_slot(Tot *t, const TotSlot *slot, const double *scores);

/* The frontier, next first; TOT_REFUSED where a node cannot be on it. */
TotOutcome tot_load_frontier(Tot *t, const uint32_t *ids, uint32_t count);
TotOutcome tot_load_recent(Tot *t, double measure);

/* TOT_SEARCH: how many children the next slot of an earlier round has made. */
TotOutcome tot_load_expansion(Tot *t, uint32_t children);

/* Whether slots and open calls (machine_restore) belong together; and what can be derived is. */
TotOutcome tot_load_end(Tot *t, uint32_t answer);

/* ---- shared by tot.c and tot_load.c: room, which tot_record and tot_add_node take for granted */

bool tot_reserve_recent(Tot *t);
void tot_record(Tot *t, double measure);
bool tot_reserve_nodes(Tot *t, uint32_t more);
bool tot_reserve_slots(Tot *t, uint32_t count);
void tot_add_node(Tot *t, uint32_t parent, double score);

/* ---- and the rounds of the search (tot_round.c) */

TotOutcome tot_begin_search(Tot *t);

/* Makes the children of a ticket in the search, as far as max_nodes allows; each is to be scored.
 */
SearchStatus tot_make_children(Tot *t, uint32_t ticket, uint32_t count);
void tot_tell_score(Tot *t, uint32_t id, double score);
TotOutcome tot_back_up(Tot *t);
TotOutcome tot_select(Tot *t);
TotOutcome tot_choose(Tot *t, const uint32_t *chosen, uint32_t count); /* in its place */
uint32_t tot_count_expanding(const Tot *t);                            /* tickets of the round */

#endif

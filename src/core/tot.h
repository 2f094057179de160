/*
 * tot.h -- Tree of Thoughts: the tree, its frontier, and the rounds that make it grow.
 *
 * After Yao et al. 2023, "Tree of Thoughts: Deliberate Problem Solving with Large Language Models".
 * A round takes up to `batch` nodes off the frontier, each in a slot. A slot asks for thoughts,
 * then for their scores; when every slot has its scores the round is complete, and thoughts become
 * children in the order of the slots, so that the order of replies has no part in the tree.
 *
 *     from        to          on
 *     idle        generating  start
 *     generating  evaluating  thoughts: no generation of the round is open any more
 *     evaluating  expanding   scores: the round is complete and no stopping rule holds
 *     evaluating  completed   scores: the round is complete and a stopping rule holds
 *     expanding   generating  next: the frontier gave the nodes of the next round
 *     expanding   completed   next: the frontier is empty
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

enum { TOT_GENERATING = MACHINE_BUSY, TOT_EVALUATING, TOT_EXPANDING };
enum { TOT_CALL_GENERATE, TOT_CALL_EVALUATE };
enum { TOT_BEST_FIRST, TOT_BFS, TOT_DFS };
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
    uint32_t branching_factor, max_depth, min_depth, max_nodes;
    uint32_t beam_width; /* 0: none */
    uint32_t convergence_window, max_parse_retries, batch;
    uint8_t traversal, measure;
    bool stop_at_max_depth;
    double early_success_threshold, min_score_improvement;
    double max_duration_ms; /* infinite: none */
} TotOptions;

typedef struct TotNode {
    double score;    /* NaN: the root */
    uint32_t parent; /* TOT_NONE: the root */
    uint32_t first_child, child_count;
    uint32_t depth;
    bool waiting; /* on the frontier */
} TotNode;

typedef enum TotPhase { TOT_SLOT_GENERATING, TOT_SLOT_EVALUATING, TOT_SLOT_DONE } TotPhase;

typedef struct TotSlot {
    uint32_t node;
    uint32_t retries; /* repairs asked for the reply that is awaited */
    TotPhase phase;
    uint32_t thought_count;
    double *scores; /* thought_count of them, once done */
    bool marked;    /* while a saved round is checked */
} TotSlot;

typedef struct Tot {
    Machine machine;
    TotOptions options;
    TotNode *nodes;
    uint32_t node_count;
    TotSlot *slots;
    uint32_t slot_count;
    uint32_t generating_count; /* slots whose thoughts are not in */
    bool grown;                /* the round's children have been made */
    Frontier waiting; /* next first; may list nodes that a beam dropped or a caller chose */
    Frontier worst;   /* only with a beam: the same nodes, worst first */
    Frontier leaves;  /* only for the best leaf's score: may list nodes that have children by now */
    uint32_t waiting_count;
    uint32_t joins;    /* rounds whose children joined the frontier: later ones first in dfs */
    uint32_t new_from; /* the first child of the round that has just been grown */
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

typedef enum TotOutcome { TOT_DONE, TOT_NO_MEMORY, TOT_REFUSED } TotOutcome;

/* For a struct that machine_init has begun and that is otherwise zero. */
void tot_init(Tot *t, const TotOptions *options);
void tot_free(Tot *t);
TotOutcome tot_copy(Tot *to, const Tot *from);

/* The root, and a first round of one slot for it; before machine_start. */
TotOutcome tot_plant(Tot *t);

/* The slot that an open call of this kind is about, if that is what the slot waits for; or NULL. */
TotSlot *tot_slot_of(const Tot *t, uint64_t number, uint32_t call_kind);

/* `count` thoughts are in (at most branching_factor are taken): closes the call and opens the one
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

/* To expanding: the new children join the frontier. */
TotOutcome tot_join(Tot *t);

/* The next round: takes up to `batch` nodes off the frontier, opens a call for each slot, and moves
 * to generating. With `chosen`, takes those nodes; they must be on the frontier, each once. */
TotOutcome tot_take(Tot *t, const uint32_t *chosen, uint32_t chosen_count);

/* The frontier, next first, into `ids`, which has room for waiting_count. */
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
 * node would not be together. */
TotOutcome tot_load_node(Tot *t, uint32_t parent, double score);

/* Adds a slot to the round. `scores` is NULL unless it is done. */
TotOutcome tot_load_slot(Tot *t, const TotSlot *slot, const double *scores);

/* Puts a node at the end of the frontier; TOT_REFUSED where it cannot stand there. */
TotOutcome tot_load_frontier(Tot *t, const uint32_t *ids, uint32_t count);
TotOutcome tot_load_recent(Tot *t, double measure);

/* Whether slots and open calls (machine_restore) belong together; and what can be derived is. */
TotOutcome tot_load_end(Tot *t, uint32_t answer);

/* ---- shared by tot.c and tot_load.c: room, which tot_record takes for granted ---- */

bool tot_reserve_recent(Tot *t);
void tot_record(Tot *t, double measure);
bool tot_reserve_nodes(Tot *t, uint32_t more);
bool tot_reserve_slots(Tot *t, uint32_t count);

#endif

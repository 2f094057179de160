/*
 * got.h -- Graph of Thoughts: what the machine asks for next, and which thoughts it keeps.
 *
 * Thoughts are generated, scored, linked, and merged into one, which is then refined; a graph
 * records how they were made. After "Graph of Thoughts: Solving Elaborate Problems with Large
 * Language Models" (Besta et al. 2023); chain mode follows recordings of the jido_ai machine.
 * The caller keeps texts and ids (core/machine.h); here a thought is a node of the graph.
 *
 * The default run. Each line is one step; calls of a step are open at the same time.
 *
 *     step          asks for                              when all replies have arrived
 *     generating    branching_factor thoughts about the   they become nodes, in the order asked,
 *                   current node, fewer near max_nodes    except empty ones
 *     scoring       one scoring call for the new nodes    each has its score, or none
 *     connecting    one call for links between nodes      new links become edges
 *                   -- enough nodes? aggregate; else the next round, from the best unexpanded one
 *     aggregating   one text (or `votes` votes) from      the aggregate becomes a node
 *                   the best leaves
 *     scoring       the aggregate
 *     refining      an improvement of the result          it becomes a node
 *     scoring       the improvement                       it becomes the result if it is better
 *                   -- the last two repeat refine_rounds times
 *
 * Options may turn steps off. An unscored thought ranks as GOT_NEUTRAL; of equals the older is
 * better. What ends a run:
 *
 *     success     the aggregate and its refinements are done, or the aggregate was empty: then the
 *                 best thought is the result
 *     max_nodes   the next step would need a node beyond the limit
 *     max_depth   every thought that the next round could expand is too deep
 *     error       a call failed, or the first round had no thoughts
 *
 * A later round without thoughts leads straight to the aggregation.
 *
 * Chain mode: one thought at a time, links count as edges, nothing is scored. After a thought, the
 * first condition that holds decides:
 *
 *     max_nodes nodes, or it is at max_depth           the run ends with it
 *     enough nodes, and two thoughts were requested    aggregate the oldest leaves, then end
 *     an even number of thoughts was requested         connect, then generate from the first leaf
 *     otherwise                                        generate from it
 */
#ifndef PONDER_CORE_GOT_H
#define PONDER_CORE_GOT_H

#include "core/frontier.h"
#include "core/graph.h"
#include "core/machine.h"

#define GOT_NEUTRAL 0.5

enum {
    GOT_GENERATING = MACHINE_BUSY,
    GOT_SCORING,
    GOT_CONNECTING,
    GOT_AGGREGATING,
    GOT_REFINING,
};

/* What a call asks for, in the order of the names in got_kind.calls. */
typedef enum GotAsk {
    GOT_GENERATE,  /* subject: its index in the round */
    GOT_SCORE,     /* of `pending`; subject: its first node */
    GOT_CONNECT,   /* subject: the node of the round */
    GOT_AGGREGATE, /* of `pending`; subject: its first node */
    GOT_VOTE,      /* among `pending`; subject: the index of the vote */
    GOT_REFINE,    /* subject: the node to improve */
} GotAsk;

typedef enum GotStrategy { GOT_SYNTHESIS, GOT_VOTING, GOT_WEIGHTED } GotStrategy;

typedef enum GotReason {
    GOT_NO_REASON,
    GOT_SUCCESS,
    GOT_MAX_NODES,
    GOT_MAX_DEPTH,
    GOT_FAILED
} GotReason;

typedef struct GotOptions {
    uint32_t max_nodes, max_depth, branching_factor;
    uint32_t max_aggregated, votes, refine_rounds;
    GotStrategy strategy;
    bool score_thoughts, connect, chain;
} GotOptions;

/* What follows from a reply. */
typedef enum GotStep {
    GOT_WAIT,  /* other calls of this step are still open */
    GOT_ASKED, /* all open calls are new */
    GOT_DONE,  /* the run is over, for `reason`: the caller finishes the machine */
    GOT_NO_MEMORY
} GotStep;

typedef struct GotPending {
    uint32_t node;
    uint32_t votes;
} GotPending;

typedef struct Got {
    Machine machine; /* must be first: src/api casts a Got to a Machine */
    GotOptions options;
    Graph graph;
    uint32_t current;
    uint32_t result;     /* the aggregate or its best refinement; finally, the answer */
    GotPending *pending; /* the nodes being scored or aggregated */
    uint32_t pending_count;
    size_t pending_capacity;
    Frontier unexpanded;  /* candidates for expansion, best first; may list expanded nodes */
    uint32_t seen;        /* nodes considered for it so far; not part of the saved state */
    uint32_t thoughts_in; /* usable thoughts of this round so far */
    uint32_t generation_count;
    uint32_t refinements;
    uint32_t winner;  /* of the vote, once complete */
    GotReason reason; /* why got_... last returned GOT_DONE */
} Got;

extern const MachineKind got_kind;

/* Call it after machine_init; the rest of `got` must be zero. */
void got_init(Got *got, const GotOptions *options);
void got_free(Got *got);

/* Copies all but the Machine to `to`, fresh from got_init with the same options. False: no memory.
 */
bool got_copy(Got *to, const Got *from);

/* Adds the root and opens the rest of the first round's calls. Call it after machine_start to
 * GOT_GENERATING, with call 0 open for GOT_GENERATE, subject 0. */
GotStep got_begin(Got *got);

/* Replies, whose calls the caller has closed. `usable` is false for an empty text, which is a
 * thought only in chain mode. New nodes are the newest of the graph; those of a round are made when
 * its last thought arrives. `min_nodes` is the current min_nodes_for_aggregation. */
GotStep got_thought(Got *got, bool usable, uint32_t min_nodes);
GotStep got_scored(Got *got, uint32_t min_nodes); /* after scores were set on `pending` */
GotStep got_unscored(Got *got); /* asks again unless all of `pending` have scores: GOT_WAIT */
GotStep got_connected(Got *got, uint32_t min_nodes);
GotStep got_aggregated(Got *got, bool usable);
GotStep got_voted(Got *got, uint32_t node); /* an invalid vote is not among `pending` */
GotStep got_refined(Got *got, bool usable);

/* Makes the `count` nodes from `first` on pending. False: no memory. */
bool got_set_pending(Got *got, uint32_t first, uint32_t count);

/* Checks a restored state: NULL, or the name of the inconsistent field. */
const char *got_incoherence(const Got *got);

/* The score by which thoughts are compared. */
double got_rank(const Got *got, uint32_t node);

#endif

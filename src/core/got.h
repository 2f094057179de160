/*
 * got.h -- Graph of Thoughts: what the machine asks for next, and which thoughts it keeps.
 *
 * Thoughts are generated, scored, linked, and merged into one that is then improved; the graph of
 * how they came about is kept. After "Graph of Thoughts: Solving Elaborate Problems with Large
 * Language Models" (Besta et al. 2023); chain mode is the published jido_ai machine as recorded.
 * Texts and ids are the caller's (core/machine.h); here a thought is a node of the graph.
 *
 * The default run. Each line is one step; calls of a step are open at the same time.
 *
 *     step          asks for                              when all replies are in
 *     generating    branching_factor thoughts about the   they become nodes, in the order asked;
 *                   current node, fewer near max_nodes    an empty one does not
 *     scoring       one scoring call for the new nodes    each has its score, or none
 *     connecting    one call for links between nodes      new links become edges
 *                   -- enough nodes? aggregate; else the next round, from the best unexpanded one
 *     aggregating   one text (or `votes` votes) from      the aggregate becomes a node
 *                   the best leaves
 *     scoring       the aggregate
 *     refining      an improvement of the result so far   it becomes a node
 *     scoring       the improvement                       it is the result if it is better
 *                   -- refine_rounds times the last two
 *
 * Steps that the options turn off are passed over. A thought without a score ranks as if it had
 * GOT_NEUTRAL; of equals the older is better. What ends a run:
 *
 *     success     the aggregate and its refinements are done; also when an aggregate came back
 *                 empty: the best thought is the result then
 *     max_nodes   the next step would need a node beyond the limit
 *     max_depth   a next round is due and every thought that could be expanded lies too deep
 *     error       a call failed, or the first round brought no thought at all
 *
 * A round that brings nothing though there are thoughts goes on to the aggregation at once.
 *
 * Chain mode: one thought at a time, links count as edges, nothing is scored. After a thought, the
 * first that holds:
 *
 *     max_nodes nodes, or it lies at max_depth         the run ends with it
 *     enough nodes, and two thoughts were asked for    aggregate the oldest leaves, and end
 *     an even number of thoughts was asked for         connect, then generate from the first leaf
 *     else                                             generate from it
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
    GOT_GENERATE,  /* subject: the place in the round, 0 first */
    GOT_SCORE,     /* of `pending`; subject: its first node */
    GOT_CONNECT,   /* subject: the node of the round */
    GOT_AGGREGATE, /* of `pending`; subject: its first node */
    GOT_VOTE,      /* among `pending`; subject: the number of the vote, 0 first */
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

/* What a reply led to. */
typedef enum GotStep {
    GOT_WAIT,  /* other calls of this step are still open */
    GOT_ASKED, /* the calls that are open now are new */
    GOT_DONE,  /* the run is over: the caller finishes the machine; `reason` says why */
    GOT_NO_MEMORY
} GotStep;

typedef struct GotPending {
    uint32_t node;
    uint32_t votes;
    double rank;
} GotPending;

typedef struct Got {
    Machine machine; /* first: src/api takes a Got for a Machine */
    GotOptions options;
    Graph graph;
    uint32_t current;
    uint32_t result;     /* the aggregate or its best refinement; at the end, the answer */
    GotPending *pending; /* the nodes that are scored or aggregated */
    uint32_t pending_count;
    size_t pending_room;
    Frontier unexpanded;  /* thoughts that may be, or have been, expanded: best first */
    uint32_t seen;        /* how many nodes were considered for it; no part of the state */
    uint32_t thoughts_in; /* thoughts of this round that came in and are not empty */
    uint32_t generation_count;
    uint32_t refinements;
    uint32_t winner;  /* of the vote, once all votes are in */
    GotReason reason; /* why got_... last returned GOT_DONE */
} Got;

extern const MachineKind got_kind;

void got_init(Got *got, const Alloc *alloc);
void got_free(Got *got);
bool got_copy(Got *to, const Got *from);

/* Before the first node is added. */
void got_configure(Got *got, const GotOptions *options);

/*
 * A machine that just started (machine_start, to GOT_GENERATING, with call 0 open for GOT_GENERATE,
 * subject 0) gets its root, and asks for the rest of the first round.
 */
GotStep got_begin(Got *got);

/*
 * Replies. The caller has closed the call. `usable` is false where the text was empty; chain mode
 * takes that as a thought all the same. A node that is made is the newest of the graph; of a round,
 * all nodes are made when its last thought is in.
 * `min_nodes` is min_nodes_for_aggregation as it holds now.
 */
GotStep got_thought(Got *got, bool usable, uint32_t min_nodes);
GotStep got_scored(Got *got, uint32_t min_nodes); /* after scores were set on `pending` */
GotStep got_unscored(Got *got); /* asks again, unless each of `pending` has one: GOT_WAIT */
GotStep got_connected(Got *got, uint32_t min_nodes);
GotStep got_aggregated(Got *got, bool usable);
GotStep got_voted(Got *got, uint32_t node); /* GRAPH_NONE, or not a candidate: invalid */
GotStep got_refined(Got *got, bool usable);

/* Adds a link unless it leads to itself or is there already. False: no memory. */
bool got_link(Got *got, uint32_t from, uint32_t to, bool *added);

/* Makes `count` nodes pending, from `first` on. False: no memory. */
bool got_set_pending(Got *got, uint32_t first, uint32_t count);

/* Do status, open calls, pending nodes and the rest, as they were restored, make a state that a run
 * can be in? NULL, or the name of what is wrong. */
const char *got_incoherence(const Got *got);

/* The score that counts where thoughts are compared. */
double got_rank(const Got *got, uint32_t node);

#endif

/*
 * graph.h -- a directed graph of thoughts: nodes, typed edges, and the questions asked of them.
 *
 * Nodes and edges are named by their place in order of creation, 0 first; nothing is ever removed.
 * Ids and texts stay with the caller, beside the places. Edges may repeat, point back or loop:
 * every function ends on any graph, without recursion, in time linear in nodes and edges.
 *
 * An edge of type GRAPH_CONNECTS is a link: it says that two thoughts have to do with each other.
 * The other types are lineage: the later thought was made from the earlier one. Only lineage makes
 * a parent on a path, or a leaf no leaf, unless the graph was told that links count as well.
 */
#ifndef PONDER_CORE_GRAPH_H
#define PONDER_CORE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/vec.h"

#define GRAPH_NONE UINT32_MAX

typedef enum GraphEdgeType {
    GRAPH_GENERATES,
    GRAPH_REFINES,
    GRAPH_AGGREGATES,
    GRAPH_CONNECTS,
    GRAPH_EDGE_TYPES
} GraphEdgeType;

typedef enum GraphWay { GRAPH_OUT, GRAPH_IN, GRAPH_WAYS } GraphWay;

typedef struct GraphNode {
    double score; /* NaN: not scored */
    uint32_t depth;
    uint32_t newest[GRAPH_WAYS]; /* head of the list of edges out of, and into, this node */
    uint32_t degree[GRAPH_WAYS];
    uint32_t lineage_out;
    uint32_t parent; /* where the newest edge of lineage comes from */
    uint32_t mark;   /* == Graph.epoch: met by the walk under way */
} GraphNode;

typedef struct GraphEdge {
    uint32_t
        end[GRAPH_WAYS]; /* end[GRAPH_OUT] is where it leaves, end[GRAPH_IN] where it arrives */
    uint32_t older[GRAPH_WAYS];
    GraphEdgeType type;
} GraphEdge;

typedef struct Graph {
    Alloc alloc;
    GraphNode *nodes;
    GraphEdge *edges;
    uint32_t node_count, edge_count;
    size_t node_room, edge_room;
    uint32_t *links; /* hash table by open addressing: places of links, or GRAPH_NONE */
    uint32_t link_count, link_room;
    uint32_t root; /* where paths begin: the first node, unless the caller says otherwise */
    uint32_t epoch;
    uint32_t first_leaf; /* no node before it is a leaf; leaves never come back, so it only grows */
    bool links_count;
} Graph;

void graph_init(Graph *g, const Alloc *alloc, bool links_count);
void graph_free(Graph *g);

/* Makes `dst`, freshly initialised, equal to `src`. False: no memory; `dst` is still to be freed.
 */
bool graph_copy(Graph *dst, const Graph *src);

/* Room for that many more, so that adding them cannot fail. False: no memory. */
bool graph_reserve(Graph *g, uint32_t more_nodes, uint32_t more_edges);

/* GRAPH_NONE: no memory. */
uint32_t graph_add_node(Graph *g, double score, uint32_t depth);

/* False: no memory. Both ends must exist. */
bool graph_add_edge(Graph *g, uint32_t from, uint32_t to, GraphEdgeType type);

bool graph_has_link(const Graph *g, uint32_t from, uint32_t to);
bool graph_is_scored(const Graph *g, uint32_t node);
bool graph_is_leaf(const Graph *g, uint32_t node);

/* The first leaf at or after `from`, in order of creation, or GRAPH_NONE. */
uint32_t graph_next_leaf(Graph *g, uint32_t from);

/* The scored leaf with the highest score, the older of equals, or GRAPH_NONE. */
uint32_t graph_best_leaf(Graph *g);

/* Nodes on the way from `node` up its parents, as far as the root, or one that has no parent, or
 * the last that was not met before. */
uint32_t graph_path_length(Graph *g, uint32_t node);

/*
 * Nodes that can be reached from `node` over edges in direction `way`, without itself, in order of
 * creation, into `found`, which must hold node_count entries. Gives their number.
 */
uint32_t graph_reach(Graph *g, uint32_t node, GraphWay way, uint32_t *found);

/* `work` must hold 2 * node_count entries. All edges count, links too. */
bool graph_has_cycle(const Graph *g, uint32_t *work);

#endif

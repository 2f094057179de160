/*
 * graph.h -- a directed graph of thoughts: nodes, typed edges, and queries.
 *
 * Nodes and edges are indexes in order of creation; nothing is ever removed. Ids and texts stay
 * with the caller. Edges may repeat, point back or form loops: every function terminates on any
 * graph, without recursion, in time linear in nodes and edges.
 *
 * An edge of type GRAPH_CONNECTS is a link: two thoughts are related. The other types are lineage:
 * the later thought was made from the earlier one. Only lineage edges define parents and leaves,
 * unless the graph was initialized with links_count.
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

typedef enum GraphDirection { GRAPH_OUT, GRAPH_IN, GRAPH_DIRECTIONS } GraphDirection;

typedef struct GraphNode {
    double score; /* NaN: not scored */
    uint32_t depth;
    uint32_t newest[GRAPH_DIRECTIONS]; /* heads of the lists of edges out of and into the node */
    uint32_t degree[GRAPH_DIRECTIONS];
    uint32_t lineage_out;
    uint32_t parent; /* where the newest lineage edge comes from */
    uint32_t mark;   /* == Graph.epoch: visited by the current walk */
} GraphNode;

typedef struct GraphEdge {
    uint32_t end[GRAPH_DIRECTIONS]; /* GRAPH_OUT: the node it leaves; GRAPH_IN: the one it enters */
    uint32_t older[GRAPH_DIRECTIONS]; /* the next edges of those nodes' lists */
    GraphEdgeType type;
} GraphEdge;

typedef struct Graph {
    Alloc alloc;
    GraphNode *nodes;
    GraphEdge *edges;
    uint32_t node_count, edge_count;
    size_t node_capacity, edge_capacity;
    uint32_t root; /* where paths begin: the first node, unless the caller changes it */
    uint32_t epoch;
    uint32_t first_leaf; /* no node before it is a leaf; only grows */
    bool links_count;
} Graph;

void graph_init(Graph *g, const Alloc *alloc, bool links_count);
void graph_free(Graph *g);

/* Makes `dst`, freshly initialized, equal to `src`. False: no memory. */
bool graph_copy(Graph *dst, const Graph *src);

/* Reserves room, so that adding as many cannot fail. False: no memory. */
bool graph_reserve(Graph *g, uint32_t more_nodes, uint32_t more_edges);

/* GRAPH_NONE: no memory. */
uint32_t graph_add_node(Graph *g, double score, uint32_t depth);

/* False: no memory. Both ends must exist. */
bool graph_add_edge(Graph *g, uint32_t from, uint32_t to, GraphEdgeType type);

bool graph_is_scored(const Graph *g, uint32_t node);
bool graph_is_leaf(const Graph *g, uint32_t node);

/* The first leaf at or after `from`, in order of creation, or GRAPH_NONE. */
uint32_t graph_next_leaf(Graph *g, uint32_t from);

/* The number of nodes from `node` up to the root, to a node without a parent, or to a repetition.
 */
uint32_t graph_path_length(Graph *g, uint32_t node);

/* Writes the nodes reachable from `node` in that direction, except itself, in order of creation, to
 * `found`, which must hold node_count entries. Returns their number. */
uint32_t graph_reach(Graph *g, uint32_t node, GraphDirection direction, uint32_t *found);

/* Counts all edges, links too. `work` must hold 2 * node_count entries. */
bool graph_has_cycle(const Graph *g, uint32_t *work);

#endif

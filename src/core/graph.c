/* graph.c -- see graph.h. */
#include "core/graph.h"

#include <math.h>
#include <string.h>

#define MAX_CAPACITY (UINT32_MAX / 4)

void graph_init(Graph *g, const Alloc *alloc, bool links_count)
{
    memset(g, 0, sizeof *g);
    g->alloc = *alloc;
    g->root = GRAPH_NONE;
    g->links_count = links_count;
}

void graph_free(Graph *g)
{
    alloc_free(&g->alloc, g->nodes, g->node_capacity * sizeof *g->nodes);
    alloc_free(&g->alloc, g->edges, g->edge_capacity * sizeof *g->edges);
    Alloc alloc = g->alloc;
    graph_init(g, &alloc, g->links_count);
}

/*
 * Growing
 */

bool graph_reserve(Graph *g, uint32_t more_nodes, uint32_t more_edges)
{
    return more_nodes <= MAX_CAPACITY - g->node_count &&
           more_edges <= MAX_CAPACITY - g->edge_count &&
           array_reserve(g->nodes, g->node_count, g->node_capacity, &g->alloc, more_nodes) &&
           array_reserve(g->edges, g->edge_count, g->edge_capacity, &g->alloc, more_edges);
}

uint32_t graph_add_node(Graph *g, double score, uint32_t depth)
{
    if (!graph_reserve(g, 1, 0))
        return GRAPH_NONE;
    g->nodes[g->node_count] = (GraphNode){
        .score = score, .depth = depth, .newest = {GRAPH_NONE, GRAPH_NONE}, .parent = GRAPH_NONE};
    if (g->root == GRAPH_NONE)
        g->root = g->node_count;
    return g->node_count++;
}

static void attach_edge(Graph *g, uint32_t index, GraphDirection direction)
{
    GraphEdge *e = &g->edges[index];
    GraphNode *n = &g->nodes[e->end[direction]];
    e->older[direction] = n->newest[direction];
    n->newest[direction] = index;
    n->degree[direction]++;
}

bool graph_add_edge(Graph *g, uint32_t from, uint32_t to, GraphEdgeType type)
{
    if (!graph_reserve(g, 0, 1))
        return false;
    uint32_t index = g->edge_count++;
    g->edges[index] = (GraphEdge){.end = {from, to}, .type = type};
    attach_edge(g, index, GRAPH_OUT);
    attach_edge(g, index, GRAPH_IN);
    if (type != GRAPH_CONNECTS || g->links_count) {
        g->nodes[from].lineage_out++;
        g->nodes[to].parent = from;
    }
    return true;
}

bool graph_copy(Graph *dst, const Graph *src)
{
    Alloc alloc = dst->alloc;
    *dst = *src;
    dst->alloc = alloc;
    dst->nodes = alloc_copy(&alloc, src->nodes, src->node_capacity * sizeof *src->nodes);
    dst->edges = alloc_copy(&alloc, src->edges, src->edge_capacity * sizeof *src->edges);
    bool ok = (dst->nodes != NULL || src->node_capacity == 0) &&
              (dst->edges != NULL || src->edge_capacity == 0);
    if (!ok)
        graph_free(dst);
    return ok;
}

/*
 * Questions
 */

bool graph_is_scored(const Graph *g, uint32_t node)
{
    return !isnan(g->nodes[node].score);
}

bool graph_is_leaf(const Graph *g, uint32_t node)
{
    return g->nodes[node].lineage_out == 0;
}

uint32_t graph_next_leaf(Graph *g, uint32_t from)
{
    while (g->first_leaf < g->node_count && !graph_is_leaf(g, g->first_leaf))
        g->first_leaf++;
    if (from < g->first_leaf)
        from = g->first_leaf;
    while (from < g->node_count && !graph_is_leaf(g, from))
        from++;
    return from < g->node_count ? from : GRAPH_NONE;
}

/* Unmarks every node. */
static void begin_walk(Graph *g)
{
    if (++g->epoch == 0) {
        for (uint32_t i = 0; i < g->node_count; i++)
            g->nodes[i].mark = 0;
        g->epoch = 1;
    }
}

uint32_t graph_path_length(Graph *g, uint32_t node)
{
    uint32_t length = 0;
    begin_walk(g);
    while (node != GRAPH_NONE && g->nodes[node].mark != g->epoch) {
        g->nodes[node].mark = g->epoch;
        node = node == g->root ? GRAPH_NONE : g->nodes[node].parent;
        length++;
    }
    return length;
}

uint32_t graph_reach(Graph *g, uint32_t node, GraphDirection direction, uint32_t *found)
{
    GraphDirection far = direction == GRAPH_OUT ? GRAPH_IN : GRAPH_OUT;
    uint32_t head = 0, tail = 0;
    begin_walk(g);
    g->nodes[node].mark = g->epoch;
    for (uint32_t at = node;; at = found[head++]) {
        for (uint32_t e = g->nodes[at].newest[direction]; e != GRAPH_NONE;
             e = g->edges[e].older[direction]) {
            uint32_t next = g->edges[e].end[far];
            if (g->nodes[next].mark != g->epoch) {
                g->nodes[next].mark = g->epoch;
                found[tail++] = next;
            }
        }
        if (head == tail)
            break;
    }
    /* The queue has been read: overwrite it with the same nodes, in order. */
    uint32_t count = 0;
    for (uint32_t i = 0; count < tail; i++)
        if (i != node && g->nodes[i].mark == g->epoch)
            found[count++] = i;
    return count;
}

/* Removes nodes without incoming edges (Kahn 1962): if any remain, there is a cycle. */
bool graph_has_cycle(const Graph *g, uint32_t *work)
{
    uint32_t *waiting = work, *queue = work + g->node_count;
    uint32_t head = 0, tail = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        waiting[i] = g->nodes[i].degree[GRAPH_IN];
        if (waiting[i] == 0)
            queue[tail++] = i;
    }
    while (head < tail) {
        const GraphNode *n = &g->nodes[queue[head++]];
        for (uint32_t e = n->newest[GRAPH_OUT]; e != GRAPH_NONE; e = g->edges[e].older[GRAPH_OUT])
            if (--waiting[g->edges[e].end[GRAPH_IN]] == 0)
                queue[tail++] = g->edges[e].end[GRAPH_IN];
    }
    return tail < g->node_count;
}

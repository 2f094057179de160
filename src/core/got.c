/* got.c -- see got.h. */
#include "core/got.h"

#include <assert.h>
#include <math.h>

#define CHAIN_AGGREGATE_SCORE 1.0

static const char *const statuses[] = {
    "idle",       "completed",   "error",    "generating", "scoring",
    "connecting", "aggregating", "refining", NULL,
};

static const char *const calls[] = {
    "generate_thought", "score_thoughts", "find_connections", "aggregate", "vote", "refine", NULL,
};

static const MachineMove moves[] = {
    {MACHINE_IDLE, GOT_GENERATING, "start"},
    {GOT_GENERATING, GOT_SCORING, "thoughts"},
    {GOT_GENERATING, GOT_CONNECTING, "thoughts"},
    {GOT_GENERATING, GOT_AGGREGATING, "thoughts"},
    {GOT_GENERATING, MACHINE_COMPLETED, "thoughts"},
    {GOT_SCORING, GOT_GENERATING, "scores"},
    {GOT_SCORING, GOT_CONNECTING, "scores"},
    {GOT_SCORING, GOT_AGGREGATING, "scores"},
    {GOT_SCORING, GOT_REFINING, "scores"},
    {GOT_SCORING, MACHINE_COMPLETED, "scores"},
    {GOT_CONNECTING, GOT_GENERATING, "connections"},
    {GOT_CONNECTING, GOT_AGGREGATING, "connections"},
    {GOT_CONNECTING, MACHINE_COMPLETED, "connections"},
    {GOT_AGGREGATING, GOT_SCORING, "aggregate"},
    {GOT_AGGREGATING, GOT_REFINING, "aggregate"},
    {GOT_AGGREGATING, MACHINE_COMPLETED, "aggregate"},
    {GOT_REFINING, GOT_SCORING, "refinement"},
    {GOT_REFINING, MACHINE_COMPLETED, "refinement"},
    {GOT_GENERATING, MACHINE_ERROR, "error"},
    {GOT_SCORING, MACHINE_ERROR, "error"},
    {GOT_CONNECTING, MACHINE_ERROR, "error"},
    {GOT_AGGREGATING, MACHINE_ERROR, "error"},
    {GOT_REFINING, MACHINE_ERROR, "error"},
};

const MachineKind got_kind = {"got", statuses, calls, moves, sizeof moves / sizeof moves[0]};

void got_init(Got *got, const GotOptions *options)
{
    got->options = *options;
    graph_init(&got->graph, &got->machine.alloc, options->chain);
    got->current = got->result = got->winner = GRAPH_NONE;
}

void got_free(Got *got)
{
    alloc_free(&got->machine.alloc, got->pending, got->pending_capacity * sizeof *got->pending);
    got->pending = NULL;
    got->pending_count = got->pending_capacity = 0;
    vec_free(&got->unexpanded, &got->machine.alloc);
    graph_free(&got->graph);
    machine_free(&got->machine);
}

bool got_copy(Got *to, const Got *from)
{
    to->current = from->current;
    to->result = from->result;
    to->winner = from->winner;
    to->thoughts_in = from->thoughts_in;
    to->generation_count = from->generation_count;
    to->refinements = from->refinements;
    to->reason = from->reason;
    if (!graph_copy(&to->graph, &from->graph) || !got_set_pending(to, 0, from->pending_count))
        return false;
    for (uint32_t i = 0; i < from->pending_count; i++)
        to->pending[i] = from->pending[i];
    return true;
}

bool got_set_pending(Got *got, uint32_t first, uint32_t count)
{
    if (!array_reserve(got->pending, 0, got->pending_capacity, &got->machine.alloc, count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        got->pending[i] = (GotPending){.node = first + i};
    got->pending_count = count;
    return true;
}

double got_rank(const Got *got, uint32_t node)
{
    return graph_is_scored(&got->graph, node) ? got->graph.nodes[node].score : GOT_NEUTRAL;
}

/* ---- steps: each moves to its status and opens its calls ---- */

static GotStep finish(Got *got, GotReason reason, uint32_t result)
{
    got->reason = reason;
    got->result = result;
    if (!got->options.chain)
        got->pending_count = 0;
    return GOT_DONE;
}

/* Opens `count` calls with the subjects `first`, first + 1... */
static GotStep ask_many(Got *got, uint8_t status, GotAsk kind, uint32_t first, uint32_t count)
{
    if (!machine_reserve(&got->machine, count))
        return GOT_NO_MEMORY;
    bool moved = machine_move(&got->machine, status);
    assert(moved);
    (void)moved;
    for (uint32_t i = 0; i < count; i++)
        machine_open(&got->machine, kind, first + i);
    return GOT_ASKED;
}

static GotStep ask(Got *got, uint8_t status, GotAsk kind, uint32_t subject)
{
    return ask_many(got, status, kind, subject, 1);
}

static uint32_t nodes_left(const Got *got)
{
    uint32_t count = got->graph.node_count, max = got->options.max_nodes;
    return count < max ? max - count : 0;
}

static uint32_t round_size(const Got *got)
{
    uint32_t left = nodes_left(got), wanted = got->options.branching_factor;
    return got->options.chain ? 1 : left < wanted ? left : wanted;
}

static GotStep ask_round(Got *got, uint32_t from)
{
    uint32_t count = round_size(got);
    got->current = from;
    got->thoughts_in = 0;
    got->pending_count = 0;
    got->generation_count += count;
    return ask_many(got, GOT_GENERATING, GOT_GENERATE, 0, count);
}

static GotStep ask_scores(Got *got, uint32_t first, uint32_t count)
{
    if (!got_set_pending(got, first, count))
        return GOT_NO_MEMORY;
    return ask(got, GOT_SCORING, GOT_SCORE, first);
}

/* ---- choosing nodes ---- */

/* The better of two thoughts by rank; `a` is the older, or GRAPH_NONE. */
static uint32_t better(const Got *got, uint32_t a, uint32_t b)
{
    return a == GRAPH_NONE || got_rank(got, b) > got_rank(got, a) ? b : a;
}

/* The result of a run that is cut short. */
static uint32_t best_so_far(Got *got)
{
    uint32_t best = GRAPH_NONE;
    if (got->result != GRAPH_NONE)
        return got->result;
    for (uint32_t i = 0; i < got->graph.node_count; i++)
        if (i != got->graph.root)
            best = better(got, best, i);
    return best == GRAPH_NONE ? got->graph.root : best;
}

/* The best leaf above max_depth, or GRAPH_NONE. All scores must be final. False: no memory. */
static bool best_unexpanded(Got *got, uint32_t *best)
{
    Graph *g = &got->graph;
    Frontier *f = &got->unexpanded;
    if (!vec_reserve(f, &got->machine.alloc, g->node_count - got->seen))
        return false;
    for (; got->seen < g->node_count; got->seen++)
        if (got->seen != g->root && g->nodes[got->seen].depth < got->options.max_depth)
            frontier_push(f, (FrontierEntry){got_rank(got, got->seen), got->seen});
    while (f->count > 0 && !graph_is_leaf(g, f->items[0].id))
        frontier_pop(f);
    *best = f->count > 0 ? f->items[0].id : GRAPH_NONE;
    return true;
}

/* Makes the leaves to aggregate `pending`: the best, or in chain mode the oldest. */
static bool choose_sources(Got *got)
{
    Graph *g = &got->graph;
    const Alloc *alloc = &got->machine.alloc;
    bool chain = got->options.chain;
    Frontier leaves = {0};
    if (!vec_reserve(&leaves, alloc, g->node_count))
        return false;
    for (uint32_t i = graph_next_leaf(g, 0); i != GRAPH_NONE; i = graph_next_leaf(g, i + 1))
        if (chain || i != g->root)
            frontier_push(&leaves, (FrontierEntry){chain ? 0 : got_rank(got, i), i});
    uint32_t limit = got->options.max_aggregated;
    uint32_t count = limit < leaves.count ? limit : (uint32_t)leaves.count;
    bool ok = got_set_pending(got, 0, count);
    for (uint32_t i = 0; i < count && ok; i++)
        got->pending[i].node = frontier_pop(&leaves).id;
    vec_free(&leaves, alloc);
    return ok;
}

static GotStep ask_aggregate(Got *got)
{
    if (!choose_sources(got))
        return GOT_NO_MEMORY;
    if (got->pending_count == 0) /* edges that the caller added left no leaf */
        return finish(got, GOT_SUCCESS, best_so_far(got));
    if (got->options.strategy == GOT_VOTING && !got->options.chain)
        return ask_many(got, GOT_AGGREGATING, GOT_VOTE, 0, got->options.votes);
    return ask(got, GOT_AGGREGATING, GOT_AGGREGATE, got->pending[0].node);
}

/* ---- chain mode ---- */

static GotStep chain_thought(Got *got, uint32_t node, uint32_t min_nodes)
{
    Graph *g = &got->graph;
    if (g->node_count >= got->options.max_nodes)
        return finish(got, GOT_MAX_NODES, node);
    if (g->nodes[node].depth >= got->options.max_depth)
        return finish(got, GOT_MAX_DEPTH, node);
    if (g->node_count >= min_nodes && got->generation_count >= 2)
        return ask_aggregate(got);
    if (got->generation_count % 2 != 0)
        return ask_round(got, node);
    got->current = node;
    return ask(got, GOT_CONNECTING, GOT_CONNECT, node);
}

static GotStep chain_connected(Got *got)
{
    uint32_t leaf = graph_next_leaf(&got->graph, 0);
    return ask_round(got, leaf == GRAPH_NONE ? got->current : leaf);
}

static GotStep chain_aggregated(Got *got)
{
    Graph *g = &got->graph;
    if (!graph_reserve(g, 1, got->pending_count))
        return GOT_NO_MEMORY;
    uint32_t node = graph_add_node(g, CHAIN_AGGREGATE_SCORE, got->options.max_depth);
    for (uint32_t i = 0; i < got->pending_count; i++)
        graph_add_edge(g, got->pending[i].node, node, GRAPH_AGGREGATES);
    return finish(got, GOT_SUCCESS, node);
}

/* ---- the default run ---- */

GotStep got_begin(Got *got)
{
    if (!graph_reserve(&got->graph, 1, 0))
        return GOT_NO_MEMORY;
    got->graph.root = got->current = graph_add_node(&got->graph, NAN, 0);
    uint32_t count = round_size(got);
    got->generation_count = count;
    if (count == 0)
        return finish(got, GOT_MAX_NODES, got->graph.root);
    return ask_many(got, GOT_GENERATING, GOT_GENERATE, 1, count - 1);
}

static GotStep after_links(Got *got, uint32_t min_nodes)
{
    if (nodes_left(got) == 0) /* the caller added nodes */
        return finish(got, GOT_MAX_NODES, best_so_far(got));
    if (got->graph.node_count >= min_nodes)
        return ask_aggregate(got);
    uint32_t next;
    if (!best_unexpanded(got, &next))
        return GOT_NO_MEMORY;
    return next == GRAPH_NONE ? finish(got, GOT_MAX_DEPTH, best_so_far(got)) : ask_round(got, next);
}

static GotStep after_scores(Got *got, uint32_t min_nodes)
{
    got->pending_count = 0;
    if (nodes_left(got) == 0)
        return finish(got, GOT_MAX_NODES, best_so_far(got));
    if (got->options.connect)
        return ask(got, GOT_CONNECTING, GOT_CONNECT, got->current);
    return after_links(got, min_nodes);
}

GotStep got_thought(Got *got, bool usable, uint32_t min_nodes)
{
    Graph *g = &got->graph;
    got->thoughts_in += usable || got->options.chain;
    if (got->machine.call_count > 0)
        return GOT_WAIT;
    uint32_t count = got->thoughts_in, first = g->node_count;
    if (!graph_reserve(g, count, count))
        return GOT_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = graph_add_node(g, NAN, g->nodes[got->current].depth + 1);
        graph_add_edge(g, got->current, node, GRAPH_GENERATES);
    }
    if (got->options.chain)
        return chain_thought(got, first, min_nodes);
    if (g->node_count == 1)
        return finish(got, GOT_FAILED, GRAPH_NONE);
    if (count == 0)
        return nodes_left(got) == 0 ? finish(got, GOT_MAX_NODES, best_so_far(got))
                                    : ask_aggregate(got);
    return got->options.score_thoughts ? ask_scores(got, first, count)
                                       : after_scores(got, min_nodes);
}

GotStep got_connected(Got *got, uint32_t min_nodes)
{
    return got->options.chain ? chain_connected(got) : after_links(got, min_nodes);
}

/* Asks for another refinement of the result, or ends. */
static GotStep refine_or_finish(Got *got)
{
    got->pending_count = 0;
    if (got->refinements >= got->options.refine_rounds)
        return finish(got, GOT_SUCCESS, got->result);
    if (nodes_left(got) == 0)
        return finish(got, GOT_MAX_NODES, got->result);
    return ask(got, GOT_REFINING, GOT_REFINE, got->result);
}

static void set_result(Got *got, uint32_t node)
{
    got->result = got->current = node;
}

GotStep got_unscored(Got *got)
{
    for (uint32_t i = 0; i < got->pending_count; i++)
        if (!graph_is_scored(&got->graph, got->pending[i].node))
            return ask(got, GOT_SCORING, GOT_SCORE, got->pending[0].node);
    return GOT_WAIT;
}

GotStep got_scored(Got *got, uint32_t min_nodes)
{
    if (got->result == GRAPH_NONE)
        return after_scores(got, min_nodes);
    uint32_t judged = got->pending[0].node;
    if (judged != got->result && got_rank(got, judged) > got_rank(got, got->result))
        set_result(got, judged);
    return refine_or_finish(got);
}

static uint32_t deepest_pending(const Got *got)
{
    uint32_t depth = 0;
    for (uint32_t i = 0; i < got->pending_count; i++)
        if (got->graph.nodes[got->pending[i].node].depth > depth)
            depth = got->graph.nodes[got->pending[i].node].depth;
    return depth;
}

/* Adds the aggregate of the pending nodes. The edge from the main one (the winner of the vote, else
 * the best) comes last, so that the path to the aggregate leads through it. */
static uint32_t add_aggregate(Got *got)
{
    Graph *g = &got->graph;
    if (!graph_reserve(g, 1, got->pending_count))
        return GRAPH_NONE;
    uint32_t node = graph_add_node(g, NAN, deepest_pending(got) + 1);
    uint32_t main = got->winner != GRAPH_NONE ? got->winner : got->pending[0].node;
    for (uint32_t i = got->pending_count; i-- > 0;)
        if (got->pending[i].node != main)
            graph_add_edge(g, got->pending[i].node, node, GRAPH_AGGREGATES);
    graph_add_edge(g, main, node, GRAPH_AGGREGATES);
    return node;
}

GotStep got_aggregated(Got *got, bool usable)
{
    if (got->options.chain)
        return chain_aggregated(got);
    if (!usable)
        return finish(got, GOT_SUCCESS, best_so_far(got));
    uint32_t node = add_aggregate(got);
    if (node == GRAPH_NONE)
        return GOT_NO_MEMORY;
    set_result(got, node);
    return got->options.score_thoughts ? ask_scores(got, node, 1) : refine_or_finish(got);
}

GotStep got_voted(Got *got, uint32_t node)
{
    const GotPending *first = got->pending, *winner = first;
    for (uint32_t i = 0; i < got->pending_count; i++)
        got->pending[i].votes += got->pending[i].node == node;
    if (got->machine.call_count > 0)
        return GOT_WAIT;
    for (const GotPending *p = first; p < first + got->pending_count; p++)
        if (p->votes > winner->votes)
            winner = p; /* best first: the earlier wins a tie */
    got->winner = winner->node;
    return got_aggregated(got, true);
}

GotStep got_refined(Got *got, bool usable)
{
    Graph *g = &got->graph;
    got->refinements++;
    if (!usable)
        return refine_or_finish(got);
    if (!graph_reserve(g, 1, 1))
        return GOT_NO_MEMORY;
    uint32_t node = graph_add_node(g, NAN, g->nodes[got->result].depth + 1);
    graph_add_edge(g, got->result, node, GRAPH_REFINES);
    if (got->options.score_thoughts)
        return ask_scores(got, node, 1);
    set_result(got, node);
    return refine_or_finish(got);
}

/* ---- whether a restored state is possible ---- */

/* Each busy status has open calls of one kind, one or many, and pending nodes or none. A result
 * exists once there is an aggregate. */
static const struct {
    GotAsk ask;
    bool many, pending;
} shapes[] = {
    [GOT_GENERATING - MACHINE_BUSY] = {GOT_GENERATE, true, false},
    [GOT_SCORING - MACHINE_BUSY] = {GOT_SCORE, false, true},
    [GOT_CONNECTING - MACHINE_BUSY] = {GOT_CONNECT, false, false},
    [GOT_AGGREGATING - MACHINE_BUSY] = {GOT_AGGREGATE, false, true},
    [GOT_REFINING - MACHINE_BUSY] = {GOT_REFINE, false, false},
};

static const char *busy_incoherence(const Got *got)
{
    const Machine *m = &got->machine;
    if (got->options.chain && (m->status == GOT_SCORING || m->status == GOT_REFINING))
        return "status";
    GotAsk wanted = shapes[m->status - MACHINE_BUSY].ask;
    bool many = shapes[m->status - MACHINE_BUSY].many;
    if (wanted == GOT_AGGREGATE && got->options.strategy == GOT_VOTING && !got->options.chain) {
        wanted = GOT_VOTE;
        many = true;
    }
    for (uint32_t i = 0; i < m->call_count; i++)
        if (m->calls[i].kind != (uint32_t)wanted)
            return "calls";
    if (m->call_count > 1 && !many)
        return "calls";
    if (shapes[m->status - MACHINE_BUSY].pending != (got->pending_count > 0))
        return "pending_node_ids";
    bool refining = m->status == GOT_REFINING;
    bool judging = m->status == GOT_SCORING && got->result != GRAPH_NONE;
    if (judging && got->pending_count != 1)
        return "pending_node_ids";
    return refining || judging || got->result == GRAPH_NONE ? NULL : "result_node_id";
}

const char *got_incoherence(const Got *got)
{
    const Machine *m = &got->machine;
    if (m->status == MACHINE_IDLE)
        return NULL;
    if (got->graph.root == GRAPH_NONE)
        return "root_id";
    if (got->current == GRAPH_NONE)
        return "current_node_id";
    if (m->status == GOT_REFINING && got->result == GRAPH_NONE)
        return "result_node_id";
    if (m->status == MACHINE_COMPLETED && got->result == GRAPH_NONE)
        return "result_node_id";
    return machine_is_busy(m) ? busy_incoherence(got) : NULL;
}

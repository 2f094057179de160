/*
 * got_fuzz.c -- libFuzzer target for src/core/got.c and graph.c. `make fuzz` runs it a short while.
 *
 * An input is a program: options, then replies to whatever calls are open, nodes and edges added by
 * hand, copies, and now and then an allocation that fails. Besides what the sanitizers find, it
 * checks that
 *   - a busy machine has open calls and is in a state that could be restored, a final one has none;
 *   - only nodes added by hand go beyond max_nodes;
 *   - paths end, reachable nodes come in order, and a cycle is found if and only if there is one.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/got.h"

#define CHECK(condition) ((condition) ? (void)0 : abort())

enum { MAX_NODES = 100, MAX_EDGES = 400 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Input {
    const uint8_t *at, *end;
} Input;

static uint8_t next(Input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static bool allocation_fails;

static void *allocate(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    (void)osize;
    if (nsize == 0) {
        free(ptr);
        return NULL;
    }
    if (allocation_fails) {
        allocation_fails = false;
        return NULL;
    }
    return realloc(ptr, nsize);
}

static const Alloc alloc = {allocate, NULL};

static void init(Got *got, const GotOptions *options)
{
    memset(got, 0, sizeof *got);
    machine_init(&got->machine, &alloc, &got_kind);
    got_init(got, options);
}

static uint32_t some_node(Input *in, const Got *got)
{
    return next(in) % got->graph.node_count;
}

static double some_score(Input *in)
{
    uint8_t byte = next(in);
    return byte == 255 ? NAN : byte / 254.0;
}

static void link_some(Input *in, Got *got)
{
    for (int links = next(in) % 4; links > 0; links--) {
        uint32_t from = some_node(in, got), to = some_node(in, got);
        if (from != to)
            graph_add_edge(&got->graph, from, to, GRAPH_CONNECTS);
    }
}

static GotStep answer(Input *in, Got *got)
{
    Machine *m = &got->machine;
    MachineCall call = m->calls[next(in) % m->call_count];
    uint32_t min_nodes = next(in) % 16;
    bool usable = next(in) % 4 != 0;
    CHECK(machine_close(m, call.number));
    switch ((GotAsk)call.kind) {
    case GOT_GENERATE: return got_thought(got, usable, min_nodes);
    case GOT_SCORE:
        for (uint32_t i = 0; i < got->pending_count; i++)
            got->graph.nodes[got->pending[i].node].score = some_score(in);
        return next(in) % 4 == 0 && got_unscored(got) == GOT_ASKED ? GOT_ASKED
                                                                   : got_scored(got, min_nodes);
    case GOT_CONNECT: link_some(in, got); return got_connected(got, min_nodes);
    case GOT_AGGREGATE: return got_aggregated(got, usable);
    case GOT_VOTE: return got_voted(got, usable ? some_node(in, got) : GRAPH_NONE);
    case GOT_REFINE: return got_refined(got, usable);
    }
    abort();
}

static void take(Got *got, GotStep step)
{
    Machine *m = &got->machine;
    if (step == GOT_DONE && got->reason != GOT_FAILED) {
        CHECK(got->result < got->graph.node_count);
        CHECK(machine_finish(m, MACHINE_COMPLETED, 1));
    } else if (step == GOT_DONE || step == GOT_NO_MEMORY) {
        CHECK(machine_finish(m, MACHINE_ERROR, 1));
    }
    CHECK(machine_is_busy(m) == (m->call_count > 0));
    CHECK(got_incoherence(got) == NULL);
}

static void check_reach(Graph *g, uint32_t node, GraphDirection way)
{
    static uint32_t found[MAX_NODES];
    uint32_t count = graph_reach(g, node, way, found);
    for (uint32_t i = 0; i < count; i++)
        CHECK(found[i] != node && found[i] < g->node_count && (i == 0 || found[i - 1] < found[i]));
}

static bool leads_to(Graph *g, uint32_t from, uint32_t to)
{
    static uint32_t found[MAX_NODES];
    uint32_t count = graph_reach(g, from, GRAPH_OUT, found);
    for (uint32_t i = 0; i < count; i++)
        if (found[i] == to)
            return true;
    return from == to;
}

static void check_graph(Graph *g)
{
    static uint32_t work[2 * MAX_NODES];
    bool cycle = false;
    for (uint32_t i = 0; i < g->edge_count; i++)
        cycle = cycle || leads_to(g, g->edges[i].end[GRAPH_IN], g->edges[i].end[GRAPH_OUT]);
    CHECK(graph_has_cycle(g, work) == cycle);
    uint32_t leaves = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        CHECK(graph_path_length(g, i) <= g->node_count);
        check_reach(g, i, GRAPH_IN);
        leaves += graph_is_leaf(g, i);
    }
    for (uint32_t i = graph_next_leaf(g, 0); i != GRAPH_NONE; i = graph_next_leaf(g, i + 1))
        leaves--;
    CHECK(leaves == 0);
}

static GotOptions some_options(Input *in)
{
    uint8_t flags = next(in);
    return (GotOptions){
        .max_nodes = 1 + next(in) % 30,
        .max_depth = 1 + next(in) % 5,
        .branching_factor = 1 + next(in) % 4,
        .max_aggregated = 1 + next(in) % 4,
        .votes = 1 + next(in) % 4,
        .refine_rounds = next(in) % 4,
        .strategy = (GotStrategy)(next(in) % 3),
        .score_thoughts = flags & 1,
        .connect = flags & 2,
        .chain = (flags & 12) == 12,
    };
}

/* Goes on with a copy, if there is memory for one. */
static void replace_by_copy(Got *got)
{
    Got copy;
    init(&copy, &got->options);
    if (machine_copy(&copy.machine, &got->machine) && got_copy(&copy, got)) {
        got_free(got);
        *got = copy;
    } else {
        got_free(&copy);
    }
}

static void run_one(Input *in, Got *got, bool *by_hand)
{
    Graph *g = &got->graph;
    uint8_t op = next(in);
    if (op < 160 && machine_is_busy(&got->machine)) {
        take(got, answer(in, got));
    } else if (op < 170) {
        if (machine_start(&got->machine, MACHINE_NO_NUMBER, 0))
            take(got, got_begin(got));
    } else if (op < 185 && g->node_count < MAX_NODES / 2) {
        *by_hand = graph_add_node(g, some_score(in), next(in) % 4) != GRAPH_NONE || *by_hand;
    } else if (op < 215 && g->node_count > 0 && g->edge_count < MAX_EDGES / 2) {
        graph_add_edge(g, some_node(in, got), some_node(in, got), (GraphEdgeType)(op % 3));
    } else if (op < 225) {
        replace_by_copy(got);
    } else if (op < 235) {
        allocation_fails = true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input in = {data, data + size};
    Got got;
    bool by_hand = false;
    allocation_fails = false;
    GotOptions options = some_options(&in);
    init(&got, &options);
    while (in.at < in.end && got.graph.node_count < MAX_NODES - 10 &&
           got.graph.edge_count < MAX_EDGES) {
        run_one(&in, &got, &by_hand);
        CHECK(by_hand || options.chain || got.graph.node_count <= options.max_nodes);
    }
    check_graph(&got.graph);
    got_free(&got);
    return 0;
}

/*
 * got_check.c -- whether a restored Graph of Thoughts is in a possible state; see got.h.
 *
 * Each busy status has open calls of one kind, one or many, and pending nodes or none. A result
 * exists once there is an aggregate.
 */
#include "core/got.h"

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

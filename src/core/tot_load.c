/*
 * tot_load.c -- Tree of Thoughts: copying a machine, and making one of a saved state that may be
 * hostile; see tot.h.
 */
#include "core/tot.h"

#include <math.h>
#include <string.h>

/* A copy of `count` items in a block of its own; *to stays NULL for none. */
static bool copy_array(const Alloc *alloc, void **to, const void *from, size_t count, size_t size)
{
    if (count == 0)
        return true;
    *to = alloc_resize(alloc, NULL, 0, count * size);
    if (*to == NULL)
        return false;
    memcpy(*to, from, count * size);
    return true;
}

static bool copy_frontier(const Alloc *alloc, Frontier *to, const Frontier *from)
{
    if (!vec_reserve(to, alloc, from->count))
        return false;
    if (from->count > 0)
        memcpy(to->items, from->items, from->count * sizeof *from->items);
    to->count = from->count;
    return true;
}

static bool copy_slots(Tot *to, const Tot *from)
{
    if (!tot_reserve_slots(to, from->slot_count))
        return false;
    for (uint32_t i = 0; i < from->slot_count; i++) {
        const TotSlot *slot = &from->slots[i];
        void *scores = NULL;
        if (slot->scores != NULL && !copy_array(&to->machine.alloc, &scores, slot->scores,
                                                slot->thought_count, sizeof *slot->scores))
            return false;
        to->slots[i] = *slot;
        to->slots[i].scores = scores;
        to->slot_count++;
    }
    return true;
}

TotOutcome tot_copy(Tot *to, const Tot *from)
{
    const Alloc *alloc = &to->machine.alloc;
    void *nodes = NULL, *recent = NULL;
    tot_init(to, &from->options);
    bool ok = copy_array(alloc, &nodes, from->nodes, from->node_count, sizeof *from->nodes);
    to->nodes = nodes;
    to->node_capacity = to->node_count = ok ? from->node_count : 0;
    uint32_t count = from->recent_end - from->recent_start;
    const double *window = count > 0 ? &from->recent[from->recent_start] : NULL;
    ok = ok && copy_array(alloc, &recent, window, count, sizeof *window);
    to->recent = recent;
    to->recent_capacity = to->recent_end = ok ? count : 0;
    ok = ok && copy_slots(to, from) && copy_frontier(alloc, &to->waiting, &from->waiting) &&
         copy_frontier(alloc, &to->worst, &from->worst) &&
         copy_frontier(alloc, &to->leaves, &from->leaves);
    to->generating_count = from->generating_count;
    to->grown = from->grown;
    to->waiting_count = from->waiting_count;
    to->joins = from->joins;
    to->new_from = from->new_from;
    to->depth_reached = from->depth_reached;
    to->answer = from->answer;
    to->best_score = from->best_score;
    to->loaded = from->loaded;
    to->generation_retries = from->generation_retries;
    to->evaluation_retries = from->evaluation_retries;
    return ok ? TOT_DONE : TOT_NO_MEMORY;
}

TotOutcome tot_load_node(Tot *t, uint32_t parent, double score)
{
    uint32_t index = t->node_count;
    bool is_root = index == 0;
    if (is_root != (parent == TOT_NONE) || is_root != (isnan(score) != 0))
        return TOT_REFUSED;
    if (!is_root && (parent >= index || !(score >= 0 && score <= 1)))
        return TOT_REFUSED;
    if (!tot_reserve_nodes(t, 1))
        return TOT_NO_MEMORY;
    TotNode node = {.score = score, .parent = parent};
    if (!is_root) {
        TotNode *above = &t->nodes[parent];
        if (above->child_count > 0 && above->first_child + above->child_count != index)
            return TOT_REFUSED;
        if (above->child_count++ == 0)
            above->first_child = index;
        node.depth = above->depth + 1;
    }
    t->nodes[t->node_count++] = node;
    return TOT_DONE;
}

TotOutcome tot_load_slot(Tot *t, const TotSlot *slot, const double *scores)
{
    bool thoughts = slot->phase != TOT_SLOT_GENERATING;
    if (slot->node >= t->node_count || thoughts != (slot->thought_count > 0) ||
        slot->thought_count > t->options.branching_factor ||
        (slot->phase == TOT_SLOT_DONE) != (scores != NULL) ||
        slot->retries > t->options.max_parse_retries)
        return TOT_REFUSED;
    void *copy = NULL;
    if (!tot_reserve_slots(t, t->slot_count + 1) ||
        (scores != NULL &&
         !copy_array(&t->machine.alloc, &copy, scores, slot->thought_count, sizeof *scores)))
        return TOT_NO_MEMORY;
    t->slots[t->slot_count] = *slot;
    t->slots[t->slot_count++].scores = copy;
    return TOT_DONE;
}

/* Keys that give this order: in dfs the later rounds, which are in front, have the higher ones. */
static double load_key(const Tot *t, uint32_t node, uint32_t position, uint32_t count)
{
    switch (t->options.traversal) {
    case TOT_BFS: return 0;
    case TOT_DFS: return count - position;
    default: return t->nodes[node].score;
    }
}

static bool in_order(FrontierEntry a, FrontierEntry b)
{
    return a.score > b.score || (a.score == b.score && a.id < b.id);
}

TotOutcome tot_load_frontier(Tot *t, const uint32_t *ids, uint32_t count)
{
    const Alloc *alloc = &t->machine.alloc;
    bool beam = t->options.beam_width > 0;
    if (!vec_reserve(&t->waiting, alloc, count) || (beam && !vec_reserve(&t->worst, alloc, count)))
        return TOT_NO_MEMORY;
    FrontierEntry before = {INFINITY, 0};
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] == 0 || ids[i] >= t->node_count || t->nodes[ids[i]].waiting ||
            !tot_is_leaf(t, ids[i]) || t->nodes[ids[i]].depth >= t->options.max_depth)
            return TOT_REFUSED;
        FrontierEntry entry = {load_key(t, ids[i], i, count), ids[i]};
        if (!in_order(before, entry))
            return TOT_REFUSED;
        t->nodes[ids[i]].waiting = true;
        t->waiting_count++;
        frontier_push(&t->waiting, entry);
        if (beam)
            frontier_push(&t->worst, entry);
        before = entry;
    }
    t->joins = count;
    return TOT_DONE;
}

TotOutcome tot_load_recent(Tot *t, double measure)
{
    if (!tot_reserve_recent(t))
        return TOT_NO_MEMORY;
    tot_record(t, measure);
    return TOT_DONE;
}

/* What tot_grow keeps up to date as nodes are made. */
static bool derive(Tot *t)
{
    bool leaves = t->options.measure == TOT_BEST_LEAF;
    if (leaves && !vec_reserve(&t->leaves, &t->machine.alloc, t->node_count))
        return false;
    for (uint32_t i = 0; i < t->node_count; i++) {
        const TotNode *node = &t->nodes[i];
        if (node->depth > t->depth_reached)
            t->depth_reached = node->depth;
        if (i > 0 && !(node->score <= t->best_score))
            t->best_score = node->score;
        if (leaves && i > 0 && tot_is_leaf(t, i))
            frontier_push(&t->leaves, (FrontierEntry){node->score, i});
    }
    return true;
}

/* A slot of a running round: its node is a leaf that was taken off the frontier, once. */
static bool slots_fit(Tot *t)
{
    uint32_t marked = 0;
    bool ok = true;
    while (ok && marked < t->slot_count) {
        TotNode *node = &t->nodes[t->slots[marked].node];
        ok = node->child_count == 0 && !node->waiting && node->depth < t->options.max_depth;
        if (ok) {
            node->waiting = true; /* a second slot for the node is refused */
            marked++;
        }
    }
    for (uint32_t i = 0; i < marked; i++)
        t->nodes[t->slots[i].node].waiting = false;
    return ok;
}

/* Each slot that is not done has one open call, of its phase; and the status follows from them. */
static bool calls_fit(Tot *t)
{
    const Machine *m = &t->machine;
    uint32_t open_slots = 0;
    t->generating_count = 0;
    for (uint32_t i = 0; i < t->slot_count; i++) {
        open_slots += t->slots[i].phase != TOT_SLOT_DONE;
        t->generating_count += t->slots[i].phase == TOT_SLOT_GENERATING;
    }
    for (uint32_t i = 0; i < m->call_count; i++) {
        TotSlot *slot = tot_slot_of(t, m->calls[i].number, m->calls[i].kind);
        if (slot == NULL || slot->marked)
            return false;
        slot->marked = true;
    }
    for (uint32_t i = 0; i < t->slot_count; i++)
        t->slots[i].marked = false;
    return open_slots == m->call_count &&
           m->status == (t->generating_count > 0 ? TOT_GENERATING : TOT_EVALUATING);
}

TotOutcome tot_load_end(Tot *t, uint32_t answer)
{
    const Machine *m = &t->machine;
    bool idle = m->status == MACHINE_IDLE;
    if (idle != (t->node_count == 0) || idle != (t->slot_count == 0))
        return TOT_REFUSED;
    if (!idle && m->current.subject >= t->slot_count)
        return TOT_REFUSED;
    if (machine_is_busy(m) && (!slots_fit(t) || !calls_fit(t)))
        return TOT_REFUSED;
    if (answer != TOT_NONE && (answer >= t->node_count || !tot_is_leaf(t, answer)))
        return TOT_REFUSED;
    t->answer = answer;
    t->loaded = true;
    return derive(t) ? TOT_DONE : TOT_NO_MEMORY;
}

/*
 * search_uct.c -- uct and puct: Monte Carlo tree search.
 *
 * UCT after Kocsis and Szepesvari 2006, PUCT as in AlphaZero (Silver et al. 2018). A ticket is
 * a descent to an open leaf; pending descents count as visits but not as values (WU-UCT, Liu et al.
 * 2020). With `guide` the balance shifts from width to depth as the budget runs out (BG-MCTS,
 * 2026). With `lazy` a child is scored when it is first selected, as in AlphaZero. halving is lazy,
 * too, but for its choice of a child (search_halving.c) and its dead ends, which stay selectable.
 *
 * A node is closed while it is the leaf of a ticket of this round, and for good once nothing below
 * it can be expanded. Each node counts its open children, so that closing walks up only as far as
 * a parent still has another one.
 */
#include "core/search_uct.h"

/* ---- open nodes ---- */

/* Opens or closes a node, and its parent too unless that has another open child. */
static void set_open(Search *s, uint32_t id, bool open)
{
    for (;;) {
        UctNode *u = uct_node(s, id);
        u->open = open;
        if (u->parent == SEARCH_NO_NODE || s->options.is_halving)
            return;
        uint32_t *count = &uct_node(s, u->parent)->open_children, others = *count - !open;
        *count = others + open;
        if (others > 0)
            return;
        id = u->parent;
    }
}

/* Whether a node is open, apart from tickets of the round. */
static bool may_be_open(const Search *s, uint32_t id)
{
    const UctNode *u = uct_node(s, id);
    if (u->child_count > 0)
        return u->open_children > 0 || s->options.is_halving; /* it closes only dead ends */
    if (!search_node(s, id)->scored)
        return true;
    return s->options.revisit || (!u->expanded && search_expandable(s, id));
}

/* ---- select ---- */

static double mean_of(const Search *s, const UctNode *u)
{
    return s->options.backs_up_max ? u->sum : u->sum / u->visits;
}

/* The terms that the children of a node share. */
typedef struct Terms {
    double log_visits, root_visits, prior;
    double unvisited; /* lazy: Q of a child without visits */
} Terms;

static Terms shared_terms(const Search *s, const UctNode *v)
{
    const SearchOptions *o = &s->options;
    double t = (double)v->visits + v->pending;
    return (Terms){
        .log_visits = log(!o->is_puct ? t : (t + o->c_base + 1) / o->c_base),
        .root_visits = sqrt(t),
        .prior = o->prior == PRIOR_UNIFORM ? 1.0 / v->child_count : 1,
        .unvisited = o->unvisited == UNVISITED_PARENT ? mean_of(s, v) : o->unvisited_value,
    };
}

static double bound_of(const Search *s, const Terms *terms, const UctNode *u, uint32_t id)
{
    const SearchOptions *o = &s->options;
    const Uct *uct = s->data;
    double prior = o->prior >= PRIOR_SOFTMAX ? u->more->prior : terms->prior;
    double n = (double)u->visits + u->pending, q, e;
    if (u->visits > 0)
        q = mean_of(s, u);
    else if (!o->lazy)
        q = search_value(s, id);
    else if (o->unvisited == UNVISITED_INFINITE)
        return INFINITY;
    else
        q = terms->unvisited;
    if (o->normalize)
        q = uct->high > uct->low ? (q - uct->low) / (uct->high - uct->low) : 0.5;
    if (!o->is_puct)
        e = (o->c * prior) * sqrt(terms->log_visits / (n > 1 ? n : 1));
    else
        e = ((terms->log_visits + o->c_init) * (terms->root_visits / (n + 1))) * prior;
    if (isnan(o->guide))
        return q + e;
    double d = u->visits == 0 ? search_node(s, id)->depth : u->more->depths / u->visits;
    return (q + (o->guide * uct->rho) * (d / uct->mean_depth)) + (1 - uct->rho) * e;
}

/* The open child with the highest bound, ties to the oldest. */
static uint32_t select_child(const Search *s, const UctNode *u)
{
    Terms terms = shared_terms(s, u);
    uint32_t best = SEARCH_NO_NODE;
    double highest = 0;
    for (uint32_t id = u->first; id < u->first + u->child_count; id++) {
        const UctNode *child = uct_node(s, id);
        if (!child->open)
            continue;
        double bound = bound_of(s, &terms, child, id);
        if (best == SEARCH_NO_NODE || bound > highest) {
            best = id;
            highest = bound;
        }
    }
    return best;
}

/* The leaf of a descent; o counts along its path. */
static uint32_t descend(Search *s)
{
    const Uct *uct = s->data;
    bool halving = s->options.is_halving;
    uint32_t v = 0;
    for (;;) {
        UctNode *u = uct_node(s, v);
        uint32_t child = u->child_count == 0 ? SEARCH_NO_NODE
                         : halving           ? halving_select(s, v)
                                             : select_child(s, u);
        u->pending += uct->counts_pending;
        if (child == SEARCH_NO_NODE)
            return v;
        v = child;
    }
}

/* A descent is no longer pending. */
static void leave_path(Search *s, uint32_t leaf)
{
    const Uct *uct = s->data;
    for (uint32_t v = leaf; uct->counts_pending && v != SEARCH_NO_NODE; v = uct_node(s, v)->parent)
        uct_node(s, v)->pending--;
}

static SearchStatus select_leaves(Search *s)
{
    Uct *uct = s->data;
    if (!may_be_open(s, 0))
        return SEARCH_OVER;
    uint64_t limit = search_round_limit(s);
    if (limit == 0)
        return SEARCH_LIMIT;
    double depth = uct->terminals > 0 ? (double)uct->terminal_depths / (double)uct->terminals
                                      : (double)uct->deepest;
    uct->mean_depth = depth > 1 ? depth : 1;
    uct->rho = s->options.asks_spent ? s->spent
                                     : (double)s->iterations / (double)s->options.max_iterations;
    uct->extended = 0;
    uct->counts_pending = limit > 1 || s->options.lazy;
    for (; limit > 0 && uct_node(s, 0)->open; limit--) {
        uint32_t leaf = descend(s);
        if (!uct_node(s, leaf)->open && may_be_open(s, leaf)) {
            leave_path(s, leaf); /* halving: it is the leaf of another ticket, and the last */
            break;
        }
        SearchTicket *t = search_select(s, leaf);
        if (t == NULL)
            return SEARCH_NO_MEMORY;
        t->scores = !search_node(s, leaf)->scored;
        t->expands = t->expands && !t->scores && !uct_node(s, leaf)->expanded;
        t->arm = leaf;
        set_open(s, leaf, false);
    }
    return SEARCH_OK;
}

/* ---- new children ---- */

/* PRIOR_SOFTMAX: sets the priors of a ticket's new, scored children. */
static void set_priors(Search *s, const SearchTicket *t)
{
    double highest = -INFINITY, sum = 0;
    for (uint32_t id = t->first; id < t->end; id++)
        highest = search_node(s, id)->score > highest ? search_node(s, id)->score : highest;
    for (uint32_t id = t->first; id < t->end; id++)
        sum += exp(search_node(s, id)->score - highest);
    for (uint32_t id = t->first; id < t->end; id++)
        uct_node(s, id)->more->prior = exp(search_node(s, id)->score - highest) / sum;
}

/* A node that a ticket has expanded. Tickets are linked last to first: below first. */
static void link_children(Search *s, const SearchTicket *t)
{
    UctNode *u = uct_node(s, t->node);
    if (t->expands) {
        u->expanded = true;
        u->first = t->first;
        u->child_count = t->end - t->first;
        if (s->options.prior == PRIOR_SOFTMAX)
            set_priors(s, t);
    }
    for (uint32_t id = t->first; id < t->end; id++) {
        UctNode *child = uct_node(s, id);
        child->parent = t->node;
        child->open = may_be_open(s, id);
        u->open_children += child->open;
    }
}

/* ---- waves ---- */

static uint32_t best_child(const Search *s, const SearchTicket *t)
{
    uint32_t best = SEARCH_NO_NODE;
    for (uint32_t id = t->first; id < t->end; id++)
        if (best == SEARCH_NO_NODE || search_value(s, id) > search_value(s, best))
            best = id;
    return best;
}

/* Greedy: each ticket continues with its best new child. Lazy: the child of a new expansion with
 * the highest bound is scored. A ticket of a wave keeps in `arm` which ticket began its path, as
 * those of the first wave keep their path's last node. */
static SearchStatus next_wave(Search *s)
{
    Uct *uct = s->data;
    uint32_t from = uct->extended, end = (uint32_t)s->tickets.count;
    bool lazy = s->options.lazy, halving = s->options.is_halving;
    if (!s->options.greedy && !lazy)
        return SEARCH_OVER;
    uct->extended = lazy ? UINT32_MAX : end;
    for (uint32_t i = from; i < end; i++) {
        const SearchTicket *t = &s->tickets.items[i];
        uint32_t origin = i < s->selected ? i : t->arm, child;
        if (lazy && t->expands)
            link_children(s, t);
        if (halving && t->expands && !halving_prepare(s, t->node))
            return SEARCH_NO_MEMORY;
        if (!lazy)
            child = best_child(s, t);
        else if (!t->expands || t->first == t->end)
            continue;
        else
            child = halving ? halving_select(s, t->node) : select_child(s, uct_node(s, t->node));
        if (child == SEARCH_NO_NODE)
            continue;
        s->tickets.items[origin].arm = child;
        if (!lazy && !search_expandable(s, child))
            continue;
        SearchTicket *next = search_select(s, child);
        if (next == NULL)
            return SEARCH_NO_MEMORY;
        next->arm = origin;
        next->scores = lazy;
        next->expands = !lazy;
    }
    return s->tickets.count > end ? SEARCH_OK : SEARCH_OVER;
}

/* ---- back up ---- */

/* Adds the values of `count` paths that end at `depth`. */
static void add_values(const Search *s, UctNode *u, const double *x, uint32_t count, double depth)
{
    double sum = u->sum;
    if (s->options.backs_up_max && u->visits == 0)
        sum = -INFINITY;
    if (s->options.backs_up_max)
        for (uint32_t i = 0; i < count; i++)
            sum = x[i] > sum ? x[i] : sum;
    else
        for (uint32_t i = 0; i < count; i++)
            sum = sum + x[i];
    u->sum = sum;
    u->visits += count;
    if (!isnan(s->options.guide))
        u->more->depths += count * depth;
}

/* Adds the values of `count` paths through `v` to it and all above it. */
static void add_to_path(const Search *s, uint32_t v, const double *x, uint32_t count, double depth)
{
    for (; v != SEARCH_NO_NODE; v = uct_node(s, v)->parent)
        add_values(s, uct_node(s, v), x, count, depth);
}

/* The paths to each new child in turn; all their sums at a node are made at once. */
static bool back_up_children(Search *s, const SearchTicket *t)
{
    uint32_t count = t->end - t->first;
    s->values.count = 0;
    if (count == 0)
        return true;
    if (!vec_reserve(&s->values, &s->alloc, count))
        return false;
    double depth = search_node(s, t->first)->depth;
    for (uint32_t i = 0; i < count; i++) {
        vec_push(&s->values, search_value(s, t->first + i));
        add_values(s, uct_node(s, t->first + i), &s->values.items[i], 1, depth);
    }
    add_to_path(s, t->node, s->values.items, count, depth);
    return true;
}

/* Takes in a node that was scored in the round. */
static void update_totals(Search *s, uint32_t id)
{
    Uct *uct = s->data;
    const SearchNode *node = search_node(s, id);
    double x = search_value(s, id);
    uct->terminals += node->terminal;
    uct->terminal_depths += node->terminal ? node->depth : 0;
    uct->deepest = node->depth > uct->deepest ? node->depth : uct->deepest;
    if (id == 0 && !s->options.lazy)
        return;
    uct->low = x < uct->low ? x : uct->low;
    uct->high = x > uct->high ? x : uct->high;
}

static bool back_up_tickets(Search *s)
{
    for (size_t i = s->tickets.count; i-- > 0;) {
        const SearchTicket *t = &s->tickets.items[i];
        UctNode *u = uct_node(s, t->node);
        if (!s->options.lazy) {
            link_children(s, t);
        } else if (i >= s->selected && u->open && !may_be_open(s, t->node)) {
            u->open = false; /* a child that joined is closed, as its parent, a leaf, still is */
            uct_node(s, u->parent)->open_children--;
        }
    }
    for (uint32_t i = 0; i < s->selected; i++) {
        uint32_t leaf = s->tickets.items[i].node;
        leave_path(s, leaf);
        if (may_be_open(s, leaf))
            set_open(s, leaf, true);
    }
    for (uint32_t i = 0; i < s->selected; i++) {
        const SearchTicket *t = &s->tickets.items[i];
        if (s->options.greedy || s->options.lazy || !t->expands) {
            double x = search_value(s, t->arm);
            if (t->arm != 0 || s->options.lazy)
                add_to_path(s, t->arm, &x, 1, search_node(s, t->arm)->depth);
        } else if (!back_up_children(s, t)) {
            return false;
        }
    }
    return true;
}

static bool back_up(Search *s)
{
    Uct *uct = s->data;
    if (s->rounds == 1) {
        double x = search_value(s, 0);
        uct->low = INFINITY;
        uct->high = -INFINITY;
        uct->choice = SEARCH_NO_NODE;
        uct_node(s, 0)->parent = SEARCH_NO_NODE;
        uct_node(s, 0)->open = may_be_open(s, 0);
        if (s->options.lazy)
            add_values(s, uct_node(s, 0), &x, 1, 0);
    } else if (!back_up_tickets(s)) {
        return false;
    }
    if (!s->options.lazy)
        for (uint32_t id = s->round_children; id < s->count; id++)
            update_totals(s, id);
    else if (s->rounds == 1)
        update_totals(s, 0);
    else
        for (size_t i = 0; i < s->tickets.count; i++)
            if (s->tickets.items[i].scores)
                update_totals(s, s->tickets.items[i].node);
    if (s->options.is_halving)
        halving_choose(s);
    return true;
}

static void fill_facts(const Search *s, uint32_t id, SearchFacts *facts)
{
    const UctNode *u = uct_node(s, id);
    facts->visits = u->visits;
    facts->value = u->visits > 0 ? mean_of(s, u) : search_value(s, id);
}

const SearchPolicy search_uct = {
    .name = "uct",
    .extra_size = sizeof(UctNode),
    .more_size = sizeof(UctMore),
    .data_size = sizeof(Uct),
    .back_up = back_up,
    .select = select_leaves,
    .wave = next_wave,
    .facts = fill_facts,
    .counts_iterations = true,
};

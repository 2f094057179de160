/*
 * search_ab_mcts.c -- adaptive branching Monte Carlo tree search (Inoue et al. 2025, "Wider or
 * Deeper?"): at each node Thompson sampling decides whether to generate a new child or to continue
 * with an existing one, so a node may be expanded many times.
 *
 * Posteriors: "gaussian" and "beta" (AB-MCTS-A) here, "mixed" (AB-MCTS-M) in search_mixed.c.
 */
#include "core/search_ab.h"

#include <string.h>

typedef struct AbNode {
    AbArm gen, cont, self; /* generate a child, continue with one; the node itself as a child */
    uint32_t expansions, pending;
    uint32_t first_child, last_child, next_sibling;
    uint32_t index; /* among its siblings */
    uint32_t child_count, open_children;
    uint32_t action;      /* from 1 */
    uint32_t buckets;     /* of its observations, in Ab.buckets; plus 1 */
    bool open, exhausted; /* an expansion returned nothing */
} AbNode;

/* How many observations round to each hundredth. */
typedef struct Bucket {
    double hundredths;
    uint32_t count, next;
} Bucket;

typedef struct Ab {
    AbArm *actions; /* over the whole tree */
    VEC(Bucket) buckets;
    VEC(AbArm) groups; /* of the children of a node */
    AbMixed mixed;
} Ab;

enum { ARM_GEN, ARM_CONT, ARM_CHILDREN };
#define ARM_ACTIONS (UINT64_C(1) << 32)

static AbNode *stats_of(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

/* ---- observations ---- */

static void tell_arm(AbArm *arm, double x)
{
    arm->n += 1;
    double d = x - arm->mean;
    arm->mean = arm->mean + d / arm->n;
    arm->m2 = arm->m2 + d * (x - arm->mean);
    arm->a = arm->a + x;
    arm->b = arm->b + (1 - x);
}

static bool add_to_bucket(Search *s, AbNode *node, double x)
{
    Ab *ab = s->data;
    double hundredths = floor(100 * x + 0.5);
    for (uint32_t i = node->buckets; i != 0; i = ab->buckets.items[i - 1].next)
        if (ab->buckets.items[i - 1].hundredths == hundredths) {
            ab->buckets.items[i - 1].count++;
            return true;
        }
    if (!vec_reserve(&ab->buckets, &s->alloc, 1))
        return false;
    Bucket bucket = {hundredths, 1, node->buckets};
    vec_push(&ab->buckets, bucket);
    node->buckets = (uint32_t)ab->buckets.count;
    return true;
}

static bool tell_node(Search *s, AbNode *node, double x)
{
    tell_arm(&node->self, x);
    return s->options.posterior != POSTERIOR_MIXED || add_to_bucket(s, node, x);
}

/* Whether nearly all observations are equal, so that there is nothing left to learn below it. */
static bool is_prunable(const Search *s, const AbNode *node)
{
    const Ab *ab = s->data;
    double largest = 0;
    for (uint32_t i = node->buckets; i != 0; i = ab->buckets.items[i - 1].next)
        if (ab->buckets.items[i - 1].count > largest)
            largest = ab->buckets.items[i - 1].count;
    return node->self.n >= 4 && largest >= 0.75 * node->self.n;
}

/* ---- draws ---- */

static double draw_gaussian(SearchDraw *d, const AbArm *arm)
{
    double k0 = 1, n0 = 1, m0 = 0, t0 = 0.1, n = arm->n;
    double kappa = k0 + n, nu = n0 + n, m = (k0 * m0 + n * arm->mean) / kappa, e = m0 - arm->mean;
    double tau2 = (n0 * t0 + arm->m2 + n * k0 * e * e / kappa) / nu;
    return m + sqrt(tau2 / kappa) * search_student(d, nu);
}

static double draw_arm(const Search *s, const AbArm *arm, uint32_t v, uint64_t number)
{
    SearchDraw d = search_draw(s->options.seed, search_ticket_number(s), v, number);
    if (s->options.posterior == POSTERIOR_BETA)
        return search_beta(&d, 0.5 + arm->a, 0.5 + arm->b);
    return draw_gaussian(&d, arm);
}

/* ---- select ---- */

static bool may_generate(const Search *s, uint32_t id)
{
    return search_expandable(s, id) && !stats_of(s, id)->exhausted;
}

static uint32_t next_open(const Search *s, uint32_t id)
{
    while (id != 0 && !stats_of(s, id)->open)
        id = stats_of(s, id)->next_sibling;
    return id;
}

#define FOR_OPEN_CHILDREN(s, v, c)                                                                 \
    for (uint32_t c = next_open(s, stats_of(s, v)->first_child); c != 0;                           \
         c = next_open(s, stats_of(s, c)->next_sibling))

/* The child of `v` to continue with, or `v` itself to expand it. */
static uint32_t step_by_arms(const Search *s, uint32_t v)
{
    const AbNode *node = stats_of(s, v);
    if (may_generate(s, v) &&
        !(draw_arm(s, &node->cont, v, ARM_CONT) > draw_arm(s, &node->gen, v, ARM_GEN)))
        return v;
    uint32_t best = v;
    double highest = 0;
    FOR_OPEN_CHILDREN(s, v, c)
    {
        double y =
            draw_arm(s, &stats_of(s, c)->self, v, ARM_CHILDREN + (uint64_t)stats_of(s, c)->index);
        if (best == v || y > highest) {
            best = c;
            highest = y;
        }
    }
    return best;
}

static bool fit_children(Search *s, uint32_t v)
{
    Ab *ab = s->data;
    ab->groups.count = 0;
    if (!vec_reserve(&ab->groups, &s->alloc, stats_of(s, v)->child_count))
        return false;
    for (uint32_t c = stats_of(s, v)->first_child; c != 0; c = stats_of(s, c)->next_sibling)
        vec_push(&ab->groups, stats_of(s, c)->self);
    search_mixed_fit(&ab->mixed, ab->groups.items, ab->groups.count);
    return true;
}

static double draw_mixed(const Search *s, uint32_t v, uint64_t number, const AbArm *group)
{
    const Ab *ab = s->data;
    SearchDraw d = search_draw(s->options.seed, search_ticket_number(s), v, number);
    return search_mixed_draw(&ab->mixed, &d, group);
}

static uint32_t step_by_mixed(const Search *s, uint32_t v)
{
    bool generates = may_generate(s, v);
    double gen = generates ? draw_mixed(s, v, ARM_GEN, NULL) : 0, highest = 0, highest_kept = 0;
    uint32_t best = v, kept = v;
    FOR_OPEN_CHILDREN(s, v, c)
    {
        const AbNode *child = stats_of(s, c);
        double y = draw_mixed(s, v, ARM_CHILDREN + (uint64_t)child->index, &child->self);
        if (best == v || y > highest) {
            best = c;
            highest = y;
        }
        if ((kept == v || y > highest_kept) && !is_prunable(s, child)) {
            kept = c;
            highest_kept = y;
        }
    }
    if (generates && gen > highest)
        return v;
    return kept != v ? kept : generates ? v : best;
}

/* The node that the next ticket expands; SEARCH_NO_NODE: no memory. */
static uint32_t descend(Search *s)
{
    bool mixed = s->options.posterior == POSTERIOR_MIXED;
    uint32_t v = 0;
    while (next_open(s, stats_of(s, v)->first_child) != 0) {
        if (mixed && !fit_children(s, v))
            return SEARCH_NO_NODE;
        uint32_t next = mixed ? step_by_mixed(s, v) : step_by_arms(s, v);
        if (next == v)
            break;
        v = next;
    }
    return v;
}

/* The action with the highest draw, from 1; 0: there are none. */
static uint32_t choose_action(const Search *s, uint32_t v)
{
    const Ab *ab = s->data;
    uint32_t best = 0;
    double highest = 0;
    if (s->options.actions < 2)
        return s->options.actions;
    for (uint32_t a = 0; a < s->options.actions; a++) {
        double y = draw_arm(s, &ab->actions[a], v, ARM_ACTIONS + a);
        if (a == 0 || y > highest) {
            best = a + 1;
            highest = y;
        }
    }
    return best;
}

static SearchStatus select_nodes(Search *s)
{
    if (!stats_of(s, 0)->open)
        return SEARCH_OVER;
    uint64_t limit = search_round_limit(s);
    if (limit == 0)
        return SEARCH_LIMIT;
    for (; limit > 0; limit--) {
        uint32_t v = search_reserve_tickets(s, 1) ? descend(s) : SEARCH_NO_NODE;
        if (v == SEARCH_NO_NODE)
            return SEARCH_NO_MEMORY;
        AbNode *node = stats_of(s, v);
        uint32_t action = choose_action(s, v);
        SearchTicket *t = search_select(s, v);
        t->expands = true;
        t->expansions = node->expansions + node->pending++;
        t->arm = action;
    }
    return SEARCH_OK;
}

/* ---- back up ---- */

/* Updates whether a node is open; a change propagates to its parent. */
static void update_open(Search *s, uint32_t id)
{
    for (;;) {
        AbNode *node = stats_of(s, id);
        bool open = may_generate(s, id) || node->open_children > 0;
        uint32_t parent = search_node(s, id)->parent;
        if (open == node->open)
            return;
        node->open = open;
        if (parent == SEARCH_NO_NODE)
            return;
        stats_of(s, parent)->open_children += open ? 1u : -1u;
        id = parent;
    }
}

static void link_child(Search *s, uint32_t v, uint32_t id)
{
    AbNode *node = stats_of(s, v), *child = stats_of(s, id);
    child->index = node->child_count++;
    if (node->last_child == 0)
        node->first_child = id;
    else
        stats_of(s, node->last_child)->next_sibling = id;
    node->last_child = id;
    update_open(s, id);
}

static bool back_up_child(Search *s, const SearchTicket *t, uint32_t id)
{
    const Ab *ab = s->data;
    double x = search_value(s, id);
    tell_arm(&stats_of(s, t->node)->gen, x);
    if (t->arm > 0)
        tell_arm(&ab->actions[t->arm - 1], x);
    if (!tell_node(s, stats_of(s, id), x))
        return false;
    for (uint32_t u = t->node; u != 0; u = search_node(s, u)->parent) {
        if (!tell_node(s, stats_of(s, u), x))
            return false;
        tell_arm(&stats_of(s, search_node(s, u)->parent)->cont, x);
    }
    return true;
}

static void add(Search *s, const SearchTicket *ticket, uint32_t id, uint32_t index)
{
    (void)index;
    stats_of(s, id)->action = ticket->arm;
}

static bool begin(Search *s)
{
    Ab *ab = s->data;
    size_t size = s->options.actions * sizeof *ab->actions;
    update_open(s, 0);
    if (size == 0)
        return true;
    ab->actions = alloc_resize(&s->alloc, NULL, 0, size);
    if (ab->actions != NULL)
        memset(ab->actions, 0, size);
    return ab->actions != NULL;
}

static bool back_up(Search *s)
{
    if (s->rounds == 1)
        return begin(s);
    for (size_t i = 0; i < s->tickets.count; i++) {
        const SearchTicket *t = &s->tickets.items[i];
        AbNode *node = stats_of(s, t->node);
        node->pending--;
        node->expansions++;
        node->exhausted = node->exhausted || t->last == 0;
        for (uint32_t id = t->first; id < t->end; id++) {
            link_child(s, t->node, id);
            if (!back_up_child(s, t, id))
                return false;
        }
        update_open(s, t->node);
    }
    return true;
}

static void fill_facts(const Search *s, uint32_t id, SearchFacts *facts)
{
    const AbNode *node = stats_of(s, id);
    facts->has_visits = facts->has_expansions = true;
    facts->visits = node->self.n;
    facts->expansions = node->expansions;
    facts->action = node->action;
}

static void free_data(Search *s)
{
    Ab *ab = s->data;
    alloc_free(&s->alloc, ab->actions, s->options.actions * sizeof *ab->actions);
    vec_free(&ab->buckets, &s->alloc);
    vec_free(&ab->groups, &s->alloc);
}

const SearchPolicy search_ab_mcts = {
    .node_size = sizeof(AbNode),
    .data_size = sizeof(Ab),
    .back_up = back_up,
    .select = select_nodes,
    .free = free_data,
    .add = add,
    .facts = fill_facts,
    .counts_iterations = true,
};

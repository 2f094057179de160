/*
 * search_halving.c -- sequential halving with Gumbel noise at the root (Danihelka et al. 2022,
 * "Policy improvement by planning with Gumbel"; mctx's gumbel_muzero_policy).
 *
 * A ticket is a simulation: a descent to a node without children, which is expanded, and whose most
 * promising child is scored; or to a dead end, whose value is backed up again. How often each child
 * of the root is visited is a schedule: all of those considered first, then the better half of
 * them.
 */
#include <float.h>

#include "core/search_policy.h"

typedef struct HalvingNode {
    double sum, prior; /* W, P */
    uint32_t visits, pending;
    uint32_t first, child_count;
    bool expanded, is_leaf; /* is_leaf: of a ticket of this round */
} HalvingNode;

typedef struct Halving {
    VEC(uint32_t) schedule; /* by the sum of n over the root's children: n of the child to choose */
    VEC(double) policy;     /* of the children of a node: R or I */
    VEC(double) values;     /* of the same: Q */
    uint32_t extended;
    uint32_t choice;
} Halving;

static HalvingNode *stats_of(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

double *halving_prior_of(const Search *s, uint32_t id)
{
    return &stats_of(s, id)->prior;
}

static double n_of(const HalvingNode *u)
{
    return (double)u->visits + u->pending;
}

static double log_prior(const HalvingNode *u)
{
    return u->prior > 0 ? log(u->prior) : -1e9;
}

/* x becomes softmax(x). */
static void softmax(double *x, uint32_t count)
{
    double highest = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < count; i++)
        highest = x[i] > highest ? x[i] : highest;
    for (uint32_t i = 0; i < count; i++)
        sum = sum + (x[i] = exp(x[i] - highest));
    for (uint32_t i = 0; i < count; i++)
        x[i] = x[i] / sum;
}

/* Of the children of v: Q, with a mixed value for those without visits, scaled to s. */
static bool scale_values(Search *s, uint32_t v)
{
    Halving *h = s->data;
    const HalvingNode *u = stats_of(s, v);
    uint32_t count = u->child_count, most = 0;
    h->policy.count = h->values.count = 0;
    if (!vec_reserve(&h->policy, &s->alloc, count) || !vec_reserve(&h->values, &s->alloc, count))
        return false;
    double *p = h->policy.items, *q = h->values.items, shares = 0, mean = 0, visits = 0;
    for (uint32_t i = 0; i < count; i++)
        p[i] = log_prior(stats_of(s, u->first + i));
    softmax(p, count);
    for (uint32_t i = 0; i < count; i++) {
        const HalvingNode *c = stats_of(s, u->first + i);
        p[i] = p[i] < DBL_MIN ? DBL_MIN : p[i];
        shares = shares + (c->visits > 0 ? p[i] : 0);
        visits = visits + c->visits;
        most = c->visits > most ? c->visits : most;
    }
    for (uint32_t i = 0; i < count; i++) {
        const HalvingNode *c = stats_of(s, u->first + i);
        if (c->visits > 0)
            mean = mean + p[i] * (c->sum / c->visits) / shares;
    }
    double mixed = (search_value(s, v) + visits * mean) / (visits + 1);
    double low = INFINITY, high = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        const HalvingNode *c = stats_of(s, u->first + i);
        q[i] = c->visits > 0 ? c->sum / c->visits : mixed;
        low = q[i] < low ? q[i] : low;
        high = q[i] > high ? q[i] : high;
    }
    double range = high - low > 1e-8 ? high - low : 1e-8;
    double scale = (s->options.maxvisit_init + most) * s->options.value_scale;
    for (uint32_t i = 0; i < count; i++)
        q[i] = scale * ((q[i] - low) / range);
    return true;
}

/* R of the root's children. */
static bool rate_root(Search *s)
{
    Halving *h = s->data;
    const HalvingNode *root = stats_of(s, 0);
    double highest = -INFINITY;
    if (!scale_values(s, 0))
        return false;
    for (uint32_t i = 0; i < root->child_count; i++) {
        double l = log_prior(stats_of(s, root->first + i));
        highest = l > highest ? l : highest;
    }
    for (uint32_t i = 0; i < root->child_count; i++) {
        SearchDraw d = search_draw(s->options.seed, 0, 0, i);
        double u = 0, l = log_prior(stats_of(s, root->first + i));
        while (!(u > 0))
            u = search_uniform(&d);
        double gumbel = s->options.gumbel * -log(-log(u));
        double r = (gumbel + (l - highest)) + h->values.items[i];
        h->policy.items[i] = r > -1e9 ? r : -1e9;
    }
    return true;
}

/* I of the children of another node. */
static bool rate_children(Search *s, uint32_t v)
{
    Halving *h = s->data;
    const HalvingNode *u = stats_of(s, v);
    double sum = 0;
    if (!scale_values(s, v))
        return false;
    for (uint32_t i = 0; i < u->child_count; i++) {
        h->policy.items[i] = log_prior(stats_of(s, u->first + i)) + h->values.items[i];
        sum = sum + n_of(stats_of(s, u->first + i));
    }
    softmax(h->policy.items, u->child_count);
    for (uint32_t i = 0; i < u->child_count; i++)
        h->policy.items[i] = h->policy.items[i] - n_of(stats_of(s, u->first + i)) / (1 + sum);
    return true;
}

static bool push_visits(Search *s, uint64_t n, uint64_t times)
{
    Halving *h = s->data;
    for (; times > 0 && h->schedule.count < s->options.max_iterations; times--) {
        if (!vec_reserve(&h->schedule, &s->alloc, 1))
            return false;
        vec_push(&h->schedule, (uint32_t)n);
    }
    return true;
}

static bool make_schedule(Search *s)
{
    Halving *h = s->data;
    uint64_t children = stats_of(s, 0)->child_count, n = 0, phases = 0, budget;
    uint64_t width = children < s->options.considered ? children : s->options.considered;
    budget = s->options.max_iterations;
    while ((UINT64_C(1) << phases) < width)
        phases++;
    while (h->schedule.count < budget) {
        uint64_t visits = width == 1 ? budget : budget / (phases * width);
        for (visits = visits > 0 ? visits : 1; visits > 0 && h->schedule.count < budget; visits--)
            if (!push_visits(s, n++, width))
                return false;
        if (width > 1)
            width = width / 2 > 2 ? width / 2 : 2;
    }
    return true;
}

/* The child to visit next. SEARCH_NO_NODE: no memory. */
static uint32_t choose_child(Search *s, uint32_t v)
{
    Halving *h = s->data;
    const HalvingNode *u = stats_of(s, v);
    double sum = 0, wanted = -1;
    uint32_t best = SEARCH_NO_NODE;
    if (v != 0 ? !rate_children(s, v) : !rate_root(s))
        return SEARCH_NO_NODE;
    if (v == 0) {
        if (h->schedule.count == 0 && !make_schedule(s))
            return SEARCH_NO_NODE;
        for (uint32_t i = 0; i < u->child_count; i++)
            sum = sum + n_of(stats_of(s, u->first + i));
        if (sum < (double)h->schedule.count)
            wanted = h->schedule.items[(size_t)sum];
    }
    for (uint32_t i = 0; i < u->child_count; i++)
        if ((v != 0 || n_of(stats_of(s, u->first + i)) == wanted) &&
            (best == SEARCH_NO_NODE || h->policy.items[i] > h->policy.items[best]))
            best = i;
    return best == SEARCH_NO_NODE ? best : u->first + best;
}

static bool is_dead_end(const Search *s, uint32_t id)
{
    const HalvingNode *u = stats_of(s, id);
    return search_node(s, id)->scored && u->child_count == 0 &&
           (u->expanded || !search_expandable(s, id));
}

static void add_pending(Search *s, uint32_t v, int by)
{
    for (; v != SEARCH_NO_NODE; v = search_node(s, v)->parent)
        stats_of(s, v)->pending += (uint32_t)by;
}

static SearchStatus select_simulations(Search *s)
{
    Halving *h = s->data;
    uint64_t limit = search_round_limit(s);
    h->extended = 0;
    if (is_dead_end(s, 0))
        return SEARCH_OVER;
    if (limit == 0)
        return SEARCH_LIMIT;
    for (; limit > 0; limit--) {
        uint32_t v = 0;
        while (stats_of(s, v)->child_count > 0)
            if ((v = choose_child(s, v)) == SEARCH_NO_NODE)
                return SEARCH_NO_MEMORY;
        bool dead = is_dead_end(s, v);
        if (stats_of(s, v)->is_leaf && !dead)
            break;
        SearchTicket *t = search_select(s, v);
        if (t == NULL)
            return SEARCH_NO_MEMORY;
        t->scores = !search_node(s, v)->scored;
        t->expands = !t->scores && !dead;
        t->arm = v;
        stats_of(s, v)->is_leaf = true;
        add_pending(s, v, 1);
    }
    return SEARCH_OK;
}

/* Of each node that was expanded the child that joins the path is scored. */
static SearchStatus next_wave(Search *s)
{
    Halving *h = s->data;
    if (h->extended > 0)
        return SEARCH_OVER;
    h->extended = (uint32_t)s->tickets.count;
    for (uint32_t i = 0; i < h->extended; i++) {
        const SearchTicket *t = &s->tickets.items[i];
        if (!t->expands)
            continue;
        HalvingNode *u = stats_of(s, t->node);
        u->expanded = true;
        u->first = t->first;
        u->child_count = t->end - t->first;
        if (u->child_count == 0)
            continue;
        for (uint32_t id = t->first; id < t->end && s->options.prior == PRIOR_UNIFORM; id++)
            stats_of(s, id)->prior = 1.0 / u->child_count;
        uint32_t child = choose_child(s, t->node);
        SearchTicket *next = child != SEARCH_NO_NODE ? search_select(s, child) : NULL;
        if (next == NULL)
            return SEARCH_NO_MEMORY;
        next->scores = true;
        next->expands = false;
        s->tickets.items[i].arm = child;
    }
    return s->tickets.count > h->extended ? SEARCH_OK : SEARCH_OVER;
}

static void add_value(Search *s, uint32_t v)
{
    double x = search_value(s, v);
    for (; v != SEARCH_NO_NODE; v = search_node(s, v)->parent) {
        stats_of(s, v)->visits++;
        stats_of(s, v)->sum = stats_of(s, v)->sum + x;
    }
}

static bool back_up(Search *s)
{
    Halving *h = s->data;
    const HalvingNode *root = stats_of(s, 0);
    if (s->rounds == 1) {
        add_value(s, 0);
        h->choice = SEARCH_NO_NODE;
        return true;
    }
    for (uint32_t i = 0; i < s->selected; i++) {
        stats_of(s, s->tickets.items[i].node)->is_leaf = false;
        add_pending(s, s->tickets.items[i].node, -1);
    }
    for (uint32_t i = 0; i < s->selected; i++)
        add_value(s, s->tickets.items[i].arm);
    if (root->child_count == 0)
        return true;
    if (!rate_root(s))
        return false;
    uint32_t best = 0;
    for (uint32_t i = 1; i < root->child_count; i++) {
        uint32_t visits = stats_of(s, root->first + i)->visits;
        uint32_t most = stats_of(s, root->first + best)->visits;
        if (visits > most || (visits == most && h->policy.items[i] > h->policy.items[best]))
            best = i;
    }
    h->choice = root->first + best;
    return true;
}

uint32_t halving_choice(const Search *s)
{
    const Halving *h = s->data;
    return s->policy == &search_halving && s->rounds > 1 && h != NULL && h->choice != 0
               ? h->choice
               : SEARCH_NO_NODE;
}

static void free_data(Search *s)
{
    Halving *h = s->data;
    vec_free(&h->schedule, &s->alloc);
    vec_free(&h->policy, &s->alloc);
    vec_free(&h->values, &s->alloc);
}

static void fill_facts(const Search *s, uint32_t id, SearchFacts *facts)
{
    const HalvingNode *u = stats_of(s, id);
    facts->has_visits = true;
    facts->visits = u->visits;
    facts->value = u->visits > 0 ? u->sum / u->visits : search_value(s, id);
}

const SearchPolicy search_halving = {
    .name = "halving",
    .extra_size = sizeof(HalvingNode),
    .data_size = sizeof(Halving),
    .back_up = back_up,
    .select = select_simulations,
    .free = free_data,
    .wave = next_wave,
    .facts = fill_facts,
    .counts_iterations = true,
};

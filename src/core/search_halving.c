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

#include "core/search_uct.h"

static double n_of(const UctNode *u)
{
    return (double)u->visits + u->pending;
}

static double log_prior(const Search *s, const UctNode *parent, uint32_t id)
{
    double prior = uct_prior(s, parent, uct_node(s, id));
    return prior > 0 ? log(prior) : -1e9;
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

/* Of the children of v, q becomes Q, with a mixed value for those without visits, scaled to s. */
static void scale_values(const Search *s, uint32_t v, double *p, double *q)
{
    const UctNode *u = uct_node(s, v);
    uint32_t count = u->child_count, most = 0;
    double shares = 0, mean = 0, visits = 0;
    for (uint32_t i = 0; i < count; i++)
        p[i] = log_prior(s, u, u->first + i);
    softmax(p, count);
    for (uint32_t i = 0; i < count; i++) {
        const UctNode *c = uct_node(s, u->first + i);
        p[i] = p[i] < DBL_MIN ? DBL_MIN : p[i];
        shares = shares + (c->visits > 0 ? p[i] : 0);
        visits = visits + c->visits;
        most = c->visits > most ? c->visits : most;
    }
    for (uint32_t i = 0; i < count; i++) {
        const UctNode *c = uct_node(s, u->first + i);
        if (c->visits > 0)
            mean = mean + p[i] * (c->sum / c->visits) / shares;
    }
    double mixed = (search_value(s, v) + visits * mean) / (visits + 1);
    double low = INFINITY, high = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        const UctNode *c = uct_node(s, u->first + i);
        q[i] = c->visits > 0 ? c->sum / c->visits : mixed;
        low = q[i] < low ? q[i] : low;
        high = q[i] > high ? q[i] : high;
    }
    double range = high - low > 1e-8 ? high - low : 1e-8;
    double scale = (s->options.maxvisit_init + most) * s->options.value_scale;
    for (uint32_t i = 0; i < count; i++)
        q[i] = scale * ((q[i] - low) / range);
}

/* R of the root's children, I of those of another node, in s->values. */
static const double *rate_children(const Search *s, uint32_t v)
{
    const UctNode *u = uct_node(s, v);
    uint32_t count = u->child_count;
    double *rates = s->values.items, *values = rates + count;
    double highest = -INFINITY, sum = 0;
    scale_values(s, v, rates, values);
    for (uint32_t i = 0; i < count; i++) {
        rates[i] = log_prior(s, u, u->first + i);
        highest = rates[i] > highest ? rates[i] : highest;
        sum = sum + n_of(uct_node(s, u->first + i));
    }
    for (uint32_t i = 0; v == 0 && i < count; i++) {
        SearchDraw d = search_draw(s->options.seed, 0, 0, i);
        double draw = 0;
        while (!(draw > 0))
            draw = search_uniform(&d);
        double gumbel = s->options.gumbel * -log(-log(draw));
        double r = (gumbel + (rates[i] - highest)) + values[i];
        rates[i] = r > -1e9 ? r : -1e9;
    }
    if (v == 0)
        return rates;
    for (uint32_t i = 0; i < count; i++)
        rates[i] = rates[i] + values[i];
    softmax(rates, count);
    for (uint32_t i = 0; i < count; i++)
        rates[i] = rates[i] - n_of(uct_node(s, u->first + i)) / (1 + sum);
    return rates;
}

/* By the sum of n over the root's children: n of the one to select. */
static bool make_schedule(Search *s)
{
    uint64_t children = uct_node(s, 0)->child_count, budget = s->options.max_iterations;
    uint64_t width = children < s->options.considered ? children : s->options.considered;
    uint64_t n = 0, phases = 0;
    while ((UINT64_C(1) << phases) < width)
        phases++;
    while (width > 0 && s->list.count < budget) {
        uint64_t visits = width == 1 ? budget : budget / (phases * width);
        for (visits = visits > 0 ? visits : 1; visits > 0; visits--, n++)
            for (uint64_t i = 0; i < width && s->list.count < budget; i++) {
                if (!vec_reserve(&s->list, &s->alloc, 1))
                    return false;
                vec_push(&s->list, (uint32_t)n);
            }
        width = width > 3 ? width / 2 : width > 1 ? 2 : 1;
    }
    return true;
}

bool halving_prepare(Search *s, uint32_t v)
{
    s->values.count = 0;
    return vec_reserve(&s->values, &s->alloc, 2 * (size_t)uct_node(s, v)->child_count) &&
           (v != 0 || make_schedule(s));
}

uint32_t halving_select(const Search *s, uint32_t v)
{
    const UctNode *u = uct_node(s, v);
    uint32_t best = SEARCH_NO_NODE;
    const double *rates = rate_children(s, v);
    double sum = 0, wanted = -1;
    for (uint32_t i = 0; i < u->child_count; i++)
        sum = sum + n_of(uct_node(s, u->first + i));
    if (v == 0 && sum < (double)s->list.count)
        wanted = s->list.items[(size_t)sum];
    for (uint32_t i = 0; i < u->child_count; i++)
        if ((v != 0 || n_of(uct_node(s, u->first + i)) == wanted) &&
            (best == SEARCH_NO_NODE || rates[i] > rates[best]))
            best = i;
    return best == SEARCH_NO_NODE ? best : u->first + best;
}

void halving_choose(Search *s)
{
    Uct *uct = s->data;
    const UctNode *root = uct_node(s, 0);
    if (root->child_count == 0)
        return;
    const double *rates = rate_children(s, 0);
    uint32_t best = 0;
    for (uint32_t i = 1; i < root->child_count; i++) {
        uint32_t visits = uct_node(s, root->first + i)->visits;
        uint32_t most = uct_node(s, root->first + best)->visits;
        if (visits > most || (visits == most && rates[i] > rates[best]))
            best = i;
    }
    uct->choice = root->first + best;
}

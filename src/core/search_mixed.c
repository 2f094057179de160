/*
 * search_mixed.c -- the mixed model of AB-MCTS-M: y_ij ~ N(alpha_j, y^2), alpha_j ~ N(mu, s^2),
 * mu ~ N(0.5, 0.2^2), s ~ HalfNormal(0.2), y ~ HalfNormal(0.3).
 *
 * treequest samples it by NUTS. Here s and y are on a grid, and mu and alpha in closed form.
 */
#include "core/search_ab.h"

static double group_sd(int cell)
{
    return 0.8 * pow(2, -(cell / MIXED_SIDE) / 2.0);
}

static double noise_sd(int cell)
{
    return 1.2 * pow(2, -(cell % MIXED_SIDE) / 2.0);
}

/* The logarithm of a cell's weight. */
static double fit_cell(AbMixed *m, int cell, const AbArm *groups, size_t count)
{
    double s = group_sd(cell), y = noise_sd(cell), log_y = log(y);
    double lam = 1 / 0.04, num = 0.5 / 0.04, quad = 0.25 / 0.04;
    double L = log(s) + log_y - s * s / 0.08 - y * y / 0.18;
    for (size_t i = 0; i < count; i++) {
        const AbArm *g = &groups[i];
        double v = s * s + y * y / g->n;
        lam = lam + 1 / v;
        num = num + g->mean / v;
        quad = quad + g->mean * g->mean / v;
        L = L - 0.5 * log(v) - (g->n - 1) * log_y - g->m2 / (2 * y * y);
    }
    double mu = num / lam;
    m->mu[cell] = mu;
    m->lambda[cell] = lam;
    return L - 0.5 * log(lam) - 0.5 * (quad - lam * mu * mu);
}

void search_mixed_fit(AbMixed *m, const AbArm *groups, size_t count)
{
    double highest = -INFINITY, sum = 0;
    for (int cell = 0; cell < MIXED_CELLS; cell++) {
        double L = fit_cell(m, cell, groups, count);
        m->running[cell] = L;
        highest = L > highest ? L : highest;
    }
    for (int cell = 0; cell < MIXED_CELLS; cell++) {
        sum += exp(m->running[cell] - highest);
        m->running[cell] = sum;
    }
}

double search_mixed_draw(const AbMixed *m, SearchDraw *d, const AbArm *group)
{
    int cell = 0;
    double t = search_uniform(d) * m->running[MIXED_CELLS - 1], a;
    while (cell < MIXED_CELLS - 1 && !(t < m->running[cell]))
        cell++;
    double s = group_sd(cell), y = noise_sd(cell);
    double mu = m->mu[cell] + search_normal(d) / sqrt(m->lambda[cell]);
    if (group == NULL) {
        a = mu + s * search_normal(d);
    } else {
        double precision = 1 / (s * s) + group->n / (y * y);
        a = (mu / (s * s) + group->n * group->mean / (y * y)) / precision +
            search_normal(d) / sqrt(precision);
    }
    return a + y * search_normal(d);
}

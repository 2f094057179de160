/*
 * search_draw.c -- random numbers that depend only on where in the tree they are drawn.
 *
 * splitmix64 (Steele, Lea and Flood 2014); normal and Student's t by Marsaglia's polar method and
 * Bailey's (1994); gamma after Marsaglia and Tsang (2000). Parentheses fix the order of evaluation,
 * so that a tree is the same on every machine.
 */
#include "core/search_policy.h"

static const uint64_t golden = 0x9E3779B97F4A7C15u;

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

SearchDraw search_draw(uint64_t seed, uint64_t ticket, uint64_t node, uint64_t arm)
{
    uint64_t h = mix(seed + golden);
    h = mix((h ^ ticket) + golden);
    h = mix((h ^ node) + golden);
    return (SearchDraw){mix((h ^ arm) + golden)};
}

double search_uniform(SearchDraw *d)
{
    d->state += golden;
    return (double)(mix(d->state) >> 11) * 0x1p-53;
}

/* A point of the unit disc without its centre: returns its first coordinate. */
static double draw_disc(SearchDraw *d, double *w)
{
    double a, b;
    do {
        a = 2 * search_uniform(d) - 1;
        b = 2 * search_uniform(d) - 1;
        *w = a * a + b * b;
    } while (!(*w > 0 && *w < 1));
    return a;
}

double search_normal(SearchDraw *d)
{
    double w, a = draw_disc(d, &w);
    return a * sqrt(-2 * log(w) / w);
}

double search_student(SearchDraw *d, double nu)
{
    double w, a = draw_disc(d, &w);
    return a * sqrt(nu * (pow(w, -2 / nu) - 1) / w);
}

double search_gamma(SearchDraw *d, double x)
{
    if (x < 1) {
        double g = search_gamma(d, x + 1);
        return g * pow(search_uniform(d), 1 / x);
    }
    double e = x - 1.0 / 3, c = 1 / sqrt(9 * e);
    for (;;) {
        double z = search_normal(d), v = 1 + c * z;
        if (v <= 0)
            continue;
        v = v * v * v;
        double t = search_uniform(d), zz = z * z;
        if (t < 1 - 0.0331 * (zz * zz) || t == 0 || log(t) < 0.5 * zz + e * (1 - v + log(v)))
            return e * v;
    }
}

double search_beta(SearchDraw *d, double x, double y)
{
    double p = search_gamma(d, x), q = search_gamma(d, y);
    return p + q == 0 ? 0.5 : p / (p + q);
}

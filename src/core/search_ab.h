/* search_ab.h -- what ab_mcts and its mixed posterior share. */
#ifndef PONDER_CORE_SEARCH_AB_H
#define PONDER_CORE_SEARCH_AB_H

#include "core/search_policy.h"

/* The observations of an arm: number, mean, sum of squared deviations; and Beta's a and b. */
typedef struct AbArm {
    double n, mean, m2, a, b;
} AbArm;

enum { MIXED_SIDE = 16, MIXED_CELLS = MIXED_SIDE * MIXED_SIDE };

/* A posterior over a grid of the two standard deviations; the rest is in closed form. */
typedef struct AbMixed {
    double running[MIXED_CELLS]; /* cumulative weights of the cells */
    double mu[MIXED_CELLS], lambda[MIXED_CELLS];
} AbMixed;

void search_mixed_fit(AbMixed *m, const AbArm *groups, size_t count);

/* Draws an observation of a group, or of a new one (NULL). */
double search_mixed_draw(const AbMixed *m, SearchDraw *d, const AbArm *group);

#endif

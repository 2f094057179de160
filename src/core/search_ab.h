/*
 * search_ab.h -- what ab_mcts and its mixed posterior share.
 */
#ifndef PONDER_CORE_SEARCH_AB_H
#define PONDER_CORE_SEARCH_AB_H

#include "core/search_policy.h"

/* The observations of an arm: their number, mean and sum of squared deviations; and Beta's. */
typedef struct AbArm {
    double n, mean, m2, a, b;
} AbArm;

typedef struct AbGroup {
    double n, mean, m2;
} AbGroup;

enum { MIXED_SIDE = 16, MIXED_CELLS = MIXED_SIDE * MIXED_SIDE };

/* A posterior over a grid of the two standard deviations; the rest is in closed form. */
typedef struct AbMixed {
    double running[MIXED_CELLS]; /* sums of the cells' weights */
    double mu[MIXED_CELLS], lambda[MIXED_CELLS];
} AbMixed;

void search_mixed_fit(AbMixed *m, const AbGroup *groups, size_t count);

/* Draws an observation: of a group, or (NULL) of a group that is not there yet. */
double search_mixed_draw(const AbMixed *m, SearchDraw *d, const AbGroup *group);

#endif

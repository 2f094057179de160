/*
 * search_uct.h -- what uct, puct (search_uct.c) and halving (search_halving.c) share.
 */
#ifndef PONDER_CORE_SEARCH_UCT_H
#define PONDER_CORE_SEARCH_UCT_H

#include "core/search_policy.h"

/* Only in searches that need it, see search_init: smaller nodes make faster descents. */
typedef struct UctMore {
    double prior;  /* P, unless all children of a node have the same */
    double depths; /* D */
} UctMore;

typedef struct UctNode {
    double sum;       /* W; M if the maximum is backed up */
    uint32_t visits;  /* N */
    uint32_t pending; /* o */
    uint32_t parent;  /* a copy, so that a walk up reads only these */
    uint32_t first, open_children;
    uint32_t child_count : 30, expanded : 1, open : 1;
    UctMore more[];
} UctNode;

typedef struct Uct {
    double low, high;       /* of the values, over the search */
    double rho, mean_depth; /* for guide, as of the beginning of the round */
    uint64_t terminals, terminal_depths;
    uint32_t deepest;
    bool counts_pending; /* several tickets a round: their descents see each other */
    uint32_t extended;   /* tickets of this round that the next wave has continued */
    uint32_t choice;     /* halving */
} Uct;

static inline UctNode *uct_node(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

static inline double uct_prior(const Search *s, const UctNode *parent, const UctNode *u)
{
    SearchPrior prior = s->options.prior;
    return prior >= PRIOR_SOFTMAX   ? u->more->prior
           : prior == PRIOR_UNIFORM ? 1.0 / parent->child_count
                                    : 1;
}

/* The children of v are there. False: no memory. */
bool halving_prepare(Search *s, uint32_t v);

/* The child of a node to select; SEARCH_NO_NODE: the schedule has ended. */
uint32_t halving_select(const Search *s, uint32_t v);

/* Updates the choice. */
void halving_choose(Search *s);

#endif

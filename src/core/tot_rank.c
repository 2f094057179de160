/*
 * tot_rank.c -- Tree of Thoughts: which leaves are best; see tot.h.
 */
#include "core/tot.h"

#include <math.h>

/* Whether leaf `a` comes before leaf `b`: the higher score, then the deeper, then the older. */
static bool ranks_before(const Tot *t, uint32_t a, uint32_t b)
{
    const TotNode *x = &t->nodes[a], *y = &t->nodes[b];
    if (x->score != y->score)
        return x->score > y->score;
    if (x->depth != y->depth)
        return x->depth > y->depth;
    return a < b;
}

uint32_t tot_best_leaf(const Tot *t)
{
    uint32_t best = TOT_NONE;
    for (uint32_t i = 1; i < t->node_count; i++)
        if (tot_is_leaf(t, i) && (best == TOT_NONE || ranks_before(t, i, best)))
            best = i;
    return best;
}

uint32_t tot_best(const Tot *t)
{
    return t->answer != TOT_NONE ? t->answer : tot_best_leaf(t);
}

/* A binary heap of leaves with the last-ranked on top. */
static void sift_down(const Tot *t, uint32_t *ids, uint32_t count, uint32_t at)
{
    for (;;) {
        uint32_t last = at, child = 2 * at + 1;
        for (uint32_t end = child + 2; child < end && child < count; child++)
            if (ranks_before(t, ids[last], ids[child]))
                last = child;
        if (last == at)
            return;
        uint32_t moved = ids[at];
        ids[at] = ids[last];
        ids[last] = moved;
        at = last;
    }
}

uint32_t tot_candidates(const Tot *t, uint32_t *ids, uint32_t k)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i < t->node_count && k > 0; i++) {
        if (!tot_is_leaf(t, i))
            continue;
        if (count < k) {
            ids[count++] = i;
            for (uint32_t at = count / 2; count == k && at-- > 0;)
                sift_down(t, ids, count, at);
        } else if (ranks_before(t, i, ids[0])) {
            ids[0] = i;
            sift_down(t, ids, count, 0);
        }
    }
    for (uint32_t at = count / 2; count < k && at-- > 0;)
        sift_down(t, ids, count, at);
    for (uint32_t end = count; end > 1; end--) { /* the last-ranked goes to the end */
        uint32_t moved = ids[0];
        ids[0] = ids[end - 1];
        ids[end - 1] = moved;
        sift_down(t, ids, end - 1, 0);
    }
    return count;
}

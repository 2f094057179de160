/* tot_rank.c -- Tree of Thoughts: which leaves are best; see tot.h. */
#include "core/tot.h"

/* The higher score first, then the deeper, then the older. */
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

typedef struct Ranking { /* the last-ranked leaf first */
    HEAP_OF(uint32_t);
    const Tot *tot;
} Ranking;

static bool ranks_after(const Ranking *r, uint32_t a, uint32_t b)
{
    return ranks_before(r->tot, b, a);
}

#define HEAP_TYPE   Ranking
#define HEAP_ENTRY  uint32_t
#define HEAP_BEFORE ranks_after
#define HEAP(name)  ranking_##name
#include "core/heap.h"

uint32_t tot_candidates(const Tot *t, uint32_t *ids, uint32_t k)
{
    Ranking best = {.items = ids, .capacity = k, .tot = t};
    for (uint32_t i = 1; i < t->node_count && k > 0; i++) {
        if (!tot_is_leaf(t, i))
            continue;
        if (best.count == k && !ranks_before(t, i, ranking_first(&best)))
            continue;
        if (best.count == k)
            ranking_pop(&best);
        ranking_push(&best, i);
    }
    uint32_t count = (uint32_t)best.count;
    ranking_order(&best);
    while (best.count > 0) {
        uint32_t last = ranking_pop(&best);
        ids[best.count] = last;
    }
    return count;
}

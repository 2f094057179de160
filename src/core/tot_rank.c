/* tot_rank.c -- Tree of Thoughts: which leaves are best; see tot.h. */
#include "core/tot.h"

typedef struct Ranking {
    HEAP_OF(uint32_t);
    const Tot *tot;
} Ranking;

/* The higher score first, then the deeper, then the older. */
static bool ranks_before(const Ranking *r, uint32_t a, uint32_t b)
{
    const TotNode *x = &r->tot->nodes[a], *y = &r->tot->nodes[b];
    if (x->score != y->score)
        return x->score > y->score;
    if (x->depth != y->depth)
        return x->depth > y->depth;
    return a < b;
}

#define HEAP_TYPE   Ranking
#define HEAP_ENTRY  uint32_t
#define HEAP_BEFORE ranks_before
#define HEAP(name)  ranking_##name
#include "core/heap.h"

uint32_t tot_candidates(const Tot *t, uint32_t *ids, uint32_t k)
{
    Ranking leaves = {.items = ids, .tot = t};
    for (uint32_t i = 1; i < t->node_count; i++)
        if (tot_is_leaf(t, i))
            vec_push(&leaves, i);
    uint32_t count = k < leaves.count ? k : (uint32_t)leaves.count;
    ranking_sort(&leaves, count);
    return count;
}

/*
 * search_evolve.c -- evolution by islands and cells: a ticket expands a parent drawn from an
 * island, and its children join that island.
 *
 * Parents after ShinkaEvolve ("weighted", Lange et al. 2025) and TTT-Discover ("puct", 2026); cells
 * after MAP-Elites (Mouret and Clune 2015): an island keeps one member for each cell.
 */
#include "core/frontier.h"
#include "core/search_policy.h"

#include <string.h>

typedef struct EvolveNode {
    double best_child; /* the highest score of its children, if it has any */
    int64_t cell;
    uint32_t children, pending; /* in the tree; tickets of this round at it */
    uint32_t expansions;
    uint32_t tickets; /* at it or below it, with those of this round */
    bool exhausted;   /* an expansion returned nothing */
} EvolveNode;

typedef struct Numbers { /* for medians */
    HEAP_OF(double);
} Numbers;

static bool is_less(const Numbers *h, double a, double b)
{
    (void)h;
    return a < b;
}

#define HEAP_TYPE   Numbers
#define HEAP_ENTRY  double
#define HEAP_BEFORE is_less
#define HEAP(name)  numbers_##name
#include "core/heap.h"

typedef struct Evolve {
    IdList *islands; /* their members in order of joining */
    IdList eligible; /* of the current island */
    IdList moving;   /* migration: members, and where each goes */
    Numbers numbers;
    Frontier ranks;
} Evolve;

static EvolveNode *stats_of(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

static double score_of(const Search *s, uint32_t id)
{
    return search_node(s, id)->score;
}

/* ---- parents ---- */

/* The median of a non-empty list. */
static double median(Numbers *numbers)
{
    size_t half = numbers->count / 2, odd = numbers->count % 2;
    double at = numbers_select(numbers, half + odd);
    if (odd)
        return at;
    double next = INFINITY;
    for (size_t i = half; i < numbers->count; i++)
        next = numbers->items[i] < next ? numbers->items[i] : next;
    return (at + next) / 2;
}

static uint32_t draw_weighted(Search *s, uint32_t island)
{
    Evolve *e = s->data;
    const IdList *members = &e->eligible;
    e->numbers.count = 0;
    for (size_t i = 0; i < members->count; i++)
        vec_push(&e->numbers, score_of(s, members->items[i]));
    double middle = median(&e->numbers), sum = 0;
    for (size_t i = 0; i < members->count; i++)
        e->numbers.items[i] = fabs(score_of(s, members->items[i]) - middle);
    double scale = median(&e->numbers);
    scale = scale > 1e-6 ? scale : 1e-6;
    for (size_t i = 0; i < members->count; i++) {
        const EvolveNode *node = stats_of(s, members->items[i]);
        double x = s->options.sharpness * ((score_of(s, members->items[i]) - middle) / scale);
        double power = exp(-fabs(x)), sigmoid = (x >= 0 ? 1 : power) / (1 + power);
        sum += sigmoid / (1 + ((double)node->children + node->pending));
        e->numbers.items[i] = sum;
    }
    SearchDraw d = search_draw(s->options.seed, search_ticket_number(s), 0, island);
    double t = search_uniform(&d) * sum;
    size_t i = 0;
    while (i + 1 < members->count && !(e->numbers.items[i] > t))
        i++;
    return members->items[i];
}

/* Sorts the best `wanted` members to the front of `ranks`, which is empty and has room. */
static void rank(Search *s, const IdList *members, size_t wanted)
{
    Evolve *e = s->data;
    for (size_t i = 0; i < members->count; i++) {
        uint32_t id = members->items[i];
        frontier_push(&e->ranks, (FrontierEntry){score_of(s, id), id});
    }
    frontier_sort(&e->ranks, wanted);
}

static uint32_t choose_puct(Search *s)
{
    const Evolve *e = s->data;
    rank(s, &e->eligible, e->eligible.count);
    const FrontierEntry *ranks = e->ranks.items;
    double m = (double)e->ranks.count, scale = ranks[0].score - ranks[e->ranks.count - 1].score;
    double highest = 0, root = sqrt(1 + (double)search_ticket_number(s));
    uint32_t best = SEARCH_NO_NODE;
    scale = scale > 1e-6 ? scale : 1e-6;
    for (size_t r = 0; r < e->ranks.count; r++) {
        const EvolveNode *node = stats_of(s, ranks[r].id);
        double p = (m - (double)r) / (m * (m + 1) / 2);
        double q = node->children > 0 ? node->best_child : ranks[r].score;
        double bound = q + s->options.c * scale * p * root / (1 + (double)node->tickets);
        if (best == SEARCH_NO_NODE || bound > highest || (bound == highest && ranks[r].id < best)) {
            best = ranks[r].id;
            highest = bound;
        }
    }
    return best;
}

static uint32_t choose_best(const Search *s)
{
    const Evolve *e = s->data;
    uint32_t best = e->eligible.items[0];
    for (size_t i = 1; i < e->eligible.count; i++) {
        uint32_t id = e->eligible.items[i];
        if (score_of(s, id) > score_of(s, best) ||
            (score_of(s, id) == score_of(s, best) && id < best))
            best = id;
    }
    return best;
}

/* ---- select ---- */

/* Lists the members of an island that may be parents; false: no memory. */
static bool list_eligible(Search *s, const IdList *island)
{
    Evolve *e = s->data;
    e->eligible.count = e->numbers.count = 0;
    frontier_keep(&e->ranks, 0);
    if (!vec_reserve(&e->eligible, &s->alloc, island->count) ||
        !vec_reserve(&e->numbers, &s->alloc, island->count) ||
        !vec_reserve(&e->ranks, &s->alloc, island->count))
        return false;
    for (size_t i = 0; i < island->count; i++)
        if (search_expandable(s, island->items[i]) && !stats_of(s, island->items[i])->exhausted)
            vec_push(&e->eligible, island->items[i]);
    return true;
}

/* The first island, from the next ticket's own on, with eligible members, which it lists. */
static SearchStatus find_island(Search *s, uint32_t *island)
{
    Evolve *e = s->data;
    for (uint32_t i = 0; i < s->options.islands; i++) {
        *island = (uint32_t)((search_ticket_number(s) + i) % s->options.islands);
        if (!list_eligible(s, &e->islands[*island]))
            return SEARCH_NO_MEMORY;
        if (e->eligible.count > 0)
            return SEARCH_OK;
    }
    return SEARCH_OVER;
}

static void add_ticket(Search *s, uint32_t island)
{
    uint32_t parent = s->options.select == PARENT_WEIGHTED ? draw_weighted(s, island)
                      : s->options.select == PARENT_PUCT   ? choose_puct(s)
                                                           : choose_best(s);
    SearchTicket *t = search_select(s, parent);
    EvolveNode *node = stats_of(s, parent);
    t->arm = island;
    t->expansions = node->expansions + node->pending++;
    for (uint32_t v = parent; v != SEARCH_NO_NODE; v = search_node(s, v)->parent)
        stats_of(s, v)->tickets++;
}

static SearchStatus select_parents(Search *s)
{
    uint64_t limit = search_round_limit(s);
    uint32_t island;
    SearchStatus status = find_island(s, &island);
    if (status == SEARCH_OK && limit == 0)
        return SEARCH_LIMIT;
    for (; status == SEARCH_OK && limit > 0; limit--) {
        if (!search_reserve_tickets(s, 1))
            return SEARCH_NO_MEMORY;
        add_ticket(s, island);
        if (limit > 1)
            status = find_island(s, &island);
    }
    return status == SEARCH_NO_MEMORY ? status : SEARCH_OK;
}

/* ---- back up ---- */

static void leave(IdList *island, size_t i)
{
    island->count--;
    memmove(&island->items[i], &island->items[i + 1], (island->count - i) * sizeof *island->items);
}

static bool join(Search *s, IdList *island, uint32_t id)
{
    for (size_t i = 0; i < island->count && s->options.asks[SEARCH_FEATURES]; i++) {
        if (stats_of(s, island->items[i])->cell != stats_of(s, id)->cell)
            continue;
        if (!(score_of(s, id) > score_of(s, island->items[i])))
            return true;
        leave(island, i);
        break;
    }
    if (!vec_reserve(island, &s->alloc, 1))
        return false;
    vec_push(island, id);
    if (s->options.population == 0 || island->count <= s->options.population)
        return true;
    size_t worst = 0;
    for (size_t i = 1; i < island->count; i++) {
        double x = score_of(s, island->items[i]), y = score_of(s, island->items[worst]);
        if (x < y || (x == y && island->items[i] > island->items[worst]))
            worst = i;
    }
    leave(island, worst);
    return true;
}

static bool is_member(const IdList *island, uint32_t id)
{
    for (size_t i = 0; i < island->count; i++)
        if (island->items[i] == id)
            return true;
    return false;
}

/* Copies the best members of each island to the next one; chooses all before moving any. */
static bool migrate(Search *s)
{
    Evolve *e = s->data;
    e->moving.count = 0;
    for (uint32_t i = 0; i < s->options.islands; i++) {
        const IdList *island = &e->islands[i];
        size_t wanted = island->count < s->options.migrate ? island->count : s->options.migrate;
        frontier_keep(&e->ranks, 0);
        if (!vec_reserve(&e->ranks, &s->alloc, island->count) ||
            !vec_reserve(&e->moving, &s->alloc, 2 * wanted))
            return false;
        rank(s, island, wanted);
        for (size_t j = 0; j < wanted; j++) {
            vec_push(&e->moving, e->ranks.items[j].id);
            vec_push(&e->moving, (i + 1) % s->options.islands);
        }
    }
    for (size_t i = 0; i < e->moving.count; i += 2) {
        IdList *to = &e->islands[e->moving.items[i + 1]];
        if (!is_member(to, e->moving.items[i]) && !join(s, to, e->moving.items[i]))
            return false;
    }
    return true;
}

static bool begin(Search *s)
{
    Evolve *e = s->data;
    size_t size = s->options.islands * sizeof *e->islands;
    e->islands = alloc_resize(&s->alloc, NULL, 0, size);
    if (e->islands == NULL)
        return false;
    memset(e->islands, 0, size);
    for (uint32_t i = 0; i < s->options.islands; i++)
        if (!join(s, &e->islands[i], 0))
            return false;
    return true;
}

static bool back_up_ticket(Search *s, const SearchTicket *t)
{
    Evolve *e = s->data;
    EvolveNode *node = stats_of(s, t->node);
    node->pending--;
    node->expansions++;
    node->exhausted = node->exhausted || t->last == 0;
    for (uint32_t id = t->first; id < t->end; id++) {
        if (node->children++ == 0 || score_of(s, id) > node->best_child)
            node->best_child = score_of(s, id);
        if (!join(s, &e->islands[t->arm], id))
            return false;
    }
    return true;
}

static bool back_up(Search *s)
{
    uint64_t every = s->options.migrate_every, before = s->iterations;
    if (s->rounds == 1)
        return begin(s);
    for (size_t i = 0; i < s->tickets.count; i++)
        if (!back_up_ticket(s, &s->tickets.items[i]))
            return false;
    return every == 0 || before / every == (before + s->tickets.count) / every || migrate(s);
}

static void fill_facts(const Search *s, uint32_t id, SearchFacts *facts)
{
    facts->has_expansions = true;
    facts->expansions = stats_of(s, id)->expansions;
}

static bool members_of(const Search *s, uint32_t i, const uint32_t **ids, size_t *count)
{
    const Evolve *e = s->data;
    if (e->islands == NULL || i >= s->options.islands)
        return false;
    *ids = e->islands[i].items;
    *count = e->islands[i].count;
    return true;
}

void search_tell_cell(Search *s, uint32_t node, int64_t cell)
{
    stats_of(s, node)->cell = cell;
}

static void free_data(Search *s)
{
    Evolve *e = s->data;
    for (uint32_t i = 0; i < s->options.islands && e->islands != NULL; i++)
        vec_free(&e->islands[i], &s->alloc);
    alloc_free(&s->alloc, e->islands, s->options.islands * sizeof *e->islands);
    vec_free(&e->eligible, &s->alloc);
    vec_free(&e->moving, &s->alloc);
    vec_free(&e->numbers, &s->alloc);
    vec_free(&e->ranks, &s->alloc);
}

const SearchPolicy search_evolve = {
    .node_size = sizeof(EvolveNode),
    .data_size = sizeof(Evolve),
    .back_up = back_up,
    .select = select_parents,
    .free = free_data,
    .facts = fill_facts,
    .group = members_of,
    .counts_iterations = true,
};

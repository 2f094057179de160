/*
 * tot_fuzz.c -- libFuzzer target for src/core/tot.c and tot_load.c. `make fuzz` runs it a short
 * while.
 *
 * An input is a program: options, then either replies to open calls, or the parts of a saved
 * machine, which may be inconsistent; some allocations fail. Besides what the
 * sanitizers find, it checks the invariants of machines, run or loaded.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tot.h"

#define CHECK(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Input {
    const uint8_t *at, *end;
} Input;

static uint8_t next(Input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static bool allocation_fails;

static void *allocate(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    (void)osize;
    if (nsize == 0) {
        free(ptr);
        return NULL;
    }
    if (allocation_fails) {
        allocation_fails = false;
        return NULL;
    }
    return realloc(ptr, nsize);
}

static const Alloc alloc = {allocate, NULL};

static TotOptions some_options(Input *in)
{
    uint32_t branching_factor = 1 + next(in) % 4, max_depth = 1 + next(in) % 5;
    uint32_t min_depth = next(in) % 3, max_nodes = 1 + next(in) % 60;
    TotOptions options = {
        .min_depth = min_depth,
        .convergence_window = 1 + next(in) % 4,
        .max_parse_retries = next(in) % 2,
        .order = next(in) % 4,
        .measure = next(in) % 2,
        .stop_at_max_depth = next(in) % 2,
        .early_success_threshold = 0.5 + next(in) % 6 / 10.0,
        .min_score_improvement = next(in) % 3 / 50.0 - 0.02,
        .max_duration_ms = next(in) % 2 ? INFINITY : 50,
    };
    bool ordered = options.order != TOT_SEARCH;
    options.search = (SearchOptions){
        .strategy = ordered ? SEARCH_BEST_FIRST : next(in) % SEARCH_STRATEGIES,
        .expandable_only = ordered,
        .k = branching_factor,
        .max_depth = max_depth,
        .max_nodes = max_nodes,
        .beam_width = next(in) % 4 + !ordered,
        .batch = 1 + next(in) % 4,
        .window = 1,
        .max_iterations = 1 + next(in) % 20,
        .c = 1,
        .c_init = 1,
        .c_base = 100,
        .guide = NAN,
        .normalize = next(in) % 2,
        .greedy = next(in) % 2,
        .prior = next(in) % 3,
        .posterior = next(in) % 3,
        .weight = 1,
        .subtrees = 1 + next(in) % 3,
        .islands = 1 + next(in) % 3,
        .migrate = 1,
        .migrate_every = next(in) % 3,
        .sharpness = 10,
    };
    return options;
}

static void check_candidates(const Tot *t)
{
    const TotNode *nodes = t->nodes.items;
    uint32_t *ids = malloc(t->nodes.count * sizeof *ids + 1);
    uint32_t count = tot_candidates(t, ids, 8);
    for (uint32_t i = 1; i < t->nodes.count; i++)
        if (tot_is_leaf(t, i))
            CHECK(count > 0 && nodes[i].score <= nodes[ids[0]].score);
    for (uint32_t i = 0; i < count; i++)
        CHECK(tot_is_leaf(t, ids[i]) && (i == 0 || nodes[ids[i]].score <= nodes[ids[i - 1]].score));
    free(ids);
}

static void check_tree(const Tot *t)
{
    for (uint32_t i = 1; i < t->nodes.count; i++) {
        const TotNode *node = &t->nodes.items[i];
        const SearchNode *tree = search_node(&t->search, i);
        CHECK(tree->parent < i && node->score >= 0 && node->score <= 1);
        CHECK(i <= t->nodes.items[tree->parent].last_child && node->sibling_before < i);
        CHECK(node->sibling_before == 0 ||
              search_node(&t->search, node->sibling_before)->parent == tree->parent);
        CHECK(tree->depth == search_node(&t->search, tree->parent)->depth + 1);
    }
    CHECK(t->machine.call_count == 0 || machine_is_busy(&t->machine));
    check_candidates(t);
}

static void check_frontier(const Tot *t)
{
    uint32_t count = tot_frontier_size(t), *ids = malloc(count * sizeof *ids + 1);
    allocation_fails = false;
    CHECK(tot_list_frontier(t, ids) == TOT_DONE);
    for (uint32_t i = 0; i < count; i++)
        CHECK(ids[i] < t->nodes.count && tot_is_leaf(t, ids[i]));
    free(ids);
}

/* Ends a round whose scores are in, as lua/ponder/tot.lua does. */
static void finish_round(Tot *t, double now)
{
    CHECK(t->nodes.count <= t->options.search.max_nodes);
    if (tot_verdict(t, now, false) != NULL) {
        CHECK(machine_finish(&t->machine, MACHINE_COMPLETED, now));
    } else if (tot_enqueue_children(t) != TOT_DONE) {
        CHECK(machine_finish(&t->machine, MACHINE_ERROR, now));
    } else {
        TotOutcome outcome = tot_next_round(t, NULL, 0);
        bool over = outcome == TOT_OVER || outcome == TOT_LIMIT;
        if (outcome != TOT_DONE)
            CHECK(machine_finish(&t->machine, over ? MACHINE_COMPLETED : MACHINE_ERROR, now));
    }
}

static void reply(Tot *t, Input *in, double now)
{
    uint64_t number = t->machine.calls[next(in) % t->machine.call_count].number, asked;
    uint8_t roll = next(in);
    TotSlot *slot;
    if (roll < 8) {
        machine_finish(&t->machine, MACHINE_ERROR, now);
    } else if (roll < 24) {
        tot_repair(t, number, &asked);
    } else if (tot_slot_of(t, number, TOT_CALL_GENERATE) != NULL) {
        tot_thoughts(t, number, roll % 7, &asked);
    } else if ((slot = tot_slot_of(t, number, TOT_CALL_EVALUATE)) != NULL) {
        for (uint32_t i = 0; i < slot->thought_count; i++)
            slot->scores[i] = next(in) / 255.0;
        if (tot_scored(t, number) != TOT_DONE)
            machine_finish(&t->machine, MACHINE_ERROR, now);
        else if (tot_round_complete(t))
            finish_round(t, now);
    }
}

static void begin(Tot *t, const TotOptions *options)
{
    memset(t, 0, sizeof *t);
    machine_init(&t->machine, &alloc, &tot_kind);
    CHECK(tot_init(t, options));
}

static void go_on(Tot *t, Input *in)
{
    for (double now = 1; in->at < in->end && machine_is_busy(&t->machine); now++) {
        if (t->machine.call_count == 0) { /* a round that failed half way */
            machine_finish(&t->machine, MACHINE_ERROR, now);
            break;
        }
        allocation_fails = next(in) == 255;
        reply(t, in, now);
        allocation_fails = false;
        check_tree(t);
        check_frontier(t);
    }
}

/* A saved machine, part by part; what does not fit is refused. */
static void load(Tot *t, Input *in)
{
    Machine *m = &t->machine;
    m->status = next(in) % 6;
    m->next_number = 9;
    uint8_t open = next(in) % 5;
    if (!machine_reserve(m, open))
        return;
    for (uint8_t i = 0; i < open; i++)
        m->calls[m->call_count++] = (MachineCall){i + next(in) % 2, next(in) % 2, next(in) % 4};
    m->current = (MachineCall){next(in) % 9, next(in) % 2, next(in) % 4};
    if (!machine_is_coherent(m))
        return;
    if (open > 0)
        m->current = m->calls[0];
    for (uint8_t i = next(in) % 16; i > 0; i--) {
        uint8_t parent = next(in);
        tot_load_node(t, parent == 255 ? SEARCH_NO_NODE : parent % 8,
                      parent == 255 ? NAN : next(in) / 200.0);
    }
    for (uint8_t i = next(in) % 4; i > 0; i--) {
        TotSlot slot = {.node = next(in) % 16,
                        .awaits = next(in) % 3,
                        .thought_count = next(in) % 5,
                        .retries = next(in) % 2};
        if (tot_load_slot(t, slot) == TOT_DONE && slot.awaits == TOT_CALLS)
            for (uint32_t n = 0; n < slot.thought_count; n++)
                t->slots.items[t->slots.count - 1].scores[n] = 0.1 * n;
    }
    uint32_t waiting[4], count = next(in) % 5;
    for (uint32_t i = 0; i < count; i++)
        waiting[i] = next(in) % 16;
    bool fits = tot_load_frontier(t, waiting, count) == TOT_DONE;
    uint8_t expansions = next(in) % 4;
    if (!vec_reserve(&t->expansions, &alloc, expansions) || !vec_reserve(&t->measures, &alloc, 1))
        return;
    for (; expansions > 0; expansions--)
        vec_push(&t->expansions, next(in) % 4);
    vec_push(&t->measures, next(in) / 255.0);
    uint8_t answer = next(in);
    if (tot_load_end(t, answer < 16 ? answer : SEARCH_NO_NODE) == TOT_DONE && fits)
        go_on(t, in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input in = {data, data + size};
    TotOptions options = some_options(&in);
    Tot t;
    begin(&t, &options);
    if (next(&in) % 2) {
        load(&t, &in);
    } else if (tot_init_root(&t) == TOT_DONE) {
        CHECK(machine_start(&t.machine, next(&in), 0));
        tot_open_calls(&t);
        go_on(&t, &in);
    }
    tot_free(&t);
    return 0;
}

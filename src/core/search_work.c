/*
 * search_work.c -- the order of the work on a round; see search.h.
 *
 * In its turn a ticket asks stop(v) and expand(v), makes its children, evaluates them all, and asks
 * for their prior. Ids follow the order of the tickets, since a ticket makes its children only
 * after the previous one has. With a window of one ticket nothing is done out of turn; with more,
 * tickets are opened ahead of their turn, which then finds the work done.
 *
 * The units of one ticket:
 *
 *     STOP                                   in its turn
 *     EXPAND [COST KEY MAKE]...              one; or the rest of it once the list is there
 *     EVALUATE IS_TERMINAL SIMULATE FEATURES REFLECT     for each child, all at the same time
 *     EVALUATE_ALL                           before IS_TERMINAL, for all children of the ticket; or
 *                                            of the round, as a ticket that follows the others
 *     PRIOR                                  when all children are evaluated
 *     events                                 in its turn, as soon as what they report is done
 */
#include "core/search_policy.h"

static bool scores_levels(const Search *s)
{
    return s->options.asks[SEARCH_EVALUATE_ALL] && s->policy->scores_levels;
}

/* ---- units that are ready ---- */

/* Field by field: copying the struct would stall on the fields just stored. */
static inline void set_ask(SearchAsk *ask, SearchCall call, uint32_t ticket, uint32_t node,
                           uint32_t last)
{
    ask->call = call;
    ask->ticket = ticket;
    ask->node = node;
    ask->last = last;
}

static inline void copy_ask(SearchAsk *ask, const SearchAsk *from)
{
    set_ask(ask, from->call, from->ticket, from->node, from->last);
}

static bool push_ready(Search *s, SearchCall call, uint32_t ticket, uint32_t node, uint32_t last)
{
    if (s->ready_next == s->ready.count)
        s->ready_next = s->ready.count = 0;
    if (!vec_reserve(&s->ready, &s->alloc, 1)) {
        search_end(s, OUTCOME_NO_MEMORY, s->committed);
        return false;
    }
    set_ask(&s->ready.items[s->ready.count++], call, ticket, node, last);
    return true;
}

/* Pops the first unit; an entry about children stands for a range of them. */
static bool pop_ready(Search *s, SearchAsk *ask)
{
    while (s->ready_next < s->ready.count) {
        SearchAsk *first = &s->ready.items[s->ready_next];
        copy_ask(ask, first);
        if (!search_is_about_child(first->call) || first->node == first->last ||
            s->has_plain_children)
            s->ready_next++;
        else
            first->node++;
        const SearchTicket *t = &s->tickets.items[ask->ticket];
        if (search_is_about_child(ask->call) && ask->node > t->failed_from)
            continue;
        s->in_flight++;
        return true;
    }
    return false;
}

/* The callback after `done` in the unit of a new node; SEARCH_WAIT: none. */
static SearchCall call_after(const Search *s, SearchCall done, uint32_t id)
{
    for (SearchCall call = done + 1; search_is_about_child(call); call++) {
        bool terminal = search_node(s, id)->terminal;
        bool is_due = call == SEARCH_SIMULATE  ? id > 0 && !terminal
                      : call == SEARCH_REFLECT ? terminal
                                               : true;
        if (is_due && s->options.asks[call])
            return call;
    }
    return SEARCH_WAIT;
}

/* ---- children ---- */

/* The children of a ticket are all evaluated. */
static void finish_children(Search *s, uint32_t ticket)
{
    SearchTicket *t = &s->tickets.items[ticket];
    bool asks_prior = s->options.prior == PRIOR_ASKED && t->node != SEARCH_NO_NODE && !t->full;
    if (t->stage == STAGE_EVALUATING && asks_prior && t->end > t->first)
        push_ready(s, SEARCH_PRIOR, ticket, t->first, t->end - 1);
    else
        t->stage = STAGE_DONE;
}

/* The children of a ticket are made: *ask is the first unit about them; false: none. */
static bool begin_children(Search *s, uint32_t ticket, SearchAsk *ask)
{
    SearchTicket *t = &s->tickets.items[ticket];
    t->stage = t->first == t->end ? STAGE_DONE : STAGE_EVALUATING;
    set_ask(ask, s->options.asks[SEARCH_EVALUATE_ALL] ? SEARCH_EVALUATE_ALL : s->first_call, ticket,
            t->first, t->end - 1);
    return t->stage == STAGE_EVALUATING;
}

static void evaluate_children(Search *s, uint32_t ticket)
{
    SearchAsk ask;
    if (begin_children(s, ticket, &ask))
        push_ready(s, ask.call, ask.ticket, ask.node, ask.last);
}

static void begin_root(Search *s, uint32_t ticket)
{
    search_note_root(s);
    evaluate_children(s, ticket);
}

static bool begin_making(Search *s, SearchAsk *ask);

/* Moves on to the next ticket that has to make its children. */
static void advance_maker(Search *s)
{
    for (; s->maker < s->opened && !s->refused; s->maker++) {
        SearchTicket *t = &s->tickets.items[s->maker];
        if (t->failed || t->stage == STAGE_EXPANDING || t->stage == STAGE_MAKING)
            return;
        if (t->stage == STAGE_LISTED) {
            SearchAsk ask = {SEARCH_MAKE, s->maker, t->node, 0};
            if (begin_making(s, &ask))
                push_ready(s, ask.call, ask.ticket, ask.node, 0);
            return;
        }
        if (t->node != SEARCH_NO_NODE && !t->expands)
            t->first = t->end = s->count;
    }
}

/* With one unit at a time it continues with the children; true: *ask is about them. */
static bool finish_making(Search *s, SearchAsk *ask)
{
    SearchTicket *t = &s->tickets.items[ask->ticket];
    bool continues = false;
    t->end = s->count;
    if (scores_levels(s))
        t->stage = STAGE_DONE;
    else if (s->has_plain_children)
        continues = begin_children(s, ask->ticket, ask);
    else
        evaluate_children(s, ask->ticket);
    s->maker++;
    advance_maker(s);
    return continues;
}

/* What the ticket that makes its children needs next; false: nothing. */
static bool continue_making(Search *s, SearchAsk *ask)
{
    SearchTicket *t = &s->tickets.items[ask->ticket];
    if (t->next == t->last || t->full)
        return finish_making(s, ask);
    if (s->options.asks[SEARCH_COST] && !t->cost_known)
        ask->call = SEARCH_COST;
    else if (s->options.asks[SEARCH_KEY] && !t->key_known)
        ask->call = SEARCH_KEY;
    else
        ask->call = SEARCH_MAKE;
    return true;
}

static bool begin_making(Search *s, SearchAsk *ask)
{
    SearchTicket *t = &s->tickets.items[ask->ticket];
    t->stage = STAGE_MAKING;
    t->first = t->end = s->count;
    return continue_making(s, ask);
}

/* ---- after a callback ---- */

/* A callback about a new node has returned; whether another one follows. */
static bool continue_child(Search *s, SearchAsk *ask)
{
    if (search_is_range(s, ask->call)) {
        finish_children(s, ask->ticket);
        return false;
    }
    SearchCall next = call_after(s, ask->call, ask->node);
    if (next != SEARCH_WAIT) {
        ask->call = next;
        return true;
    }
    SearchTicket *t = &s->tickets.items[ask->ticket];
    search_set_evaluated(s, ask->node);
    if (++t->evaluated == t->end - t->first)
        finish_children(s, ask->ticket);
    return false;
}

bool search_continue(Search *s, SearchAsk *ask)
{
    bool continues = false;
    if (s->ended)
        return false;
    switch (ask->call) {
    case SEARCH_EXPAND:
        continues = s->maker == ask->ticket && !s->refused && begin_making(s, ask);
        break;
    case SEARCH_COST:
    case SEARCH_KEY:
    case SEARCH_MAKE:
        if (s->tickets.items[ask->ticket].node == SEARCH_NO_NODE)
            begin_root(s, ask->ticket); /* its key is known */
        else
            continues = continue_making(s, ask);
        break;
    case SEARCH_EVALUATE_ALL:
        push_ready(s, SEARCH_IS_TERMINAL, ask->ticket, ask->node, ask->last);
        break;
    case SEARCH_PRIOR: s->tickets.items[ask->ticket].stage = STAGE_DONE; break;
    case SEARCH_EVALUATE:
    case SEARCH_IS_TERMINAL:
    case SEARCH_SIMULATE:
    case SEARCH_FEATURES:
    case SEARCH_REFLECT: continues = continue_child(s, ask); break;
    default: s->in_turn_call = false; return false;
    }
    s->in_flight -= !continues;
    return continues;
}

/* ---- turns ---- */

/* Asks a callback that nothing may overtake; false: it was not given. */
static bool ask_in_turn(Search *s, SearchAsk *ask, SearchCall call, uint32_t node)
{
    if (!s->options.asks[call])
        return false;
    s->in_turn_call = true;
    set_ask(ask, call, s->head, node, node);
    return true;
}

/* After the last ticket: adds a ticket that evaluates the whole level. */
static bool add_level(Search *s)
{
    if (!search_reserve_tickets(s, 1)) {
        search_end(s, OUTCOME_NO_MEMORY, s->committed);
        return false;
    }
    SearchTicket ticket = {.node = SEARCH_NO_NODE,
                           .first = s->round_children,
                           .end = s->committed,
                           .failed_from = SEARCH_NO_NODE};
    vec_push(&s->tickets, ticket);
    return true;
}

/* The ticket in turn is done: from now on its nodes count. */
static void commit(Search *s, const SearchTicket *t)
{
    /* The children of a level are evaluated by a ticket of its own. */
    bool evaluated = t->node == SEARCH_NO_NODE || !scores_levels(s);
    s->committed = t->end;
    s->full = s->full || t->full;
    s->head++;
    s->turn = TURN_STOP;
    if (evaluated)
        search_update_best(s, s->committed);
    if (s->full && evaluated)
        search_end(s, OUTCOME_MAX_NODES, s->committed);
    else if (!evaluated && (s->full || s->head == s->tickets.count)) {
        s->head = (uint32_t)s->tickets.count; /* tickets after a full one do not count */
        s->opened = s->maker = s->head;
        if (s->committed > s->round_children)
            add_level(s);
        else if (s->full)
            search_end(s, OUTCOME_MAX_NODES, s->committed);
    }
}

static void fail_in_turn(Search *s, SearchCall call, uint32_t node, uint32_t keep)
{
    s->failure = (SearchAsk){call, s->head, node, node};
    search_end(s, OUTCOME_FAILED, keep);
}

/* Whether the expansion of the ticket in turn is over, and counts; the search may end instead. */
static bool finish_expansion(Search *s, const SearchTicket *t)
{
    if (s->answer != SEARCH_NO_NODE)
        search_end(s, OUTCOME_OVER, s->committed);
    else if (t->failed && t->stage < STAGE_EVALUATING)
        fail_in_turn(s, SEARCH_EXPAND, t->node, s->committed);
    if (s->ended || t->stage < STAGE_EVALUATING)
        return false;
    s->reported = t->first;
    if (t->expands) {
        s->expansions++;
        s->duplicates += t->duplicates;
        s->children_dropped += t->dropped;
    }
    return true;
}

/* Commits the ticket in turn if its children are evaluated; false: not yet, or the search ended. */
static bool finish_ticket(Search *s, const SearchTicket *t)
{
    if (t->failed)
        fail_in_turn(s, SEARCH_EXPAND, t->node, t->end);
    else if (s->evaluated_prefix >= t->failed_from ||
             (t->failed_from != SEARCH_NO_NODE && t->fails_at_once))
        fail_in_turn(s, SEARCH_EVALUATE, t->failed_from, t->end);
    if (s->ended || t->stage != STAGE_DONE)
        return false;
    commit(s, t);
    return true;
}

/* Advances the ticket in turn as far as its work allows; true: *ask is set. */
static bool take_turn(Search *s, SearchAsk *ask)
{
    while (s->head < s->tickets.count && !s->in_turn_call && !s->ended) {
        const SearchTicket *t = &s->tickets.items[s->head];
        bool of_node = t->node != SEARCH_NO_NODE;
        switch ((SearchTurn)s->turn) {
        case TURN_STOP:
            s->turn = TURN_WORK;
            if (s->policy->terminal_ends && of_node && search_node(s, t->node)->terminal)
                s->answer = t->node;
            if (of_node && ask_in_turn(s, ask, SEARCH_STOP, t->node))
                return true;
            /* fall through */
        case TURN_WORK:
            if (!finish_expansion(s, t))
                return false;
            s->turn = TURN_SCORED;
            if (t->expands && ask_in_turn(s, ask, SEARCH_EXPANDED_EVENT, t->node))
                return true;
            /* fall through */
        case TURN_SCORED:
            if (s->reported < t->end && search_node(s, s->reported)->evaluated &&
                ask_in_turn(s, ask, SEARCH_SCORED_EVENT, s->reported)) {
                s->reported++;
                return true;
            }
            if (!finish_ticket(s, t))
                return false;
        }
    }
    return false;
}

/* Begins the work on the next ticket, if the window allows it; may set *ask at once. */
static bool open_ticket(Search *s, SearchAsk *ask)
{
    if (s->opened == s->tickets.count && s->policy->extend != NULL && s->head < s->opened &&
        s->opened - s->head < s->options.window && !s->options.asks[SEARCH_REFLECT]) {
        SearchStatus status = SEARCH_OK;
        if (!s->policy->extend(s, &status))
            return false;
    }
    if (s->opened == s->tickets.count || s->opened - s->head >= s->options.window ||
        (s->options.window == 1 && s->turn < TURN_WORK))
        return false;
    uint32_t ticket = s->opened++;
    SearchTicket *t = &s->tickets.items[ticket];
    ask->call = SEARCH_WAIT;
    if (t->expands) {
        t->stage = STAGE_EXPANDING;
        set_ask(ask, SEARCH_EXPAND, ticket, t->node, t->node);
        s->in_flight++;
    } else if (t->node != SEARCH_NO_NODE) {
        t->stage = STAGE_DONE;
        advance_maker(s);
    } else {
        s->maker = s->opened;
        if (s->rounds == 1 && s->options.asks[SEARCH_KEY])
            return push_ready(s, SEARCH_KEY, ticket, 0, 0);
        if (s->rounds == 1)
            begin_root(s, ticket);
        else
            evaluate_children(s, ticket);
    }
    return true;
}

/* ---- between rounds ---- */

static void end_round(Search *s, SearchStatus status)
{
    static const SearchOutcome outcomes[] = {[SEARCH_OVER] = OUTCOME_OVER,
                                             [SEARCH_LIMIT] = OUTCOME_MAX_ITERATIONS,
                                             [SEARCH_NO_MEMORY] = OUTCOME_NO_MEMORY};
    if (status != SEARCH_OK)
        search_end(s, outcomes[status], s->count);
    s->head = s->opened = s->maker = 0;
    s->turn = TURN_STOP;
}

/* Moves from a finished round to the next one; true: *ask is set. */
static bool step_round(Search *s, SearchAsk *ask)
{
    SearchStatus status = SEARCH_OK;
    switch ((SearchRoundStep)s->round_step) {
    case ROUND_OVER:
        if (search_next_wave(s, &status))
            return false;
        if (status != SEARCH_OK || (s->rounds > 0 && !search_back_up(s))) {
            end_round(s, SEARCH_NO_MEMORY);
            return false;
        }
        s->round_step = ROUND_BACKED_UP;
        if (s->pruned.count > 0 && ask_in_turn(s, ask, SEARCH_PRUNED_EVENT, 0))
            return true;
        /* fall through */
    case ROUND_BACKED_UP:
        s->round_step = ROUND_SPENT;
        if (s->rounds > 0 && ask_in_turn(s, ask, SEARCH_SPENT, 0))
            return true;
        /* fall through */
    case ROUND_SPENT: s->round_step = ROUND_OVER; end_round(s, search_next_round(s));
    }
    return false;
}

void search_begin(Search *s)
{
    const SearchOptions *o = &s->options;
    s->has_plain_children = o->window == 1 && !o->asks[SEARCH_SCORED_EVENT] &&
                            !o->asks[SEARCH_SIMULATE] && !o->asks[SEARCH_FEATURES] &&
                            !o->asks[SEARCH_REFLECT];
    s->first_call = o->asks[SEARCH_EVALUATE] ? SEARCH_EVALUATE : SEARCH_IS_TERMINAL;
}

bool search_ask(Search *s, SearchAsk *ask)
{
    for (;;) {
        if (s->ended) {
            ask->call = SEARCH_DONE;
            return s->outcome != OUTCOME_NO_MEMORY;
        }
        if (take_turn(s, ask) || pop_ready(s, ask))
            return true;
        if (s->ended)
            continue;
        if (open_ticket(s, ask)) {
            if (ask->call != SEARCH_WAIT)
                return true;
            continue;
        }
        if (s->ended)
            continue;
        if (s->in_turn_call || s->in_flight > 0 || s->head < s->tickets.count) {
            ask->call = SEARCH_WAIT;
            return true;
        }
        if (step_round(s, ask))
            return true;
    }
}

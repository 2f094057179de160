/*
 * search_tell.c -- stores the result of a callback; search_work.c decides what follows.
 */
#include "core/search_policy.h"

void search_tell_stop(Search *s, bool stop)
{
    if (stop)
        search_end(s, OUTCOME_STOP, s->committed);
}

void search_tell_list(Search *s, const SearchAsk *ask, uint64_t length)
{
    SearchTicket *t = &s->tickets.items[ask->ticket];
    t->last = length < t->width ? (uint32_t)length : t->width;
    t->dropped = length - t->last;
    t->next = 0;
    t->cost = 1;
    t->stage = STAGE_LISTED;
}

void search_tell_cost(Search *s, const SearchAsk *ask, double cost)
{
    SearchTicket *t = &s->tickets.items[ask->ticket];
    t->cost = cost;
    t->cost_known = true;
}

bool search_tell_key(Search *s, const SearchAsk *ask, const SearchKey *key)
{
    SearchTicket *t = &s->tickets.items[ask->ticket];
    KeyFound found = search_keys_add(&s->keys, &s->alloc, key, &t->key_entry);
    t->key_known = true;
    if (found == KEY_NO_MEMORY)
        search_end(s, OUTCOME_NO_MEMORY, s->committed);
    else if (found == KEY_KNOWN && t->node != SEARCH_NO_NODE &&
             (s->policy->makes_duplicate == NULL || !s->policy->makes_duplicate(s, t))) {
        t->duplicates++;
        search_set_next(t, t->next + 1);
    }
    return found != KEY_NO_MEMORY;
}

void search_tell_policy_score(Search *s, uint32_t node, double score)
{
    s->policy->score(s, node, score);
}

/* Whether the callback is made in its ticket's turn, so that nothing may overtake it. */
static bool is_in_turn(SearchCall call)
{
    return call == SEARCH_STOP || call == SEARCH_SPENT || call >= SEARCH_EXPANDED_EVENT;
}

void search_fail(Search *s, const SearchAsk *ask, bool at_once)
{
    if (s->ended)
        return;
    if (is_in_turn(ask->call)) { /* between two rounds there is no ticket */
        s->failure = *ask;
        search_end(s, OUTCOME_FAILED, s->committed);
        return;
    }
    SearchTicket *t = &s->tickets.items[ask->ticket];
    t->fails_at_once = t->fails_at_once || at_once;
    s->in_flight--;
    if (!search_is_about_child(ask->call))
        t->failed = true;
    else if (ask->node < t->failed_from)
        t->failed_from = ask->node;
}

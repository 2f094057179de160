/*
 * search_program.c -- the program of a ticket: which callbacks are asked, in which order.
 *
 *     TICKET     what it is: a node to expand, the root or a level to score
 *     STOP       stop(node), in its turn
 *     EXPAND     expand(state, k, node) -> a list of states
 *     ORDER      *
 *     ITEM       for each of them: COST, KEY, then the child is made
 *     MADE       *
 *     EXPANDED   event
 *     SCORE_ALL  evaluate_all
 *     CHILD      for each child: EVALUATE, IS_TERMINAL, SIMULATE, OWN (callbacks of a policy),
 *                REFLECT, then it is scored, and the SCORED event
 *     PRIOR      prior
 *     TURN       *
 *     STOP_LAST  stop(node) where the ticket scored its node (lazy)
 *     COMMIT     its nodes count
 *
 * `core:run` runs all tickets one after the other, and the steps between rounds; for ask and tell
 * it pauses before an expand whose answer was not told, and between rounds.
 *
 * The concurrent driver (lua/ponder/think/search/concurrent.lua) runs the same program ahead of its
 * turn. At the steps with a star it waits: in ORDER until the tickets before it have made their
 * children; after MADE these may begin; in place of CHILD until its children are scored, each by a
 * program of its own; in TURN until the tickets before it have committed. STOP, unless its turn had
 * come already, and the events follow then.
 *
 * A callback may yield (a model call, a sleep): Lua then calls `advance` again, with the callback's
 * three results on top of the stack.
 */
#include <math.h>

#include "api/l_search.h"
#include "api/task_stop.h"

typedef enum Step {
    /* between rounds */
    STEP_MORE,
    STEP_BACK_UP,
    STEP_PRUNED,
    STEP_SPENT,
    STEP_SELECT,
    STEP_BEGIN,
    /* of a ticket */
    STEP_TICKET,
    STEP_STOP,
    STEP_EXPAND,
    STEP_ORDER,
    STEP_ITEM,
    STEP_COST,
    STEP_KEY,
    STEP_MADE,
    STEP_EXPANDED,
    STEP_SCORE_ALL,
    STEP_CHILDREN,
    STEP_CHILD,
    STEP_EVALUATE,
    STEP_IS_TERMINAL,
    STEP_SIMULATE,
    STEP_OWN,
    STEP_REFLECT,
    STEP_SCORED,
    STEP_PRIOR,
    STEP_TURN,
    STEP_STOP_LAST,
    STEP_COMMIT,
    STEP_END
} Step;

static int advance(lua_State *L, int status, lua_KContext context);

/* ---- calls ---- */

static inline void call(lua_State *L, Program *p, int arguments)
{
    lua_callk(L, arguments, 3, (lua_KContext)p, advance);
}

/* Calls one of the functions that get ids (or for the concurrent driver, the number of a ticket).
 */
static void call_with_ids(lua_State *L, Program *p, Callback callback, uint32_t id, uint32_t more)
{
    lua_settop(L, TOP);
    p->calling = (uint8_t)callback;
    p->node = id;
    lua_rawgeti(L, CALLBACKS, (lua_Integer)callback + 1);
    lua_pushinteger(L, id);
    lua_pushinteger(L, more);
    call(L, p, 2);
}

/* Calls expand(state, k, node), cost(state, child_state, node), key(child_state), or another
 * callback with (state, node), about the node `id`. */
static inline void call_with_state(lua_State *L, Core *core, Program *p, Callback callback,
                                   uint32_t id)
{
    const SearchTicket *t = &core->search.tickets.items[p->ticket];
    lua_settop(L, TOP);
    p->calling = (uint8_t)callback;
    p->node = id;
    lua_rawgeti(L, CALLBACKS, (lua_Integer)callback + 1);
    if (callback == CALL_EXPAND || callback == CALL_COST) {
        core_get_state(L, STATES, id);
    } else if (callback != CALL_KEY) {
        program_use_chunk(L, p, id);
        lua_rawgeti(L, CHUNK, core_slot(id));
    }
    if (callback == CALL_KEY || callback == CALL_COST)
        lua_pushvalue(L, STATE);
    if (callback == CALL_EXPAND && t->k == SEARCH_ALL)
        lua_pushnil(L);
    else if (callback == CALL_EXPAND)
        lua_pushinteger(L, t->k);
    if (core->wants_node[callback])
        core_push_node(L, core, SELF, id, callback == CALL_EXPAND ? (lua_Integer)p->ticket + 1 : 0,
                       callback != CALL_EVALUATE && callback != CALL_IS_TERMINAL);
    call(L, p, lua_gettop(L) - TOP - 1);
}

static void set_score(Search *s, uint32_t id, double x)
{
    if (s->policy->score != NULL)
        s->policy->score(s, id, x);
    else
        search_node(s, id)->score = x;
}

/* ---- the program ---- */

/* The children of a level have a ticket of their own; lazy ones are scored when they are selected.
 */
uint32_t core_first_to_score(const Search *s, const SearchTicket *t)
{
    bool later =
        (t->node != SEARCH_NO_NODE && s->options.scores_levels) || (s->options.lazy && t->expands);
    return later ? t->end : t->first;
}

/* The next step of a program that runs all: a ticket, or what is between rounds. */
static void go_on(const Core *core, Program *p)
{
    const Search *s = &core->search;
    p->step = s->ended ? STEP_END : s->turn < s->tickets.count ? STEP_TICKET : STEP_MORE;
    p->ticket = s->turn;
    p->asked_stop = false;
}

/* A program that was ahead of its turn. */
static void begin_turn(const Search *s, Program *p, const SearchTicket *t)
{
    p->ahead = true;
    p->child = core_first_to_score(s, t);
    p->step = t->node == SEARCH_NO_NODE ? STEP_CHILD : STEP_STOP;
}

/* A step's callback: the call, unless Lua has come back from it; then its results are on the stack.
 */
#define AWAIT(call)                                                                                \
    do {                                                                                           \
        if (!returned)                                                                             \
            call;                                                                                  \
        returned = false;                                                                          \
        if (lua_isnil(L, RESULT) && lua_type(L, RESULT + 1) == LUA_TSTRING) /* nil, message */     \
            goto failed;                                                                           \
        if (p->ticket >= s->tickets.count && p->step >= STEP_TICKET)                               \
            goto changed;                                                                          \
        t = s->tickets.items + p->ticket; /* the driver may have added others */                   \
    } while (0)

/* The same of a function that gets ids, if there is one. */
#define ASK(callback, id, more)                                                                    \
    do {                                                                                           \
        if (asks[callback])                                                                        \
            AWAIT(call_with_ids(L, p, callback, id, more));                                        \
    } while (0)

/* Runs it as far as `until`; Lua calls it again after a callback that yielded. Returns true, or the
 * nil, message, code of a callback that failed. */
static int advance(lua_State *L, int status, lua_KContext context)
{
    Program *p = (Program *)context;
    Core *core = lua_touserdata(L, SELF);
    Search *s = &core->search;
    const bool *asks = core->asks;
    bool returned = status == LUA_YIELD;
    SearchStatus found;
    if (s->chunks.items == NULL) { /* a finalizer calls it as the Lua state closes */
        lua_pushliteral(L, "search.run: the search is closed");
        return lua_error(L);
    }
    while (p->step < p->until && !(s->ended && p->step >= STEP_TICKET)) {
        SearchTicket *t = p->step >= STEP_TICKET ? s->tickets.items + p->ticket : NULL;
        switch ((Step)p->step) {
        case STEP_MORE:
            if (p->told > 0)
                goto paused;
            found = s->rounds == 0 ? SEARCH_OVER : search_more(s);
            if (found == SEARCH_NO_MEMORY)
                return core_no_memory(L);
            p->step = s->rounds == 0 ? STEP_SELECT : STEP_BACK_UP;
            if (found == SEARCH_OK)
                go_on(core, p);
            break;
        case STEP_BACK_UP:
            ASK(CALL_END_ROUND, 0, 0);
            if (!search_back_up(s))
                return core_no_memory(L);
            if (asks[CALL_BACK_UP] && s->rounds > 1)
                core_back_up_in_lua(L, core);
            while (s->freed.count > 0) {
                uint32_t id = s->freed.items[--s->freed.count];
                program_use_chunk(L, p, id);
                lua_pushnil(L);
                lua_rawseti(L, CHUNK, core_slot(id));
                if (search_chunk(s, id) == NULL) {
                    lua_pushnil(L);
                    lua_rawseti(L, STATES, (id >> SEARCH_CHUNK_BITS) + 1);
                }
            }
            p->step = STEP_PRUNED;
            break;
        case STEP_PRUNED:
            if (s->pruned.count > 0)
                ASK(CALL_PRUNED, 0, 0);
            p->step = s->ended ? STEP_END : STEP_SPENT;
            break;
        case STEP_SPENT:
            if (asks[CALL_SPENT]) {
                AWAIT(call_with_ids(L, p, CALL_SPENT, 0, 0));
                s->spent = lua_tonumber(L, RESULT);
            }
            p->step = STEP_SELECT;
            break;
        case STEP_SELECT:
            p->calling = CALL_NONE;
            found = asks[CALL_SELECT] && s->rounds > 0 ? core_select_in_lua(L, core)
                                                       : search_next_round(s);
            if (found == SEARCH_NO_MEMORY)
                return core_no_memory(L);
            if (found != SEARCH_OK)
                search_end(s, found == SEARCH_LIMIT ? OUTCOME_MAX_ITERATIONS : OUTCOME_OVER);
            p->step = STEP_BEGIN;
            /* fall through */
        case STEP_BEGIN:
            ASK(CALL_BEGIN_ROUND, 0, 0);
            go_on(core, p);
            break;

        case STEP_TICKET:
            p->step = t->node == SEARCH_NO_NODE ? STEP_MADE : STEP_STOP; /* MADE: a level */
            if (s->rounds == 1) {
                t->end = 1;
                p->step = asks[CALL_KEY] ? STEP_KEY : STEP_MADE;
            }
            break;
        case STEP_STOP:
            if (p->ticket == s->turn && asks[CALL_STOP] && !t->scores && !p->asked_stop) {
                AWAIT(call_with_ids(L, p, CALL_STOP, t->node, 0));
                p->asked_stop = true;
                if (lua_toboolean(L, RESULT))
                    search_end(s, OUTCOME_STOP);
            }
            if (p->ticket == s->turn && !s->ended && s->policy->terminal_ends &&
                search_node(s, t->node)->terminal) {
                s->answer = t->node;
                search_end(s, OUTCOME_OVER);
            }
            p->step = p->ahead ? STEP_EXPANDED : STEP_EXPAND;
            break;

        case STEP_EXPAND:
            p->step = STEP_ORDER;
            if (!t->expands)
                break;
            p->step = STEP_EXPAND;
            if (p->told >= 0 && p->ticket >= p->told)
                goto paused;
            if (!returned && task_stop_reason() != STOP_NONE && !core->stopped_before)
                task_stop_raise(L); /* even if a callback has caught its error */
            AWAIT(call_with_state(L, core, p, CALL_EXPAND, t->node));
            program_take_list(L, p, t);
            p->step = STEP_ORDER;
            /* fall through */
        case STEP_ORDER:
            ASK(CALL_ORDER, p->ticket, 0);
            if (t->expands) { /* its list is read */
                p->calling = CALL_EXPAND;
                p->node = t->node;
            }
            t->first = t->scores ? t->node : s->count;
            t->end = t->first + t->scores;
            p->step = STEP_ITEM;
            /* fall through */
        case STEP_ITEM:
            p->step = STEP_MADE;
            if (t->next == t->last || t->full)
                break;
            if (!asks[CALL_COST] && !asks[CALL_KEY]) {
                program_make_children(L, core, p, t, false);
                break;
            }
            program_fetch_state(L, p, (lua_Integer)t->next + 1);
            lua_replace(L, STATE);
            p->step = STEP_COST;
            /* fall through */
        case STEP_COST:
            if (asks[CALL_COST]) {
                AWAIT(call_with_state(L, core, p, CALL_COST, t->node));
                t->cost = lua_type(L, RESULT) == LUA_TNUMBER ? lua_tonumber(L, RESULT) : -1;
                if (!(t->cost >= 0))
                    program_refuse(L, p, "a number >= 0", RESULT);
            }
            p->step = STEP_KEY;
            if (s->ended)
                break;
            /* fall through */
        case STEP_KEY: {
            bool is_root = t->node == SEARCH_NO_NODE, is_made = !is_root;
            if (asks[CALL_KEY]) {
                if (is_root) {
                    core_get_state(L, STATES, 0);
                    lua_replace(L, STATE);
                }
                AWAIT(call_with_state(L, core, p, CALL_KEY, is_root ? 0 : t->node));
                is_made = program_take_key(L, core, p, t) && !is_root;
            }
            if (is_made)
                program_make_children(L, core, p, t, true);
            p->step = is_root ? STEP_MADE : STEP_ITEM;
            break;
        }

        case STEP_MADE:
            ASK(CALL_MADE, p->ticket, 0);
            p->step = asks[CALL_MADE] ? STEP_SCORE_ALL : STEP_EXPANDED;
            break;
        case STEP_EXPANDED:
            if (t->expands)
                ASK(CALL_EXPANDED, t->node, t->end - t->first);
            p->step = p->ahead ? STEP_CHILD : STEP_SCORE_ALL;
            break;
        case STEP_SCORE_ALL:
            p->child = core_first_to_score(s, t);
            if (p->child < t->end)
                ASK(CALL_EVALUATE_ALL, t->first, t->end - 1);
            p->step = asks[CALL_CHILDREN] ? STEP_CHILDREN : STEP_CHILD;
            break;
        case STEP_CHILDREN:
            ASK(CALL_CHILDREN, p->ticket, 0);
            p->step = STEP_PRIOR;
            break;
        case STEP_CHILD:
            if (p->ahead && (p->child == p->failed ||
                             (p->child < t->end && !search_node(s, p->child)->scored))) {
                p->step = STEP_END; /* nodes before a failed one may be unscored: it cancels all */
                break;
            }
            if (p->child >= t->end) {
                p->step = p->ahead ? STEP_STOP_LAST : STEP_PRIOR;
                break;
            }
            if (p->ahead) {
                p->step = STEP_SCORED;
                break;
            }
            p->step = STEP_EVALUATE;
            /* fall through */
        case STEP_EVALUATE: {
            const SearchNode *node = search_node(s, p->child);
            if (asks[CALL_EVALUATE] && !node->given) {
                AWAIT(call_with_state(L, core, p, CALL_EVALUATE, p->child));
                set_score(s, p->child, program_take_score(L, core, p, RESULT));
            } else if (node->given || !asks[CALL_EVALUATE_ALL]) {
                set_score(s, p->child, node->given ? node->score : 0);
            }
            p->step = STEP_IS_TERMINAL;
        }
            /* fall through */
        case STEP_IS_TERMINAL:
            if (asks[CALL_IS_TERMINAL]) {
                AWAIT(call_with_state(L, core, p, CALL_IS_TERMINAL, p->child));
                if (!lua_isboolean(L, RESULT))
                    program_refuse(L, p, "a boolean", RESULT);
                search_node(s, p->child)->terminal |= lua_toboolean(L, RESULT);
            }
            p->step = STEP_SIMULATE;
            /* fall through */
        case STEP_SIMULATE:
            if (asks[CALL_SIMULATE] && p->child != 0 && !search_node(s, p->child)->terminal) {
                AWAIT(call_with_state(L, core, p, CALL_SIMULATE, p->child));
                *search_simulated(s, p->child) = program_take_score(L, core, p, RESULT);
            }
            p->step = STEP_OWN;
            /* fall through */
        case STEP_OWN:
            ASK(CALL_OWN, p->child, 0);
            p->step = STEP_REFLECT;
            /* fall through */
        case STEP_REFLECT:
            if (search_node(s, p->child)->terminal)
                ASK(CALL_REFLECT, p->child, 0);
            search_node(s, p->child)->scored = true;
            p->step = STEP_SCORED;
            if (p->until == STEP_SCORED || s->ended)
                break;
            /* fall through */
        case STEP_SCORED:
            if (!returned)
                search_consider(s, p->child);
            ASK(CALL_SCORED, p->child, 0);
            p->child++;
            p->step = STEP_CHILD;
            break;

        case STEP_PRIOR:
            if (t->expands && t->end > t->first)
                ASK(CALL_PRIOR, t->first, t->end - 1);
            p->step = asks[CALL_TURN] ? STEP_TURN : STEP_STOP_LAST;
            break;
        case STEP_TURN:
            ASK(CALL_TURN, p->ticket, 0);
            begin_turn(s, p, t);
            break;
        case STEP_STOP_LAST:
            if (asks[CALL_STOP] && t->scores) {
                AWAIT(call_with_ids(L, p, CALL_STOP, t->node, 0));
                if (lua_toboolean(L, RESULT))
                    search_end(s, OUTCOME_STOP);
            }
            p->step = STEP_COMMIT;
            break;
        case STEP_COMMIT:
            if (p->ticket != s->turn)
                goto changed;
            search_commit(s);
            p->calling = CALL_NONE;
            if (p->runs_all)
                go_on(core, p);
            else
                p->step = STEP_END;
            break;
        case STEP_END: break;
        }
    }
paused:
    core->running = core->running && !p->runs_all;
    lua_pushboolean(L, true);
    return 1;
changed:
    return luaL_error(L, "search.run: a callback has changed the search");
failed:
    p->calling = CALL_NONE;
    if (p->runs_all || p->ahead)
        search_end(s, OUTCOME_FAILED);
    return 3;
}

/* ---- methods ---- */

/* Fills the stack of a program from SELF, PROGRAM. */
static int start(lua_State *L, Program *p, Step step, Step until)
{
    luaL_checkstack(L, TOP + LUA_MINSTACK, NULL);
    lua_settop(L, PROGRAM);
    core_push_table(L, SELF, CORE_STATES);
    core_push_table(L, SELF, CORE_CALLBACKS);
    core_push_table(L, SELF, CORE_KEYS);
    lua_settop(L, TOP);
    p->step = step;
    p->until = until;
    p->chunk = UINT32_MAX;
    return advance(L, LUA_OK, (lua_KContext)p);
}

/* core:run([told]) -> true; or nil, message, code of a callback that failed: all of a search; with
 * `told` as far as the tickets of the round below it have answers, of 0 into the next round. */
int core_run(lua_State *L)
{
    Core *core = core_check_started(L);
    Program *p = &core->program;
    if (!p->runs_all)
        *p = (Program){.runs_all = true, .calling = CALL_NONE};
    p->told = luaL_optinteger(L, 2, -1);
    core->running = true;
    lua_settop(L, SELF);
    return start(L, p, (Step)p->step, STEP_END);
}

/* core:next_round() -> true; or nil, message, code: backs up the round that is over and selects the
 * next, or adds tickets to it that follow from the others. */
int core_next_round(lua_State *L)
{
    Core *core = core_check_started(L);
    core->program = (Program){.ahead = true, .told = -1, .calling = CALL_NONE};
    lua_settop(L, SELF);
    return start(L, &core->program, STEP_MORE, STEP_TICKET);
}

/* core:program(ticket[, child]) -> the program of a ticket of the round, from 0; or of one of the
 * nodes that it scores. */
int core_new_program(lua_State *L)
{
    const Search *s = &core_check_started(L)->search;
    lua_Integer ticket = luaL_checkinteger(L, 2), child = luaL_optinteger(L, 3, -1);
    luaL_argcheck(L, ticket >= 0 && (size_t)ticket < s->tickets.count, 2, "no such ticket");
    luaL_argcheck(L, child >= -1 && child < s->count, 3, "no such node");
    Program *p = lua_newuserdatauv(L, sizeof *p, 0);
    *p = (Program){.step = child >= 0 ? STEP_CHILD : STEP_TICKET,
                   .until = child >= 0 ? STEP_SCORED : STEP_END,
                   .told = -1,
                   .failed = SEARCH_NO_NODE,
                   .ticket = (uint32_t)ticket,
                   .child = (uint32_t)child,
                   .calling = CALL_NONE};
    luaL_setmetatable(L, PROGRAM_TYPE);
    return 1;
}

static Program *check_program(lua_State *L, const Core *core)
{
    Program *p = luaL_checkudata(L, PROGRAM, PROGRAM_TYPE);
    luaL_argcheck(L, p->ticket < core->search.tickets.count, 2, "its round is over");
    return p;
}

/* core:work(program) -> true; or nil, message, code of a callback that failed. */
int core_work(lua_State *L)
{
    Program *p = check_program(L, core_check_started(L));
    return start(L, p, (Step)p->step, (Step)p->until);
}

/* core:settle(program[, child]) -> the same, in its turn, of a ticket whose work failed ahead of
 * it, that of `child` if it was about one: its stop, and the events of what came before. */
int core_settle(lua_State *L)
{
    Core *core = core_check_started(L);
    Program *p = check_program(L, core);
    const SearchTicket *t = &core->search.tickets.items[p->ticket];
    Step until = STEP_EXPANDED;
    if (p->step == STEP_STOP || t->node == SEARCH_NO_NODE)
        until = STEP_TICKET; /* nothing to run */
    if (p->step >= STEP_SCORE_ALL)
        until = STEP_END;
    p->failed = p->step == STEP_PRIOR       ? t->end
                : p->step == STEP_SCORE_ALL ? core_first_to_score(&core->search, t)
                                            : (uint32_t)luaL_optinteger(L, 3, SEARCH_NO_NODE);
    begin_turn(&core->search, p, t);
    return start(L, p, (Step)p->step, until);
}

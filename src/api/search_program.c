/*
 * search_program.c -- the program of a ticket: which callbacks are asked, in which order.
 *
 *     TICKET     what it is: a node, or the root to score
 *     STOP       stop(node), if its turn has come
 *     EXPAND     expand(state, k, node) -> a list of states
 *     ORDER      * until the tickets before it have made their children
 *     ITEM       for each of them: COST, KEY, then the child is made
 *     MADE       * the next ticket may make its children
 *     SCORE_ALL  evaluate_all, of a level in its last ticket
 *     CHILDREN   * until its children are scored, each by a program of its own
 *     CHILD      for each child: EVALUATE, IS_TERMINAL, SIMULATE, OWN (callbacks of a policy),
 *                REFLECT, then it is scored
 *     PRIOR      prior
 *     TURN       * until the tickets before it have committed
 *     TURN_STOP  stop(node), unless it was asked
 *     EXPANDED   event
 *     SCORED     for each child: it counts, and its event
 *     LAST_STOP  stop(node) where the ticket scored its node (lazy)
 *     COMMIT     the ticket is over
 *
 * `core:run` runs the programs of all tickets one after the other, and the steps between rounds.
 * The concurrent driver (lua/ponder/think/search/concurrent.lua) runs each in a task: at the steps
 * with a star it waits. A callback that fails before its ticket's turn fails in that turn: what
 * came before it counts first.
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
    /* of a ticket */
    STEP_TICKET,
    STEP_STOP,
    STEP_EXPAND,
    STEP_ORDER,
    STEP_ITEM,
    STEP_COST,
    STEP_KEY,
    STEP_MADE,
    STEP_SCORE_ALL,
    STEP_CHILDREN,
    STEP_CHILD,
    STEP_EVALUATE,
    STEP_IS_TERMINAL,
    STEP_SIMULATE,
    STEP_OWN,
    STEP_REFLECT,
    STEP_PRIOR,
    STEP_TURN,
    STEP_TURN_STOP,
    STEP_EXPANDED,
    STEP_SCORED,
    STEP_LAST_STOP,
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

/* The next step of a program that runs all: a ticket, or what is between rounds. */
static void go_on(const Core *core, Program *p)
{
    const Search *s = &core->search;
    p->step = s->ended ? STEP_END : s->turn < s->tickets.count ? STEP_TICKET : STEP_MORE;
    p->ticket = s->turn;
    p->asked_stop = p->made = false;
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
            goto done;                    /* its level is full */                                  \
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
again:
    while (p->step < p->until && !(s->ended && p->step >= STEP_TICKET)) {
        SearchTicket *t = p->step >= STEP_TICKET ? s->tickets.items + p->ticket : NULL;
        switch ((Step)p->step) {
        case STEP_MORE:
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
            if (asks[CALL_SELECT] && s->rounds > 1)
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
            go_on(core, p);
            break;

        case STEP_TICKET:
            p->step = STEP_STOP;
            if (t->node == SEARCH_NO_NODE) {
                t->end = 1;
                p->step = asks[CALL_KEY] ? STEP_KEY : STEP_MADE;
            }
            break;
        case STEP_STOP:
        case STEP_TURN_STOP:
            if (p->ticket == s->turn && t->node != SEARCH_NO_NODE && asks[CALL_STOP] &&
                !t->scores && (returned || !p->asked_stop)) {
                p->asked_stop = true;
                AWAIT(call_with_ids(L, p, CALL_STOP, t->node, 0));
                if (lua_toboolean(L, RESULT))
                    search_end(s, OUTCOME_STOP);
            }
            if (p->ticket == s->turn && !s->ended && s->policy->terminal_ends &&
                t->node != SEARCH_NO_NODE && search_node(s, t->node)->terminal) {
                s->answer = t->node;
                search_end(s, OUTCOME_OVER);
            }
            p->step++;
            break;

        case STEP_EXPAND:
            p->step = STEP_ORDER;
            if (!t->expands)
                break;
            p->step = STEP_EXPAND;
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
            p->made = true;
            search_made(s, t);
            ASK(CALL_MADE, p->ticket, 0);
            p->step = STEP_SCORE_ALL;
            /* fall through */
        case STEP_SCORE_ALL:
            p->child = search_first_to_score(s, t);
            if (p->child < t->end)
                ASK(CALL_EVALUATE_ALL, p->child, t->end - 1);
            p->step = STEP_CHILDREN;
            /* fall through */
        case STEP_CHILDREN:
            ASK(CALL_CHILDREN, p->ticket, 0);
            p->step = asks[CALL_CHILDREN] ? STEP_PRIOR : STEP_CHILD;
            break;
        case STEP_CHILD:
            if (p->child == t->end) {
                p->step = STEP_PRIOR;
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
            search_node(s, p->child++)->scored = true;
            p->step = p->until == STEP_PRIOR ? STEP_PRIOR : STEP_CHILD; /* only this one */
            break;

        case STEP_PRIOR:
            if (t->expands && t->end > t->first)
                ASK(CALL_PRIOR, t->first, t->end - 1);
            p->step = STEP_TURN;
            /* fall through */
        case STEP_TURN:
            ASK(CALL_TURN, p->ticket, 0);
            p->step = STEP_TURN_STOP;
            break;
        case STEP_EXPANDED:
            if (t->expands && p->made)
                ASK(CALL_EXPANDED, t->node, t->end - t->first);
            p->child = search_first_to_score(s, t);
            p->step = STEP_SCORED;
            /* fall through */
        case STEP_SCORED:
            for (; p->child < t->end && search_node(s, p->child)->scored; p->child++) {
                if (!returned)
                    search_consider(s, p->child);
                ASK(CALL_SCORED, p->child, 0);
                if (s->ended)
                    break;
            }
            p->step = STEP_LAST_STOP;
            if (p->failed && !s->ended) {
                lua_settop(L, TOP);
                lua_pushnil(L);
                lua_pushvalue(L, MESSAGE);
                lua_pushvalue(L, CODE);
                goto failed;
            }
            break;
        case STEP_LAST_STOP:
            if (asks[CALL_STOP] && t->scores) {
                AWAIT(call_with_ids(L, p, CALL_STOP, t->node, 0));
                if (lua_toboolean(L, RESULT))
                    search_end(s, OUTCOME_STOP);
            }
            p->step = STEP_COMMIT;
            break;
        case STEP_COMMIT:
            if (p->ticket != s->turn)
                return luaL_error(L, "search.run: a callback has changed the search");
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
done:
    core->running = core->running && !p->runs_all;
    lua_pushboolean(L, true);
    return 1;
failed:
    if (p->step > STEP_STOP && p->step < STEP_TURN && p->until == STEP_END) {
        lua_copy(L, RESULT + 1, MESSAGE);
        lua_copy(L, RESULT + 2, CODE);
        p->failed = true;
        p->step = STEP_TURN;
        goto again;
    }
    p->calling = CALL_NONE;
    if (p->until != STEP_PRIOR)
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

/* core:run() -> true; or nil, message, code of a callback that failed: all of a search. */
int core_run(lua_State *L)
{
    Core *core = core_check_started(L);
    core->program = (Program){.runs_all = true, .calling = CALL_NONE};
    core->running = true;
    lua_settop(L, SELF);
    return start(L, &core->program, STEP_MORE, STEP_END);
}

/* core:next_round() -> true; or nil, message, code: backs up the round that is over and selects the
 * next, or adds tickets to it that follow from the others. */
int core_next_round(lua_State *L)
{
    Core *core = core_check_started(L);
    core->program = (Program){.calling = CALL_NONE};
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
    *p = (Program){.step = child >= 0 ? STEP_EVALUATE : STEP_TICKET,
                   .until = child >= 0 ? STEP_PRIOR : STEP_END,
                   .ticket = (uint32_t)ticket,
                   .child = (uint32_t)child,
                   .calling = CALL_NONE};
    luaL_setmetatable(L, PROGRAM_TYPE);
    return 1;
}

/* core:work(program[, raised]) -> true; or nil, message, code of a callback that failed. `raised`:
 * one of its callbacks did; waits for the ticket's turn, whose stop may end the search first. */
int core_work(lua_State *L)
{
    Core *core = core_check_started(L);
    Program *p = luaL_checkudata(L, PROGRAM, PROGRAM_TYPE);
    luaL_argcheck(L, p->ticket < core->search.tickets.count, 2, "its round is over");
    if (lua_toboolean(L, PROGRAM + 1)) {
        p->until = p->asked_stop ? 0 : STEP_EXPANDED;
        p->step = p->step < STEP_TURN ? STEP_TURN : p->step;
    }
    return start(L, p, (Step)p->step, (Step)p->until);
}

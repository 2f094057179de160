/*
 * search_results.c -- what the callbacks of a ticket return: checks, keys, and the children made.
 */
#include <math.h>
#include <string.h>

#include "api/l_search.h"

/* Raises an error that names the callback, what was expected, what it returned, and the node. */
void program_refuse(lua_State *L, Program *p, const char *expected, int index)
{
    index = lua_absindex(L, index);
    lua_rawgeti(L, CALLBACKS, CALL_REFUSE + 1);
    lua_pushstring(L, core_callback_names[p->calling]);
    lua_pushstring(L, expected);
    lua_pushvalue(L, index);
    lua_pushinteger(L, p->node);
    lua_call(L, 4, 0);
}

double program_take_score(lua_State *L, const Core *core, Program *p, int index)
{
    double score = lua_type(L, index) == LUA_TNUMBER ? lua_tonumber(L, index) : NAN;
    if (isnan(score))
        program_refuse(L, p,
                       lua_type(L, index) == LUA_TNUMBER ? "a number that is not NaN" : "a number",
                       index);
    if (core->is_beta && !(score >= 0 && score <= 1))
        program_refuse(L, p, "a number from 0 to 1 (posterior = \"beta\")", index);
    return score;
}

/* The length of a list of states at `index`, which is checked for holes where that matters. */
static lua_Integer take_length(lua_State *L, Program *p, int index, lua_Integer used)
{
    index = lua_absindex(L, index);
    if (!lua_istable(L, index))
        program_refuse(L, p, "a list of states", index);
    if (luaL_getmetafield(L, index, "__len") != LUA_TNIL) { /* a proxy: its own rules */
        int is_integer;
        lua_len(L, index);
        lua_Integer proxied = lua_tointegerx(L, -1, &is_integer);
        if (!is_integer)
            program_refuse(L, p, "a list of states", index);
        lua_pop(L, 2);
        return proxied < 0 ? 0 : proxied;
    }
    lua_Integer length = (lua_Integer)lua_rawlen(L, index);
    if (length >= used)
        return length;
    /* The key after the last element, in the order of `next`, must not be another index. */
    if (length == 0)
        lua_pushnil(L);
    else
        lua_pushinteger(L, length);
    while (lua_next(L, index)) {
        bool is_state = length == 0 && lua_type(L, -2) == LUA_TSTRING &&
                        strcmp(lua_tostring(L, -2), "n") != 0; /* "n": of table.pack() */
        if (is_state || (lua_isinteger(L, -2) && lua_tointeger(L, -2) > length))
            program_refuse(L, p, "a list of states", index);
        lua_pop(L, 1);
    }
    return length;
}

/* The list and scores that expand returned become those of the ticket. */
void program_take_list(lua_State *L, Program *p, SearchTicket *t)
{
    lua_Integer length = take_length(L, p, RESULT, t->k);
    if (!lua_isnil(L, RESULT + 1) && !lua_istable(L, RESULT + 1))
        program_refuse(L, p, "a list of scores, or nil, as its second result", RESULT + 1);
    lua_copy(L, RESULT, LIST);
    lua_copy(L, RESULT + 1, SCORES);
    t->next = 0;
    t->last = length < t->k ? (uint32_t)length : t->k;
    t->dropped = (uint64_t)(length - t->last);
}

void program_fetch_state(lua_State *L, Program *p, lua_Integer place)
{
    if (lua_geti(L, LIST, place) == LUA_TNIL) {
        p->calling = CALL_EXPAND;
        lua_pushinteger(L, place);
        program_refuse(L, p, "a list without holes", -1);
    }
}

void program_load_chunk(lua_State *L, Program *p, uint32_t id)
{
    lua_Integer index = (id >> SEARCH_CHUNK_BITS) + 1;
    if (lua_rawgeti(L, STATES, index) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_createtable(L, SEARCH_CHUNK, 0);
        lua_pushvalue(L, -1);
        lua_rawseti(L, STATES, index);
    }
    lua_replace(L, CHUNK);
    p->chunk = id >> SEARCH_CHUNK_BITS;
}

/* Makes the next child, or all that are left if no callback is asked about each of them. */
void program_make_children(lua_State *L, Core *core, Program *p, SearchTicket *t, bool one)
{
    Search *s = &core->search;
    uint32_t id = s->count;
    bool has_scores = !lua_isnil(L, SCORES);
    bool needs_score =
        !core->asks[CALL_EVALUATE] && !core->asks[CALL_EVALUATE_ALL] && s->policy->score == NULL;
    p->node = t->node;
    if (search_add(s, t, one ? 1 : t->last - t->next) == SEARCH_NO_MEMORY) {
        p->calling = CALL_NONE;
        core_no_memory(L);
    }
    for (; id < s->count; id++) {
        lua_Integer place = (lua_Integer)t->next++ + 1;
        program_use_chunk(L, p, id);
        if (one)
            lua_pushvalue(L, STATE);
        else
            program_fetch_state(L, p, place);
        lua_rawseti(L, CHUNK, core_slot(id));
        if (!has_scores && !needs_score)
            continue;
        lua_settop(L, TOP);
        p->calling = CALL_EXPAND;
        if (has_scores && lua_geti(L, SCORES, place) != LUA_TNIL) {
            search_node(s, id)->score = program_take_score(L, core, p, -1);
            search_node(s, id)->given = true;
        } else if (needs_score) {
            lua_pushvalue(L, SCORES);
            program_refuse(L, p, "a score for each state, since there is no evaluate", -1);
        }
        lua_settop(L, TOP);
    }
    t->end = s->count;
}

/* The key that was returned: whether the next child is made. */
bool program_take_key(lua_State *L, Core *core, Program *p, SearchTicket *t)
{
    Search *s = &core->search;
    int type = lua_type(L, RESULT);
    bool is_root = t->node == SEARCH_NO_NODE;
    if (type != LUA_TSTRING && (type != LUA_TNUMBER || isnan(lua_tonumber(L, RESULT))))
        program_refuse(L, p, "a string or a number", RESULT);
    lua_settop(L, TOP + 1);
    lua_pushvalue(L, -1);
    bool is_known = lua_rawget(L, KEYS) != LUA_TNIL;
    uint32_t holder = (uint32_t)lua_tointeger(L, -1);
    if (is_known &&
        !(s->policy->makes_duplicate != NULL && s->policy->makes_duplicate(s, t, holder))) {
        t->next++;
        if (s->policy == &search_lua)
            core_add_duplicate(L, p->ticket, t, t->next, holder);
        t->duplicates++;
        return false;
    }
    lua_settop(L, TOP + 1);
    lua_pushinteger(L, is_root ? 0 : (lua_Integer)s->count);
    if (is_root || s->count < s->options.max_nodes)
        lua_rawset(L, KEYS);
    return true;
}

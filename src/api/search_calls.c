/*
 * search_calls.c -- makes the arguments of Lua callbacks from the engine's units of work, and
 * passes their results to the engine.
 */

#include "api/l_search.h"

static const char *const names[SEARCH_DONE + 1] = {
    [SEARCH_STOP] = "stop",
    [SEARCH_EXPAND] = "expand",
    [SEARCH_COST] = "cost",
    [SEARCH_KEY] = "key",
    [SEARCH_EVALUATE_ALL] = "evaluate_all",
    [SEARCH_PRIOR] = "prior",
    [SEARCH_SPENT] = "spent",
    [SEARCH_EVALUATE] = "evaluate",
    [SEARCH_IS_TERMINAL] = "is_terminal",
    [SEARCH_SIMULATE] = "simulate",
    [SEARCH_FEATURES] = "features",
    [SEARCH_REFLECT] = "reflect",
    [SEARCH_EXPANDED_EVENT] = "on_event",
    [SEARCH_SCORED_EVENT] = "on_event",
    [SEARCH_PRUNED_EVENT] = "on_event",
};

const char *core_call_name(const Core *core, SearchCall call)
{
    SearchStrategy strategy = core->search.options.strategy;
    bool path = strategy == SEARCH_ASTAR || strategy == SEARCH_IDASTAR;
    return call == SEARCH_EVALUATE && path ? "heuristic" : names[call];
}

/* Reads the callbacks and {wants_node = {name = boolean}}. */
void core_read_callbacks(lua_State *L, Core *core, int self, int index)
{
    bool *asks = core->search.options.asks;
    index = lua_absindex(L, index);
    lua_createtable(L, SEARCH_DONE, 0);
    lua_getfield(L, index, "wants_node");
    luaL_checktype(L, -1, LUA_TTABLE);
    for (int call = 0; call < SEARCH_DONE; call++) {
        if (names[call] == NULL)
            continue;
        const char *name = core_call_name(core, (SearchCall)call);
        lua_getfield(L, -1, name);
        core->wants_node[call] = lua_toboolean(L, -1);
        lua_pop(L, 1);
        lua_getfield(L, index, name);
        bool exists = !lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING;
        /* For what simulate returns, nodes have room only if the options said so. */
        asks[call] = exists && (call != SEARCH_SIMULATE || asks[call]);
        lua_rawseti(L, -3, call + 1);
    }
    lua_pop(L, 1);
    lua_setiuservalue(L, self, CORE_CALLBACKS);
}

/* ---- arguments ---- */

static void push_state_of(lua_State *L, int self, uint32_t id)
{
    core_push_table(L, self, CORE_STATES);
    core_push_state(L, lua_gettop(L), id);
    lua_remove(L, -2);
}

static int push_event(lua_State *L, const Core *core, int self)
{
    const Search *s = &core->search;
    const SearchAsk *ask = &core->ask;
    lua_createtable(L, 0, 6);
    if (ask->call == SEARCH_PRUNED_EVENT) {
        api_set_string(L, "type", "pruned");
        core_push_ids(L, s->pruned.items, s->pruned.count);
        lua_setfield(L, -2, "ids");
        return 1;
    }
    const SearchNode *node = search_node(s, ask->node);
    api_set_string(L, "type", ask->call == SEARCH_EXPANDED_EVENT ? "expanded" : "scored");
    api_set_integer(L, "id", ask->node);
    api_set_integer(L, "depth", node->depth);
    if (ask->call == SEARCH_EXPANDED_EVENT) {
        const SearchTicket *t = &s->tickets.items[ask->ticket];
        api_set_integer(L, "children", (lua_Integer)t->end - t->first);
        return 1;
    }
    api_set_number(L, "score", node->score);
    api_set_boolean(L, "terminal", node->terminal);
    push_state_of(L, self, ask->node);
    lua_setfield(L, -2, "state");
    return 1;
}

/* Pushes the states of the children, and their nodes if the callback wants them. */
static int push_children(lua_State *L, const Core *core, int self)
{
    const SearchAsk *ask = &core->ask;
    int count = (int)(ask->last - ask->node) + 1;
    bool wants_nodes = core->wants_node[ask->call];
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        push_state_of(L, self, ask->node + (uint32_t)i);
        lua_rawseti(L, -2, i + 1);
    }
    if (!wants_nodes)
        return 1;
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        core_push_node(L, core, self, ask->node + (uint32_t)i, NULL, false);
        lua_rawseti(L, -2, i + 1);
    }
    return 2;
}

void core_push_width(lua_State *L, const Core *core)
{
    uint32_t width = core->search.tickets.items[core->ask.ticket].width;
    if (width == SEARCH_ALL)
        lua_pushnil(L);
    else
        lua_pushinteger(L, width);
}

int core_push_arguments(lua_State *L, Core *core, int self, int state)
{
    const SearchAsk *ask = &core->ask;
    const SearchTicket *t = &core->search.tickets.items[ask->ticket];
    bool wants_node = core->wants_node[ask->call];
    int count = 1;
    switch (ask->call) {
    case SEARCH_STOP: core_push_node(L, core, self, ask->node, NULL, true); return 1;
    case SEARCH_EXPAND:
        push_state_of(L, self, ask->node);
        core_push_width(L, core);
        if (wants_node)
            core_push_node(L, core, self, ask->node, t, true);
        return wants_node ? 3 : 2;
    case SEARCH_COST:
        push_state_of(L, self, t->node);
        lua_pushvalue(L, state);
        if (wants_node)
            core_push_node(L, core, self, t->node, NULL, true);
        return wants_node ? 3 : 2;
    case SEARCH_KEY:
        if (t->node == SEARCH_NO_NODE)
            push_state_of(L, self, 0);
        else
            lua_pushvalue(L, state);
        return 1;
    case SEARCH_SPENT: return 0;
    case SEARCH_EVALUATE_ALL: return push_children(L, core, self);
    case SEARCH_PRIOR:
        count = push_children(L, core, self);
        if (count == 2)
            core_push_node(L, core, self, t->node, NULL, true);
        return count == 2 ? 3 : 1;
    case SEARCH_EXPANDED_EVENT:
    case SEARCH_SCORED_EVENT:
    case SEARCH_PRUNED_EVENT: return push_event(L, core, self);
    default:
        push_state_of(L, self, ask->node);
        if (wants_node)
            core_push_node(L, core, self, ask->node, NULL, ask->call > SEARCH_IS_TERMINAL);
        return wants_node ? 2 : 1;
    }
}

/* ---- results ---- */

/* Tells one number for each child. */
static void tell_list(lua_State *L, Core *core, int index)
{
    Search *s = &core->search;
    SearchAsk *ask = &core->ask;
    uint32_t first = ask->node;
    lua_Integer wanted = (lua_Integer)ask->last - first + 1;
    const char *expected = ask->call == SEARCH_PRIOR ? "a list of numbers" : "a list of scores";
    lua_Integer length = core_check_list(L, core, expected, index, wanted);
    if (length != wanted)
        core_refuse_result(L, core,
                           lua_pushfstring(L, "%I %s", (LUAI_UACINT)wanted,
                                           ask->call == SEARCH_PRIOR ? "numbers" : "scores"),
                           lua_pushfstring(L, "%I", (LUAI_UACINT)length));
    for (lua_Integer i = 1; i <= length; i++, ask->node++) { /* an error names the node */
        lua_geti(L, index, i);
        double x = core_check_score(L, core, -1);
        if (ask->call == SEARCH_EVALUATE_ALL)
            search_tell_score(s, ask->node, x);
        else if (x >= 0)
            search_tell_prior(s, ask->node, x);
        else
            core_wrong_result(L, core, "numbers >= 0", -1);
        lua_pop(L, 1);
    }
    ask->node = first;
}

static void tell_key(lua_State *L, Core *core, int index)
{
    SearchKey key;
    uint64_t number;
    core_check_key(L, core, index, &key, &number);
    if (!search_tell_key(&core->search, &core->ask, &key))
        core_no_memory(L, core);
}

static void tell_number(lua_State *L, Core *core, int index)
{
    Search *s = &core->search;
    const SearchAsk *ask = &core->ask;
    double x = core_check_score(L, core, index);
    if (ask->call == SEARCH_EVALUATE)
        search_tell_score(s, ask->node, x);
    else if (ask->call == SEARCH_SIMULATE)
        *search_simulated(s, ask->node) = x;
    else if (ask->call == SEARCH_COST && !(x >= 0))
        core_wrong_result(L, core, "a number >= 0", index);
    else if (ask->call == SEARCH_COST)
        search_tell_cost(s, ask, x);
    else
        s->spent = x < 0 ? 0 : x > 1 ? 1 : x;
}

static void note_reflection(lua_State *L, int self, uint32_t id, int index)
{
    if (lua_isnil(L, index))
        return;
    core_push_table(L, self, CORE_REFLECTIONS);
    lua_pushvalue(L, index);
    lua_rawseti(L, -2, id);
    lua_pop(L, 1);
}

void core_tell(lua_State *L, Core *core, int self, int index)
{
    Search *s = &core->search;
    const SearchAsk *ask = &core->ask;
    index = lua_absindex(L, index);
    if (s->ended)
        return;
    switch (ask->call) {
    case SEARCH_STOP: search_tell_stop(s, core_check_boolean(L, core, index)); break;
    case SEARCH_EXPAND:
        search_tell_list(s, ask,
                         (uint64_t)core_check_list(L, core, "a list of states", index,
                                                   s->tickets.items[ask->ticket].width));
        break;
    case SEARCH_EVALUATE_ALL:
    case SEARCH_PRIOR: tell_list(L, core, index); break;
    case SEARCH_KEY: tell_key(L, core, index); break;
    case SEARCH_COST:
    case SEARCH_EVALUATE:
    case SEARCH_SIMULATE:
    case SEARCH_SPENT: tell_number(L, core, index); break;
    case SEARCH_IS_TERMINAL:
        search_tell_terminal(s, ask->node, core_check_boolean(L, core, index));
        break;
    case SEARCH_FEATURES: {
        int is_integer;
        lua_Integer cell = lua_tointegerx(L, index, &is_integer);
        if (!is_integer || lua_type(L, index) != LUA_TNUMBER)
            core_wrong_result(L, core, "an integer", index);
        search_tell_cell(s, ask->node, cell);
        break;
    }
    case SEARCH_REFLECT: note_reflection(L, self, ask->node, index); break;
    default: break;
    }
}

/* ---- children ---- */

void core_fetch_state(lua_State *L, Core *core, int list, int state)
{
    SearchTicket *t = &core->search.tickets.items[core->ask.ticket];
    SearchCall call = core->ask.call;
    if (t->node == SEARCH_NO_NODE || t->fetched)
        return;
    core->ask.call = SEARCH_EXPAND; /* its list is to blame for an error */
    if (lua_geti(L, list, (lua_Integer)t->next + 1) == LUA_TNIL)
        core_list_hole(L, core, (lua_Integer)t->next + 1);
    lua_replace(L, state);
    core->ask.call = call;
    core->search.tickets.items[core->ask.ticket].fetched = true;
}

void core_make_children(lua_State *L, Core *core, int list, int state, int states, int chunk)
{
    Search *s = &core->search;
    SearchTicket *t = &s->tickets.items[core->ask.ticket];
    uint32_t id = s->count;
    lua_Integer place = t->next;
    bool fetched = t->fetched;
    core->ask.call = SEARCH_EXPAND; /* its list is to blame for an error */
    if (search_make(s, t) == SEARCH_NO_MEMORY)
        core_no_memory(L, core);
    for (; id < s->count; id++) {
        if (fetched)
            lua_pushvalue(L, state);
        else if (lua_geti(L, list, ++place) == LUA_TNIL)
            core_list_hole(L, core, place);
        core_load_chunk(L, states, chunk, &core->chunk, id);
        lua_rawseti(L, chunk, core_slot(id));
    }
    core->ask.call = SEARCH_MAKE;
}

/* ---- memory ---- */

void core_update_memory(lua_State *L, Core *core, int self)
{
    const Search *s = &core->search;
    if (!s->options.asks[SEARCH_REFLECT] || core->memory_round == s->rounds)
        return;
    core->memory_round = s->rounds;
    int old = lua_gettop(L) + 1, added = old + 1, list = old + 2;
    core_push_table(L, self, CORE_MEMORY);
    core_push_table(L, self, CORE_REFLECTIONS);
    lua_newtable(L); /* a new list: a callback may still use the old one */
    lua_Integer count = (lua_Integer)lua_rawlen(L, old);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, old, i);
        lua_rawseti(L, list, i);
    }
    for (; core->reflected < s->committed; core->reflected++)
        if (lua_rawgeti(L, added, core->reflected) != LUA_TNIL)
            lua_rawseti(L, list, ++count);
        else
            lua_pop(L, 1);
    lua_Integer excess = count > core->memory_size ? count - core->memory_size : 0;
    for (lua_Integer i = 1; i <= count; i++) { /* drops the oldest */
        lua_rawgeti(L, list, i + excess);
        lua_rawseti(L, list, i);
    }
    lua_setiuservalue(L, self, CORE_MEMORY);
    lua_newtable(L);
    lua_setiuservalue(L, self, CORE_REFLECTIONS);
    lua_settop(L, old - 1);
}

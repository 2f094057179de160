/*
 * search_lua.c -- search policies in Lua (lua/ponder/think/search/policy.lua): their tickets, the
 * tree as they see it, and its random numbers.
 */
#include <math.h>
#include <string.h>

#include "api/l_search.h"

/* Beside each node; ids of 0 mean none, since the root is nobody's child. */
typedef struct LuaNode {
    uint32_t first_child, last_child, next_sibling;
    uint32_t expansions;   /* in rounds that are over */
    uint32_t pending : 31; /* in this round */
    uint32_t barren : 1;   /* an expansion returned nothing */
} LuaNode;

/* Its functions are Lua's: see core_select_in_lua. */
const SearchPolicy search_lua = {
    .name = "lua",
    .extra_size = sizeof(LuaNode),
    .counts_iterations = true,
};

static LuaNode *node_of(const Search *s, uint32_t id)
{
    return search_extra(s, id);
}

static bool is_expandable(const Core *core, uint32_t id)
{
    const LuaNode *node = node_of(&core->search, id);
    bool may = core->repeats ? !node->barren : node->expansions + node->pending == 0;
    return may && search_expandable(&core->search, id);
}

/* Calls one of the policy's functions with `arguments` that are on the stack. */
static void call_policy(lua_State *L, Callback callback, int arguments, int results)
{
    core_push_table(L, 1, CORE_CALLBACKS);
    lua_rawgeti(L, -1, (lua_Integer)callback + 1);
    lua_insert(L, -arguments - 2);
    lua_pop(L, 1);
    lua_call(L, arguments, results);
}

/* ---- rounds ---- */

/* Raises an error about ticket i of the policy's list and the value on top of the stack. */
static void refuse_ticket(lua_State *L, lua_Integer i, const char *what)
{
    lua_pushinteger(L, i);
    lua_pushstring(L, what);
    lua_rotate(L, -3, 2);
    call_policy(L, CALL_REFUSE_TICKET, 3, 0);
}

/* Adds ticket i of the list at `list`, whose table gets the number `first` + i - 1. */
static bool add_ticket(lua_State *L, Core *core, int list, lua_Integer i, lua_Integer first)
{
    Search *s = &core->search;
    lua_settop(L, list);
    if (lua_rawgeti(L, list, i) != LUA_TTABLE)
        refuse_ticket(L, i, "expected a table with a node (got %s)");
    int ticket = lua_gettop(L), is_integer;
    lua_getfield(L, ticket, "number");
    lua_Integer before = lua_tointegerx(L, -1, &is_integer) - first + 1;
    if (is_integer && before >= 1 && before < i) {
        lua_rawgeti(L, list, before);
        lua_pushinteger(L, before);
        if (lua_rawequal(L, -2, ticket))
            refuse_ticket(L, i, "the same table as ticket %s");
    }
    lua_getfield(L, ticket, "node");
    lua_Integer id = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
    if (id < 0 || id >= s->count)
        refuse_ticket(L, i, "no node %s");
    lua_getfield(L, ticket, "k");
    lua_Integer k = lua_isnil(L, -1)       ? s->options.k
                    : lua_isinteger(L, -1) ? lua_tointeger(L, -1)
                                           : 0;
    if (k < 1)
        refuse_ticket(L, i, "k must be an integer >= 1 (got %s)");
    lua_pushinteger(L, first + i - 1);
    lua_setfield(L, ticket, "number");
    SearchTicket *t = search_select(s, (uint32_t)id);
    if (t == NULL)
        return false;
    LuaNode *node = node_of(s, (uint32_t)id);
    t->k = k < SEARCH_ALL ? (uint32_t)k : SEARCH_ALL;
    t->expands = is_expandable(core, (uint32_t)id);
    t->expansions = node->expansions + node->pending;
    node->pending += t->expands;
    s->selected++;
    return true;
}

/* Adds the tickets of the policy's list. */
SearchStatus core_select_in_lua(lua_State *L, Core *core)
{
    Search *s = &core->search;
    int list = lua_gettop(L) + 1;
    lua_Integer first = (lua_Integer)s->iterations;
    lua_pushinteger(L, (lua_Integer)s->rounds - 1);
    lua_pushinteger(L, first);
    call_policy(L, CALL_SELECT, 2, 2);
    bool is_limit = lua_toboolean(L, -1);
    lua_Integer count = (lua_Integer)lua_rawlen(L, list);
    SearchStatus status = search_next_round(s);
    for (lua_Integer i = 1; i <= count; i++)
        if (!add_ticket(L, core, list, i, first))
            return SEARCH_NO_MEMORY;
    lua_settop(L, list);
    lua_setiuservalue(L, 1, CORE_TICKETS);
    return is_limit ? SEARCH_LIMIT : count > 0 ? SEARCH_OK : status;
}

/* Pushes the policy's own table of a ticket. */
void core_push_ticket(lua_State *L, int self, uint32_t ticket)
{
    core_push_table(L, self, CORE_TICKETS);
    lua_rawgeti(L, -1, (lua_Integer)ticket + 1);
    lua_remove(L, -2);
}

/* Notes that a state which a ticket's expand returned has the key of the node `holder`. */
void core_add_duplicate(lua_State *L, uint32_t ticket, SearchTicket *t, lua_Integer place,
                        uint32_t holder)
{
    core_push_ticket(L, 1, ticket);
    if (t->duplicates == 0) {
        lua_newtable(L);
        lua_setfield(L, -2, "places");
    }
    lua_getfield(L, -1, "places");
    lua_pushinteger(L, holder);
    lua_rawseti(L, -2, place);
    lua_pop(L, 2);
}

/* Pushes `places` of the ticket at `index`: besides duplicates the children, in order, and false
 * for those not made. */
static void push_places(lua_State *L, int index, const SearchTicket *t, lua_Integer returned)
{
    uint32_t id = t->first;
    if (t->duplicates > 0)
        lua_getfield(L, index, "places");
    else
        lua_createtable(L, (int)t->last, 0);
    for (lua_Integer place = 1; place <= returned; place++) {
        if (lua_rawgeti(L, -1, place) != LUA_TNUMBER) {
            if (id < t->end)
                lua_pushinteger(L, id++);
            else
                lua_pushboolean(L, false);
            lua_rawseti(L, -3, place);
        }
        lua_pop(L, 1);
    }
}

/* What came of a ticket, for the policy and in the tree. */
static void settle_ticket(lua_State *L, Search *s, uint32_t i)
{
    const SearchTicket *t = &s->tickets.items[i];
    LuaNode *node = node_of(s, t->node);
    lua_Integer returned = t->expands ? (lua_Integer)(t->last + t->dropped) : 0;
    lua_Integer count = t->expands ? t->end - t->first : 0;
    core_push_ticket(L, 1, i);
    lua_createtable(L, (int)count, 0);
    for (uint32_t id = t->first; id < t->first + count; id++) {
        lua_pushinteger(L, id);
        lua_rawseti(L, -2, (lua_Integer)(id - t->first) + 1);
        *(node->last_child > 0 ? &node_of(s, node->last_child)->next_sibling : &node->first_child) =
            id;
        node->last_child = id;
    }
    if (count == returned)
        lua_pushvalue(L, -1); /* the same list */
    else
        push_places(L, -2, t, returned);
    lua_setfield(L, -3, "places");
    lua_setfield(L, -2, "children");
    lua_pushinteger(L, returned);
    lua_setfield(L, -2, "returned");
    lua_pop(L, 1);
    node->expansions += t->expands;
    node->pending = 0;
    node->barren |= t->expands && returned == 0;
}

void core_back_up_in_lua(lua_State *L, Core *core)
{
    Search *s = &core->search;
    int top = lua_gettop(L);
    for (uint32_t i = 0; i < s->selected; i++)
        settle_ticket(L, s, i);
    if (!core->asks[CALL_BACK_UP])
        return;
    core_push_table(L, 1, CORE_TICKETS);
    lua_pushinteger(L, (lua_Integer)s->iterations);
    call_policy(L, CALL_BACK_UP, 2, 1);
    size_t count = lua_istable(L, -1) ? lua_rawlen(L, -1) : 0;
    if (!vec_reserve(&s->pruned, &s->alloc, count))
        core_no_memory(L);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i);
        vec_push(&s->pruned, (uint32_t)lua_tointeger(L, -1));
        lua_pop(L, 1);
    }
    s->pruned_total += count;
    lua_settop(L, top);
}

/* How often a node was expanded, before a ticket (from 1; 0: in all rounds that are over). */
uint32_t core_expansions(const Search *s, uint32_t id, lua_Integer ticket)
{
    return ticket > 0 ? s->tickets.items[ticket - 1].expansions : node_of(s, id)->expansions;
}

/* ---- the tree ---- */

typedef enum Field {
    FIELD_COUNT,
    FIELD_SCORE,
    FIELD_VALUE,
    FIELD_DEPTH,
    FIELD_STATE,
    FIELD_TERMINAL,
    FIELD_PARENT,
    FIELD_GIVEN,
    FIELD_EXPANDABLE,
    FIELD_EXPANSIONS,
    FIELD_CHILDREN,
    FIELDS
} Field;

static const char *const field_names[] = {"count",      "score",      "value",   "depth",
                                          "state",      "terminal",   "parent",  "given",
                                          "expandable", "expansions", "children"};

uint32_t core_check_id(lua_State *L, const Core *core)
{
    lua_Integer id = luaL_checkinteger(L, 2);
    if (id < 0 || id >= core->search.count) { /* without a position: that is the library's */
        lua_pushfstring(L, "no node %I", (LUAI_UACINT)id);
        lua_error(L);
    }
    luaL_argcheck(L, search_has(&core->search, (uint32_t)id), 2, "the node is gone");
    return (uint32_t)id;
}

/* Reads a field of the tree or of a node: core:score(id), tree:score(id). Upvalues: which; the
 * search of a policy's tree, else nil. */
static int read_field(lua_State *L)
{
    Field field = (Field)lua_tointeger(L, lua_upvalueindex(1));
    const Core *core = lua_touserdata(L, lua_upvalueindex(2));
    int self = core != NULL ? lua_upvalueindex(2) : 1;
    core = core != NULL ? core : core_check(L);
    const Search *s = &core->search;
    uint32_t id = field != FIELD_COUNT ? core_check_id(L, core) : 0;
    lua_Integer place = 0;
    switch (field) {
    case FIELD_COUNT: lua_pushinteger(L, s->count); break;
    case FIELD_SCORE: lua_pushnumber(L, search_node(s, id)->score); break;
    case FIELD_VALUE: lua_pushnumber(L, search_value(s, id)); break;
    case FIELD_DEPTH: lua_pushinteger(L, search_node(s, id)->depth); break;
    case FIELD_TERMINAL: lua_pushboolean(L, search_node(s, id)->terminal); break;
    case FIELD_GIVEN: lua_pushboolean(L, search_node(s, id)->given); break;
    case FIELD_PARENT:
        if (id == 0)
            return 0;
        lua_pushinteger(L, search_node(s, id)->parent);
        break;
    case FIELD_STATE: core_push_state(L, self, id); break;
    case FIELD_EXPANDABLE: lua_pushboolean(L, is_expandable(core, id)); break;
    case FIELD_EXPANSIONS: lua_pushinteger(L, node_of(s, id)->expansions); break;
    case FIELD_CHILDREN:
        lua_newtable(L);
        for (id = node_of(s, id)->first_child; id > 0; id = node_of(s, id)->next_sibling) {
            lua_pushinteger(L, id);
            lua_rawseti(L, -2, ++place);
        }
        break;
    case FIELDS: return 0;
    }
    return 1;
}

/* Adds the readers of fields to the table on top of the stack: of a policy's tree if there is a
 * search at `core`, else methods of any search. */
void core_add_fields(lua_State *L, int core)
{
    for (int i = 0; i < FIELDS; i++) {
        if (core == 0 && i >= FIELD_EXPANDABLE)
            break;
        lua_pushinteger(L, i);
        core != 0 ? lua_pushvalue(L, core) : lua_pushnil(L);
        lua_pushcclosure(L, read_field, 2);
        lua_setfield(L, -2, field_names[i]);
    }
}

/* ---- random numbers ---- */

#define DRAW_TYPE "ponder.core.search.draw"

/* tree:draw(i, v, a) -> random numbers of ticket i, node v, arm a. */
static int new_draw(lua_State *L)
{
    const Core *core = lua_touserdata(L, lua_upvalueindex(1));
    uint64_t at[3];
    for (int i = 0; i < 3; i++)
        at[i] = (uint64_t)luaL_checkinteger(L, i + 2);
    SearchDraw draw = search_draw(core->search.options.seed, at[0], at[1], at[2]);
    *(SearchDraw *)lua_newuserdatauv(L, sizeof draw, 0) = draw;
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_setmetatable(L, -2);
    return 1;
}

/* A parameter must be finite, else the draws would not end. */
static double check_positive(lua_State *L, int argument)
{
    double x = luaL_checknumber(L, argument);
    luaL_argcheck(L, x > 0 && x <= 1e300, argument, "must be > 0 and finite");
    return x;
}

static const char *const draw_names[] = {"u", "normal", "student", "gamma", "beta"};

/* draw:u(), draw:normal(), draw:student(nu), draw:gamma(x), draw:beta(x, y). */
static int draw_number(lua_State *L)
{
    SearchDraw *d = luaL_checkudata(L, 1, DRAW_TYPE);
    double x = 0;
    switch (lua_tointeger(L, lua_upvalueindex(1))) {
    case 0: x = search_uniform(d); break;
    case 1: x = search_normal(d); break;
    case 2: x = search_student(d, check_positive(L, 2)); break;
    case 3: x = search_gamma(d, check_positive(L, 2)); break;
    case 4: x = search_beta(d, check_positive(L, 2), check_positive(L, 3)); break;
    }
    lua_pushnumber(L, x);
    return 1;
}

/* core:view() -> the methods of the tree that a policy sees. */
int core_view(lua_State *L)
{
    core_check(L);
    lua_settop(L, 1);
    lua_newtable(L);
    core_add_fields(L, 1);
    if (luaL_newmetatable(L, DRAW_TYPE)) {
        lua_newtable(L);
        for (int i = 0; i < 5; i++) {
            lua_pushinteger(L, i);
            lua_pushcclosure(L, draw_number, 1);
            lua_setfield(L, -2, draw_names[i]);
        }
        lua_setfield(L, -2, "__index");
    }
    lua_pushvalue(L, 1);
    lua_insert(L, -2);
    lua_pushcclosure(L, new_draw, 2);
    lua_setfield(L, -2, "draw");
    return 1;
}

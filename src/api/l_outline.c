/*
 * l_outline.c -- ponder.core.outline: splits a model's reply into sections (src/core/outline.h).
 *
 *     outline.read(text, words, trailing, roles) -> sections
 *
 * `words` maps a word in lower case to the number of the section that it opens, or to 0 if it may
 * only precede a marker; `trailing` has the words that may follow one as keys; `roles[i]` is the
 * role of section i. The result is a list of strings for each section, in the order of the text:
 * items verbatim, even across lines; of values, the last MAX_VALUES.
 */
#include "api/api.h"
#include "core/outline.h"

#include <string.h>

#define MAX_SECTIONS 16
#define MAX_ITEMS    10000 /* of a section; further ones are dropped */
#define MAX_VALUES   8
#define VALUE_SIZE   64 /* bytes to which a value is truncated */

enum { ARG_TEXT = 1, ARG_WORDS, ARG_TRAILING, ARG_ROLES };

static const char *const role_names[] = {"skip", "list", "value", "text", NULL};

typedef struct Reading {
    lua_State *L;
    lua_Integer count; /* of sections */
    OutlineRole roles[MAX_SECTIONS];
    lua_Integer counts[MAX_SECTIONS]; /* of items or values so far */
} Reading;

static OutlineWord find_word(void *ud, const char *word, size_t len)
{
    Reading *r = ud;
    OutlineWord found = {OUTLINE_UNKNOWN, 0};
    lua_pushlstring(r->L, word, len);
    if (lua_rawget(r->L, ARG_WORDS) == LUA_TNUMBER) {
        lua_Integer section = lua_tointeger(r->L, -1);
        found.section = (int)section - 1;
        found.role = section == 0                         ? OUTLINE_LEAD
                     : section > 0 && section <= r->count ? r->roles[section - 1]
                                                          : OUTLINE_UNKNOWN;
    }
    lua_pop(r->L, 1);
    return found;
}

static bool may_trail(void *ud, const char *word, size_t len)
{
    Reading *r = ud;
    lua_pushlstring(r->L, word, len);
    bool may = lua_rawget(r->L, ARG_TRAILING) != LUA_TNIL;
    lua_pop(r->L, 1);
    return may;
}

/* Pushes a list for each section, and returns the stack index before the first. */
static int begin_lists(lua_State *L, Reading *r)
{
    r->count = (lua_Integer)lua_rawlen(L, ARG_ROLES);
    luaL_argcheck(L, r->count <= MAX_SECTIONS, ARG_ROLES, "too many sections");
    luaL_checkstack(L, MAX_SECTIONS + LUA_MINSTACK, NULL);
    for (lua_Integer i = 0; i < r->count; i++) {
        lua_rawgeti(L, ARG_ROLES, i + 1);
        r->roles[i] = OUTLINE_SKIP + (OutlineRole)luaL_checkoption(L, -1, NULL, role_names);
        lua_pop(L, 1);
    }
    int before = lua_gettop(L);
    for (lua_Integer i = 0; i < r->count; i++)
        lua_newtable(L);
    return before;
}

/* Appends a value; a full list drops its first. */
static void add_value(Reading *r, const OutlineItem *value, int list)
{
    lua_State *L = r->L;
    lua_Integer n = r->counts[value->section];
    for (lua_Integer i = 1; n == MAX_VALUES && i < n; i++) {
        lua_rawgeti(L, list, i + 1);
        lua_rawseti(L, list, i);
    }
    r->counts[value->section] = n < MAX_VALUES ? ++n : n;
    size_t size = (size_t)(value->to - value->from);
    lua_pushlstring(L, value->from, size < VALUE_SIZE ? size : VALUE_SIZE);
    lua_rawseti(L, list, n);
}

static int l_read(lua_State *L)
{
    size_t len;
    const char *text = luaL_checklstring(L, ARG_TEXT, &len);
    for (int arg = ARG_WORDS; arg <= ARG_ROLES; arg++)
        luaL_checktype(L, arg, LUA_TTABLE);
    lua_settop(L, ARG_ROLES);
    Reading r = {.L = L};
    int before = begin_lists(L, &r);
    Outline o = outline_begin(text, len, (Vocabulary){find_word, may_trail, &r});
    OutlineItem item;
    while (outline_next(&o, &item)) {
        int list = before + 1 + item.section;
        if (r.roles[item.section] == OUTLINE_VALUE) {
            add_value(&r, &item, list);
        } else if (r.counts[item.section] < MAX_ITEMS) {
            lua_pushlstring(L, item.from, (size_t)(item.to - item.from));
            lua_rawseti(L, list, ++r.counts[item.section]);
        }
    }
    lua_createtable(L, (int)r.count, 0);
    for (lua_Integer i = r.count; i >= 1; i--) {
        lua_pushvalue(L, before + (int)i);
        lua_rawseti(L, -2, i);
    }
    return 1;
}

static const luaL_Reg functions[] = {
    {"read", l_read},
    {NULL, NULL},
};

PONDER_MODULE(luaopen_ponder_core_outline)
{
    luaL_newlib(L, functions);
    return 1;
}

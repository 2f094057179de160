/*
 * l_parse.c -- ponder.core.parse: what the parsers of model replies (lua/ponder/parse.lua) need
 * from C.
 */
#include "api/api.h"
#include "core/find_json.h"

#include <stdbool.h>
#include <string.h>

#define FOUND "ponder.core.parse.found"

/* The parts are in a userdata, so that an error while they are pushed leaves nothing behind. */
static int found_gc(lua_State *L)
{
    Alloc alloc = api_alloc(L);
    find_json_free(luaL_checkudata(L, 1, FOUND), &alloc);
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/*
 * How a part stands on its lines: "alone", with nothing else on them; "introduced", behind a colon
 * (which may be bold) and with nothing after it; or "inline", amid other text.
 */
static const char *standing(const char *text, size_t length, const JsonPart *part)
{
    size_t start = part->start, end = part->end;
    while (start > 0 && is_blank(text[start - 1]))
        start--;
    while (end < length && is_blank(text[end]))
        end++;
    if (end < length && text[end] != '\n')
        return "inline";
    if (start == 0 || text[start - 1] == '\n')
        return "alone";
    while (start > 0 && (is_blank(text[start - 1]) || text[start - 1] == '*'))
        start--;
    return start > 0 && text[start - 1] == ':' ? "introduced" : "inline";
}

/* Pushes the part's text, its superfluous commas made blanks. *comma is the first that may lie in
 * it, and becomes the first after it. */
static void push_part(lua_State *L, const char *text, const JsonParts *found, const JsonPart *part,
                      size_t *comma)
{
    luaL_Buffer b;
    size_t length = part->end - part->start;
    char *copy = luaL_buffinitsize(L, &b, length);
    memcpy(copy, text + part->start, length);
    for (; *comma < found->comma_count && found->commas[*comma] < part->end; ++*comma)
        if (found->commas[*comma] >= part->start)
            copy[found->commas[*comma] - part->start] = ' ';
    luaL_pushresultsize(&b, length);
}

/* find_json(text) -> a list of the JSON texts in it, a list of how each stands on its lines */
static int l_find_json(lua_State *L)
{
    size_t length, comma = 0;
    const char *text = luaL_checklstring(L, 1, &length);
    Alloc alloc = api_alloc(L);
    JsonParts *found = lua_newuserdatauv(L, sizeof *found, 0);
    memset(found, 0, sizeof *found);
    luaL_setmetatable(L, FOUND);
    if (!find_json(found, &alloc, text, length))
        return luaL_error(L, "not enough memory");
    lua_newtable(L);
    lua_newtable(L); /* [texts, standing] */
    for (size_t i = 0; i < found->count && i < FIND_JSON_MAX_PARTS; i++) {
        push_part(L, text, found, &found->parts[i], &comma);
        lua_rawseti(L, -3, (lua_Integer)i + 1);
        lua_pushstring(L, standing(text, length, &found->parts[i]));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    find_json_free(found, &alloc);
    return 2;
}

PONDER_MODULE int luaopen_ponder_core_parse(lua_State *L);
int luaopen_ponder_core_parse(lua_State *L)
{
    static const luaL_Reg functions[] = {{"find_json", l_find_json}, {NULL, NULL}};
    luaL_newmetatable(L, FOUND);
    lua_pushcfunction(L, found_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    luaL_newlib(L, functions);
    return 1;
}

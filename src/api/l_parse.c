/* l_parse.c -- ponder.core.parse: finds JSON in model replies, for lua/ponder/parse.lua. */
#include "api/api.h"
#include "core/find_json.h"

#include <stdbool.h>
#include <string.h>

#define FOUND "ponder.core.parse.found"

/* A userdata owns the parts, so that an error while pushing them does not leak. */
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

/* Where a part is on its lines: "alone"; "introduced", after a colon (perhaps bold) and with
 * nothing after it; or "inline", within other text. */
static const char *position(const char *text, size_t length, const JsonPart *part)
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

/* Pushes the part's text, its trailing commas replaced by blanks. *comma is the first comma that
 * may be in it, and becomes the first after it. */
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

/* find_json(text) -> a list of the JSON texts in it, a list of their positions on their lines */
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
    lua_newtable(L); /* [texts, positions] */
    for (size_t i = 0; i < found->count && i < FIND_JSON_MAX_PARTS; i++) {
        push_part(L, text, found, &found->parts[i], &comma);
        lua_rawseti(L, -3, (lua_Integer)i + 1);
        lua_pushstring(L, position(text, length, &found->parts[i]));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    find_json_free(found, &alloc);
    return 2;
}

PONDER_MODULE(luaopen_ponder_core_parse)
{
    static const luaL_Reg functions[] = {{"find_json", l_find_json}, {NULL, NULL}};
    api_new_class(L, FOUND, no_methods, found_gc);
    luaL_newlib(L, functions);
    return 1;
}

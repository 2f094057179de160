/* l_regex.c -- ponder.core.regex: the C library's POSIX extended regular expressions. */
#include <limits.h>
#include <regex.h>
#include <stdbool.h>

#include "api/api.h"

#define REGEX "ponder.core.regex"

typedef struct Regex {
    regex_t compiled;
    bool open;
} Regex;

static int regex_gc(lua_State *L)
{
    Regex *regex = luaL_checkudata(L, 1, REGEX);
    if (regex->open)
        regfree(&regex->compiled);
    regex->open = false;
    return 0;
}

/* regex:matches(text) -> boolean; text may contain NUL */
static int regex_matches(lua_State *L)
{
    const Regex *regex = luaL_checkudata(L, 1, REGEX);
    size_t len;
    const char *text = luaL_checklstring(L, 2, &len);
    regmatch_t range = {.rm_so = 0, .rm_eo = (regoff_t)len};
    luaL_argcheck(L, len <= INT_MAX, 2, "too long");
    int status = regexec(&regex->compiled, text, 1, &range, REG_STARTEND);
    if (status == REG_ESPACE)
        return luaL_error(L, "regex: not enough memory");
    lua_pushboolean(L, status == 0);
    return 1;
}

/* regex.new(pattern, ignore_case) -> regex; or nil, message */
static int regex_new(lua_State *L)
{
    const char *pattern = luaL_checkstring(L, 1);
    int flags = REG_EXTENDED | (lua_toboolean(L, 2) ? REG_ICASE : 0);
    Regex *regex = lua_newuserdatauv(L, sizeof *regex, 0);
    regex->open = false;
    luaL_setmetatable(L, REGEX);
    int status = regcomp(&regex->compiled, pattern, flags);
    regex->open = status == 0;
    if (status == 0)
        return 1;
    char message[128];
    regerror(status, &regex->compiled, message, sizeof message);
    return api_fail(L, message, NULL);
}

PONDER_MODULE(luaopen_ponder_core_regex)
{
    static const luaL_Reg methods[] = {{"matches", regex_matches}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"new", regex_new}, {NULL, NULL}};
    api_new_class(L, REGEX, methods, regex_gc);
    luaL_newlib(L, functions);
    return 1;
}

/* l_regex.c -- ponder.core.regex: the C library's POSIX extended regular expressions. */
#include <limits.h>
#include <regex.h>

#include "api/api.h"

#define REGEX "ponder.core.regex"

typedef struct Regex {
    Box box;
    regex_t compiled;
} Regex;

static void free_regex(void *held)
{
    Regex *regex = held;
    regfree(&regex->compiled);
}

/* regex:matches(text) -> boolean; text may contain NUL */
static int regex_matches(lua_State *L)
{
    size_t len;
    const Regex *regex = luaL_checkudata(L, 1, REGEX);
    const char *text = luaL_checklstring(L, 2, &len);
    luaL_argcheck(L, regex->box.held != NULL, 1, "the regex is closed");
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
    Regex *regex = api_new_box(L, REGEX, sizeof *regex, free_regex);
    int status = regcomp(&regex->compiled, pattern, flags);
    if (status == 0) {
        regex->box.held = regex;
        return 1;
    }
    char message[128];
    regerror(status, &regex->compiled, message, sizeof message);
    return api_fail(L, message, NULL);
}

PONDER_MODULE(luaopen_ponder_core_regex)
{
    static const luaL_Reg methods[] = {{"matches", regex_matches}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"new", regex_new}, {NULL, NULL}};
    api_new_class(L, REGEX, methods);
    luaL_newlib(L, functions);
    return 1;
}
